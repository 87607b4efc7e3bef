# nextword: what people do with a clone. Needs only Python 3.11, make and the package index.

PYTHON    ?= $(shell command -v python3.11 || command -v python3)
VENV      ?= .venv
OUT       ?= runs/quickstart
WORKERS   ?= 2
# --quick shows in a few minutes that every benchmark runs; its rows and figures go to runs/bench
BENCH_FLAGS ?=
# Further flags for pip, for example --extra-index-url with an index that carries CPU builds of torch
PIP_FLAGS ?=

BIN := $(VENV)/bin
# An editable install remembers its folder, so a stamp counts only in the folder that it was made in.
HERE := $(shell pwd | cksum | cut -d ' ' -f 1)
INSTALLED     := $(VENV)/.installed-$(HERE)
INSTALLED_DEV := $(VENV)/.installed-dev-$(HERE)

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-slow bench lint format check clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: $(INSTALLED)  ## install, then compare every output layer on the ambiguous-template task (about 10 minutes)
	$(BIN)/nextword quickstart --out $(OUT)

test: $(INSTALLED_DEV)  ## install, then run the fast tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

test-slow: $(INSTALLED_DEV)  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow -q

bench: $(INSTALLED_DEV)  ## measure speed and memory, rewrite the tables and figures of docs/performance.md (about two hours)
	$(BIN)/python benchmarks/run_all.py $(BENCH_FLAGS)

lint: $(INSTALLED_DEV)  ## ruff check, ruff format --check, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED_DEV)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test  ## lint, then test: run this before a commit

clean:  ## delete the environment and the caches, keep runs/
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src tests examples -name __pycache__ -type d -exec rm -rf {} +

# A folder left half-made, or one whose interpreter is gone, is made anew.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "nextword: no python3.11 or python3 on PATH. Install Python 3.11, or name one: make test PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nextword: needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make test PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing nextword into $(VENV) (a few minutes the first time)"
	$(BIN)/python -m pip install -qq $(PIP_FLAGS) -c constraints.txt -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing nextword and its test tools into $(VENV) (a few minutes the first time)"
	$(BIN)/python -m pip install -qq $(PIP_FLAGS) -c constraints.txt -e '.[dev]'
	@touch $(INSTALLED) $@
