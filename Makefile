# `make` lists the targets. Everything runs in .venv, which is made on first use.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install train compare test lint format format-check types clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## make .venv and install the package with its tools

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "Python 3.10 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
			"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

train: install  ## train on the embedded data set: batch 8, nominal batch 64 (ARGS="--epochs 50" adds options)
	$(PY) tools/train.py --batch 8 --nbs 64 $(ARGS)

compare: install  ## compare accumulation with the large batch on the embedded data set (ARGS="--seeds 3" adds options)
	$(PY) tools/compare.py --recipe embedded --batch 8 --nbs 64 --norm gn --epochs 6 --imgsz 128 --warmup-epochs 1 \
		--arms norm=bn --seeds 2 --val-every 2 $(ARGS)

test: install  ## run the plain test suite: no GPU, no real data (ARGS="-k plan" adds options)
	$(PY) -m pytest -n auto --dist loadfile -m "not real and not gpu" $(ARGS)

lint: install  ## look for faults in the code
	$(PY) -m ruff check .

format: install  ## write all code in the one format
	$(PY) -m ruff format .

format-check: install  ## tell whether all code is in the one format
	$(PY) -m ruff format --check .

types: install  ## check the types
	$(PY) -m mypy

clean:  ## remove caches and build outputs; the environment, data sets and runs stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
