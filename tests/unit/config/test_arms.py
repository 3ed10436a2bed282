"""The arms of a comparison, from words and files, and the command line around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.config.arguments import EMBEDDED_RECIPE
from yolo_accum.config.arms import Arm, arms_again, reference_of
from yolo_accum.config.compare_arguments import parse_compare
from yolo_accum.config.load import read_recipe
from yolo_accum.errors import UserError


def arms(*words: str) -> tuple[Arm, ...]:
    return parse_compare(["--data", "d.yaml", *words]).arms


def changes(*words: str) -> dict[str, dict[str, object]]:
    return {arm.name: dict(arm.changes) for arm in arms(*words)}


def test_accumulation_and_the_large_batch_are_there_without_asking() -> None:
    found = arms("--batch", "4", "--nbs", "32", "--norm", "gn")

    assert [(arm.name, dict(arm.changes)) for arm in found] == [("accumulation", {}), ("large", {"batch": 32})]
    assert [arm.config.accumulation.batch for arm in found] == [4, 32]
    assert {arm.config.norm.norm for arm in found} == {"gn"}


def test_the_large_batch_holds_a_full_window_where_batch_does_not_divide_nbs() -> None:
    assert changes("--batch", "24")["large"] == {"batch": 72}  # three micro-batches, as the plan rounds
    assert list(changes("--batch", "48", "--arms", "batch=8")) == ["base", "batch8"]  # one: nothing to accumulate


def test_words_add_arms_with_names_of_their_own() -> None:
    found = changes("--arms", "batch=4,norm=gn", "tail=carry", "--epochs", "3", "--arms=name=slow,lr0=1e-4,ramp=false")

    assert found == {
        "accumulation": {},
        "large": {"batch": 64},
        "batch4-norm-gn": {"batch": 4, "norm": "gn"},
        "tail-carry": {"tail": "carry"},
        "slow": {"lr0": 1e-4, "ramp": False},
    }


def test_a_file_names_arms_or_lists_them(tmp_path: Path) -> None:
    named, listed = tmp_path / "named.yaml", tmp_path / "listed.yml"
    named.write_text(
        "small: {batch: 4, norm: gn}\nfrozen stem: {name: stem, freeze: [backbone]}\n".replace(" stem:", ":")
    )
    listed.write_text("- {batch: 2}\n- {amp: off, name: plain}\n")

    found = changes("--no-default-arms", "--arms", str(named), str(listed))

    assert found == {
        "small": {"batch": 4, "norm": "gn"},
        "frozen": {"freeze": ["backbone"]},
        "batch2": {"batch": 2},
        "plain": {"amp": "off"},
    }


def test_the_reference_is_the_large_batch_else_the_first_else_as_asked() -> None:
    def reference(*words: str) -> str:
        arguments = parse_compare(["--data", "d.yaml", *words])
        return reference_of(arguments.arms, arguments.compare)

    assert reference() == "large"
    assert reference("--no-default-arms", "--arms", "batch=4", "batch=2") == "batch4"
    assert reference("--reference", "accumulation") == "accumulation"


def test_arms_are_the_same_again_from_their_changes() -> None:
    first = arms("--arms", "batch=4,lr0=1e-3", "freeze=backbone")
    again = arms_again(first[0].config, {arm.name: arm.changes for arm in first})

    assert again == first


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--arms", "bach=4"], "--arms bach=4: bach is not an option (did you mean batch?)"),
        (["--arms", "batch=0"], "--arms batch=0: --batch 0: at least one image"),
        (["--arms", "batch=four"], "--arms batch=four: batch four: a whole number or auto is needed"),
        (["--arms", "norm=gn,4"], "'4' is not of the form option=value"),
        (["--arms", "seed=3"], "seed is the same in all arms; give --seed itself"),
        (["--arms", "data=x.yaml,batch=4"], "data is the same in all arms"),
        (["--arms", "batch=auto"], "batch auto would not be the same on every machine"),
        (["--arms", "batch=4", "batch=4"], "two arms are named batch4"),
        (["--arms", "name=A,batch=4", "name=a,batch=2"], "two arms are named A"),
        (["--arms", ""], "--arms: options such as batch=4,norm=gn or a YAML file are needed"),
        (["--arms", "name=,batch=4"], "'name=' is not of the form option=value"),
        (["--arms", "batch="], "'batch=' is not of the form option=value"),
        (["--arms", "name=../x,batch=4"], "'../x' cannot be a name"),
        (["--arms", "nowhere.yaml"], "--arms nowhere.yaml: No such file or directory; options such as batch=4"),
        (["--batch", "64"], "--batch 64 is the large batch already (--nbs 64); a comparison needs two arms"),
        (["--no-default-arms"], "a comparison needs two arms"),
        (["--batch", "auto"], "--batch auto: the windows that all arms follow"),
        (["--reference", "huge"], "--reference huge: there is no such arm; there are: accumulation, large"),
        (["--seeds", "0"], "--seeds 0: a number from 1 to 1,000 is needed"),
        (["--margin", "2"], "--margin 2.0: a number from 0 to 1 is needed"),
        (["--device", "cpu", "--devices", "cpu,cpu"], "--device and --devices exclude each other"),
        (["--devices", "cpu,cpu", "--arms", "name=two,device=cpu"], "two names a device of its own"),
        (["--devices", "cpu,"], "--devices 'cpu,': names of devices are needed"),
        (["--window-batch", "8"], "--window-batch: there is no such option"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        arms(*words)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("small: {batch: -1}\n", "small: --batch -1"),
        ("small: 4\n", "small: a mapping from names to options"),
        ("just text\n", "a mapping from names to options"),
        ("a: [\n", "not a YAML file"),
        ("[]\n", "a mapping from names to options"),
        ("a: {batch: 1}\na: {batch: 2}\n", "a stands twice"),
        ("- {nrom: gn}\n", "arm 1: nrom is not an option (did you mean norm?)"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "arms.yaml"
    path.write_text(text)

    with pytest.raises(UserError) as raised:
        arms("--arms", str(path))
    assert str(path) in str(raised.value) and sentence in str(raised.value)


def test_a_comparison_that_goes_on_keeps_what_it_is(tmp_path: Path) -> None:
    assert parse_compare(["--resume", str(tmp_path), "--devices", "cpu,cpu"]).arms == ()
    with pytest.raises(UserError, match="--epochs cannot be changed when a comparison is resumed"):
        parse_compare(["--resume", str(tmp_path), "--epochs", "3"])
    with pytest.raises(UserError, match="--recipe cannot be changed"):
        parse_compare(["--resume", str(tmp_path), "--recipe", "embedded"])


def test_without_data_the_embedded_recipe_is_compared() -> None:
    assert parse_compare([]).config.optim.epochs == read_recipe(EMBEDDED_RECIPE)["epochs"]
    assert parse_compare(["--epochs", "2"]).config.run.project == "runs/compare"
