# Every target makes its own virtual environment when there is none.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test test-all check bench bench-triton help
.DEFAULT_GOAL := help

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

run: $(STAMP)  ## compile and simulate a kernel on the default topology, with its results checked
	$(BIN)/kernbench run kernels/gqa_decode_opt2.tl

test: $(STAMP)  ## every test but the slow ones
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(STAMP)  ## every test
	$(BIN)/python -m pytest -n auto

check: $(STAMP)  ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP)  ## measure speed against anchors of the same run
	$(BIN)/python benchmarks/run_all.py

bench-triton: $(STAMP)  ## data mode against Triton's CPU interpreter, in an environment of its own
	$(BIN)/python benchmarks/compare_with_triton.py

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12
