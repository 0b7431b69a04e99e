# Everything runs from .venv, which is made on first use and again when its inputs change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.stamp-base
STAMP := $(VENV)/.stamp
TORCH := $(VENV)/.stamp-torch

.PHONY: demo test test-all check lint types sql fresh bench campaign accuracy docs site clean

demo: $(BASE)
	$(BIN)/hotline demo

# What every change must pass; without the tests that take long.
test: $(STAMP) $(TORCH)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long"

test-all: $(STAMP) $(TORCH)
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: lint types sql fresh site

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

sql: $(STAMP)
	$(BIN)/sqlfluff lint --processes 0 --disable-progress-bar queries hotline_analysis/kineto/sql

# That the generated docs are up to date.
fresh: $(STAMP)
	$(BIN)/python -m docs.generate --check

bench: $(STAMP)
	$(BIN)/python tests/benchmarks/bench_import.py
	$(BIN)/python tests/benchmarks/bench_parts.py
	$(BIN)/python tests/benchmarks/bench_growth.py --sample 20

# Two thousand random cases of damaged and odd traces (docs/robustness.md): an hour or two.
campaign: $(STAMP)
	$(BIN)/python -m tests.campaign --cases 2000 --seed 1 --jobs 2

# How often the labels of labelled traces are met, beside the original Hotline profiler's own.
accuracy: $(STAMP)
	$(BIN)/python -m tests.accuracy.labelled

docs: $(STAMP)
	$(BIN)/python -m docs.generate

# The documentation as a site, in build/site. Whatever MkDocs warns of is an error.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# No module is compiled before it is used: most never are, and that takes longer than to unpack them.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable

# What users get.
$(BASE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

$(STAMP): $(BASE)
	$(INSTALL) '.[dev]'
	touch $@

# Only the tests of capturing need torch, which is large, and Lightning.
$(TORCH): $(STAMP)
	$(INSTALL) '.[torch,lightning]'
	touch $@
