"use strict";
// Hands the charts of a page, described as plain data, to Apache ECharts; keeps axis, classes and colours in step.
(() => {
  const {charts, tables} = JSON.parse(document.getElementById("page-data").textContent);
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
  const AXES = {images: "images seen", updates: "updates applied", time: "minutes of training", epochs: "epochs"};
  const DASHES = ["solid", "dashed", "dotted"];
  const shown = new Map(); // chart key -> instance, for those that have been scrolled to
  const state = {axis: "images", smooth: 0, highlight: "", hidden: new Set()};

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
  const seriesColour = place => {
    const found = COLOURS[place % COLOURS.length];
    if (isDark() && found === "#0072B2") return "#3C9DD8"; // the palette's blue is too dark on a dark ground
    return !isDark() && found === "#F0E442" ? "#B8A900" : found;
  };
  const text = value => {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    if (typeof value !== "number") return String(value);
    if (Number.isInteger(value)) return value.toLocaleString("en");
    return Math.abs(value) >= 1e-4 && Math.abs(value) < 1e6 ? String(+value.toPrecision(4)) : value.toExponential(2);
  };
  const escaped = value => String(value).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);

  function smoothed(values) {
    if (!state.smooth) return values;
    let mean = null;
    return values.map(value => {
      if (value === null) return null;
      mean = mean === null ? value : state.smooth * mean + (1 - state.smooth) * value;
      return mean;
    });
  }

  // [{name, colour, dash, faint, points: [[x, y], ...]}] of a chart with lines, in what the reader has chosen.
  function linesOf(chart) {
    const visible = chart.series.filter(item => !state.hidden.has(item.group));
    return visible.map((item, place) => {
      const table = chart.kind === "curves" ? tables[item.table] : null;
      const xs = table ? table[state.axis] : chart.x;
      const ys = table ? smoothed(table[item.column]) : item.y;
      const lit = state.highlight && item.name === state.highlight;
      return {
        name: item.name, dash: DASHES[item.dash || 0], steps: item.steps, lit,
        faint: item.faint && !lit, colour: seriesColour(item.colour === undefined ? place : item.colour),
        points: xs.map((x, row) => [x, chart.log && ys[row] <= 0 ? null : ys[row]]),
      };
    });
  }

  const base = () => ({
    animation: false,
    textStyle: {color: colour("ink"), fontFamily: "inherit"},
    tooltip: {
      backgroundColor: colour("ground"), borderColor: colour("line"), confine: true,
      textStyle: {color: colour("ink"), fontSize: 12}, valueFormatter: text,
    },
  });
  const axisLook = () => ({
    axisLine: {lineStyle: {color: colour("quiet")}}, axisLabel: {color: colour("ink"), hideOverlap: true},
    nameTextStyle: {color: colour("quiet")}, splitLine: {lineStyle: {color: colour("line")}},
  });
  const legendLook = names => ({
    type: "scroll", top: 0, data: names, textStyle: {color: colour("ink")}, pageTextStyle: {color: colour("ink")},
    pageIconColor: colour("ink"), pageIconInactiveColor: colour("quiet"), inactiveColor: colour("quiet"),
    itemWidth: 18, itemHeight: 8, formatter: name => name.length > 28 ? name.slice(0, 27) + "…" : name,
  });

  function lineOption(chart) {
    const lines = linesOf(chart);
    const names = [...new Set(lines.filter(line => !line.faint).map(line => line.name))];
    const many = lines.some(line => line.points.length > 60);
    return {
      ...base(),
      tooltip: {...base().tooltip, trigger: "axis", order: "valueDesc", axisPointer: {label: {formatter: item => text(item.value)}}},
      legend: legendLook(names),
      grid: {left: 8, right: 18, top: 34, bottom: 26, containLabel: true},
      xAxis: {
        ...axisLook(), type: "value", name: chart.kind === "curves" ? AXES[state.axis] : chart.xlabel,
        nameLocation: "middle", nameGap: 26, min: chart.kind === "curves" ? 0 : "dataMin", max: "dataMax",
        minInterval: chart.kind === "lines" && chart.x.every(Number.isInteger) ? 1 : 0,
        axisLabel: {color: colour("ink"), hideOverlap: true, formatter: value => value >= 1e4 ? +(value / 1e3).toPrecision(4) + "k" : text(value), showMaxLabel: false},
      },
      yAxis: {
        ...axisLook(), type: chart.log ? "log" : "value", scale: !chart.zero, max: chart.top === null ? undefined : chart.top,
        axisLabel: {color: colour("ink"), formatter: text},
      },
      series: lines.map(line => ({
        type: "line", name: line.name, data: line.points, step: line.steps ? "end" : false, silent: line.faint,
        showSymbol: !many, symbolSize: 6, itemStyle: {color: line.colour}, z: line.lit ? 9 : line.faint ? 1 : 3,
        tooltip: {show: !line.faint}, connectNulls: false, emphasis: {disabled: true},
        lineStyle: {type: line.dash, width: line.lit ? 3.5 : line.faint ? 1 : 2, opacity: line.faint ? 0.35 : 1},
      })),
    };
  }

  function barOption(chart) {
    const names = chart.series.map(item => item.name);
    const cut = name => name.length > 18 ? name.slice(0, 17) + "…" : name;
    const categories = {
      ...axisLook(), type: "category", data: chart.categories, inverse: chart.across, splitLine: {show: false},
      name: chart.xlabel || "", nameLocation: "middle", nameGap: 28,
      axisLabel: {color: colour("ink"), formatter: cut, hideOverlap: true},
    };
    const values = {...axisLook(), type: "value", axisLabel: {color: colour("ink"), formatter: text, hideOverlap: true},
                    name: chart.across ? chart.y : "", nameLocation: "middle", nameGap: 26};
    const series = chart.series.map((item, place) => ({
      type: "bar", name: item.name, itemStyle: {color: seriesColour(item.colour === undefined ? place : item.colour)},
      data: item.values, emphasis: {disabled: true}, barMaxWidth: 34,
    }));
    for (const item of chart.series.filter(item => item.low)) {
      series.push({
        type: "custom", name: item.name, silent: true, z: 10, encode: chart.across ? {x: [1, 2], y: 0} : {x: 0, y: [1, 2]},
        data: item.low.map((low, place) => [place, low, item.high[place]]),
        renderItem: (params, api) => {
          const ends = [1, 2].map(place => api.coord(chart.across ? [api.value(place), api.value(0)] : [api.value(0), api.value(place)]));
          const style = {stroke: colour("ink"), lineWidth: 1.6};
          const lines = [[...ends[0], ...ends[1]], ...ends.map(([x, y]) => chart.across ? [x, y - 5, x, y + 5] : [x - 5, y, x + 5, y])];
          return {type: "group", children: Number.isFinite(ends[0][0] + ends[0][1] + ends[1][0] + ends[1][1]) ?
            lines.map(([x1, y1, x2, y2]) => ({type: "line", shape: {x1, y1, x2, y2}, style})) : []};
        },
      });
    }
    return {
      ...base(),
      tooltip: {...base().tooltip, trigger: "axis", axisPointer: {type: "shadow"}},
      legend: names.length > 1 ? legendLook(names) : {show: false},
      grid: {left: 8, right: 18, top: names.length > 1 ? 34 : 12, bottom: chart.across || chart.xlabel ? 26 : 4, containLabel: true},
      xAxis: chart.across ? values : categories, yAxis: chart.across ? categories : values, series,
    };
  }

  function heatOption(chart) {
    const cells = [];
    chart.values.forEach((row, y) => row.forEach((value, x) => cells.push([x, y, value])));
    const highest = chart.high === null ? Math.max(1e-9, ...cells.map(cell => cell[2] || 0)) : chart.high;
    const says = (x, y, value) => chart.texts ? chart.texts[y][x] : text(value);
    const labels = Boolean(cells.length <= 150 && chart.texts);
    const low = isDark() ? "#1d2127" : "#ffffff";
    return {
      ...base(),
      tooltip: {...base().tooltip, formatter: item => {
        const [x, y, value] = item.value;
        return `${escaped(chart.y)}: <b>${escaped(chart.rows[y])}</b><br>${escaped(chart.xlabel)}: <b>${escaped(chart.columns[x])}</b><br>${escaped(says(x, y, value))}`;
      }},
      grid: {left: 8, right: 28, top: 8, bottom: 26, containLabel: true},
      xAxis: {...axisLook(), type: "category", data: chart.columns, name: chart.xlabel, nameLocation: "middle", nameGap: 32,
              splitLine: {show: false}, axisLabel: {color: colour("ink"), hideOverlap: true, width: 80, overflow: "truncate"}},
      yAxis: {...axisLook(), type: "category", data: chart.rows, inverse: true, splitLine: {show: false},
              axisLabel: {color: colour("ink"), width: 90, overflow: "truncate"}},
      visualMap: {show: false, min: 0, max: highest, inRange: {color: [low, isDark() ? "#56B4E9" : "#0072B2"]}},
      series: [{
        type: "heatmap", emphasis: {disabled: true},
        data: cells.filter(cell => cell[2] !== null).map(value => ({
          value, label: {color: value[2] > 0.55 * highest ? (isDark() ? "#14171b" : "#ffffff") : colour("ink")},
        })),
        itemStyle: {borderColor: colour("line"), borderWidth: cells.length > 2000 ? 0 : 0.5},
        label: {show: labels, fontSize: 11, formatter: item => says(...item.value).split(" ")[0]},
      }],
    };
  }

  const OPTIONS = {curves: lineOption, lines: lineOption, bars: barOption, heat: heatOption};

  function draw(element) {
    const key = element.dataset.chart, chart = charts[key];
    let instance = shown.get(key);
    if (!instance) {
      if (chart.across) element.style.height = `${Math.max(12, (chart.categories.length > 20 ? 1 : 1.25) * chart.categories.length * Math.max(1, chart.series.length * 0.6) + 5)}rem`;
      if (chart.kind === "heat" && chart.texts) element.style.height = `${Math.min(40, Math.max(17, chart.rows.length * 1.5 + 5))}rem`;
      instance = echarts.init(element, null, {renderer: "svg"});
      element.setAttribute("role", "img");
      new ResizeObserver(() => instance.resize()).observe(element);
      shown.set(key, instance);
    }
    instance.setOption(OPTIONS[chart.kind](chart), {notMerge: true});
    element.dataset.drawn = chart.kind === "curves" ? state.axis : "yes";
    const live = element.parentElement.querySelector(".live");
    if (chart.kind === "curves" || chart.kind === "lines") live.textContent = described(chart);
    const details = element.parentElement.querySelector("details[open]");
    if (details) fillNumbers(details);
  }

  // The end of every line, for those who do not see it.
  function described(chart) {
    if (chart.kind !== "curves") return "";
    const ends = linesOf(chart).map(line => {
      const last = line.points.filter(point => point[1] !== null).pop();
      return last ? `${line.name} ${text(last[1])}` : "";
    }).filter(Boolean);
    const more = ends.length > 8 ? ` and ${ends.length - 8} more lines` : "";
    return ends.length ? `At the end: ${ends.slice(0, 8).join(", ")}${more}.` : "";
  }

  function rowsOf(chart) {
    if (chart.kind === "bars") {
      return [[chart.xlabel || "", ...chart.series.map(item => item.name)],
              ...chart.categories.map((name, row) => [name, ...chart.series.map(item => text(item.values[row]))])];
    }
    if (chart.kind === "heat") {
      return [[`${chart.y} \\ ${chart.xlabel}`, ...chart.columns],
              ...chart.rows.map((name, y) => [name, ...chart.values[y].map((value, x) => chart.texts ? chart.texts[y][x] : text(value))])];
    }
    const rows = [["line", chart.kind === "curves" ? AXES[state.axis] : chart.xlabel, chart.y || "value"]];
    for (const line of linesOf(chart)) {
      const every = Math.max(1, Math.ceil(line.points.length / 25));
      line.points.forEach(([x, y], row) => {
        if ((row % every === 0 || row === line.points.length - 1) && y !== null) rows.push([line.name, text(x), text(y)]);
      });
    }
    return rows;
  }

  function fillNumbers(details) {
    const [head, ...body] = rowsOf(charts[details.dataset.numbers]);
    const table = document.createElement("table");
    const add = (section, cells, first) => {
      const row = section.insertRow();
      cells.forEach((cell, place) => {
        const element = document.createElement(first || place === 0 ? "th" : "td");
        if (element.tagName === "TH") element.scope = first ? "col" : "row";
        element.textContent = cell;
        row.append(element);
      });
    };
    add(table.createTHead(), head, true);
    const section = table.createTBody();
    body.forEach(cells => add(section, cells, false));
    details.lastElementChild.replaceChildren(table);
  }

  const redraw = filter => shown.forEach((instance, key) => {
    if (filter(charts[key])) draw(document.querySelector(`[data-chart="${CSS.escape(key)}"]`));
  });
  const onChange = (id, react) => {
    const element = document.getElementById(id);
    if (element) element.addEventListener("change", event => react(event.target.value, event.target));
  };

  onChange("axis", value => { state.axis = value; redraw(chart => chart.kind === "curves"); });
  onChange("smooth", value => { state.smooth = Number(value); redraw(chart => chart.kind === "curves"); });
  onChange("highlight", value => { state.highlight = value; redraw(chart => chart.kind === "lines"); });
  onChange("groups", (value, box) => {
    if (box.checked) state.hidden.delete(value); else state.hidden.add(value);
    redraw(chart => chart.kind === "curves");
  });

  const stored = { // a page opened from a disk may not be allowed to keep anything
    get: () => { try { return localStorage.getItem("yolo-accum-theme") || ""; } catch { return ""; } },
    set: value => { try { localStorage.setItem("yolo-accum-theme", value); } catch { /* then it is forgotten */ } },
  };
  function setTheme(value) {
    if (value) document.documentElement.dataset.theme = value; else delete document.documentElement.dataset.theme;
    redraw(() => true);
  }
  const theme = document.getElementById("theme");
  theme.value = stored.get();
  setTheme(theme.value);
  onChange("theme", value => { stored.set(value); setTheme(value); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(() => true));

  document.querySelectorAll("details[data-numbers]").forEach(details =>
    details.addEventListener("toggle", () => { if (details.open) fillNumbers(details); }));

  // Charts are drawn when they come near the screen, so that a long page opens at once.
  const near = new IntersectionObserver(entries => {
    for (const entry of entries.filter(item => item.isIntersecting)) { near.unobserve(entry.target); draw(entry.target); }
  }, {rootMargin: "300px"});
  const plots = document.querySelectorAll("[data-chart]");
  plots.forEach(element => near.observe(element));
  addEventListener("beforeprint", () => plots.forEach(element => { if (!shown.has(element.dataset.chart)) draw(element); }));
})();
