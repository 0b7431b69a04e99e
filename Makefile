# Everything runs from .venv, which is made on first use and again when its inputs change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.stamp-base
STAMP := $(VENV)/.stamp
TORCH := $(VENV)/.stamp-torch

.PHONY: demo test test-kinds test-all test-changed check lint types types-js sql fresh bench campaign mutants accuracy docs site clean

demo: $(BASE)
	$(BIN)/hotline demo

# As many processes as the machine has processors.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations=25

# Whether all parts work, in minutes: one test of each module (tests/kinds.py).
test: $(STAMP) $(TORCH)
	$(PYTEST) -m "sample and not long"

# What every change must pass: all but what takes long, real traces of each kind, and some of many cases (tests/kinds.py).
test-kinds: $(STAMP) $(TORCH)
	$(PYTEST) -m "not long"

test-all: $(STAMP) $(TORCH)
	$(PYTEST)

# Of these, the tests that can see what differs from a commit: make test-changed SINCE=main
SINCE ?= HEAD
test-changed: $(STAMP) $(TORCH)
	$(BIN)/python -m tests.changed $(SINCE) | xargs --no-run-if-empty $(PYTEST) -m "not long"

check: lint types types-js sql fresh site

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell hotline_analysis queries tests docs *.md

types: $(STAMP)
	$(BIN)/mypy

# The types in the comments of the pages' scripts, by tsc. Only tsc comes from npm, so the other checks go on without it,
# on a machine without npm and where npm reaches no registry.
TYPESCRIPT := 7.0.2
NODE_HOME := $(VENV)/typescript-$(TYPESCRIPT)
TSC := $(NODE_HOME)/node_modules/.bin/tsc
GET_TSC := npm install --no-audit --no-fund --fetch-retries=1 --fetch-timeout=30000 --prefix $(NODE_HOME)
SCRIPTS := hotline_analysis/charts/assets/jsconfig.json
types-js:
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then \
		echo "types-js: left out, because node or npm is missing"; \
	elif ! $(TSC) --version >/dev/null 2>&1 && \
		! { $(GET_TSC) typescript@$(TYPESCRIPT) >/dev/null && $(TSC) --version >/dev/null; }; then \
		echo "types-js: left out, because npm cannot get typescript"; \
	else \
		echo $(TSC) --project $(SCRIPTS); $(TSC) --project $(SCRIPTS); \
	fi

sql: $(STAMP)
	$(BIN)/sqlfluff lint --processes 0 --disable-progress-bar queries hotline_analysis/kineto/sql hotline_analysis/nsight/sql

# That the stubs and the outputs in the docs are up to date.
fresh: $(STAMP)
	$(BIN)/python -m docs.generate --check

bench: $(STAMP)
	$(BIN)/python tests/benchmarks/bench_import.py
	$(BIN)/python tests/benchmarks/bench_parts.py
	$(BIN)/python tests/benchmarks/bench_growth.py --sample 20

# Whether tests see 200 random mistakes (tests/mutants.py), each in the queries or in Python: hours.
mutants: $(STAMP) $(TORCH)
	$(BIN)/python -m tests.mutants --count 200 --seed 1

# Two thousand random cases of damaged and odd traces (docs/robustness.md): an hour or two.
campaign: $(STAMP)
	$(BIN)/python -m tests.campaign --cases 2000 --seed 1 --jobs 2
	$(BIN)/python -m tests.campaign.loops --loops 500 --pairs 200 --seed 1 --jobs 2

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
