# dptransfer: everything a developer or a visitor runs. `make` alone lists it.
#
# One virtual environment, .venv, is made when it is first needed. `make demo` installs what the demo needs, `make test`
# what the tests need; a stamp file says which is done, and a change of pyproject.toml or constraints.txt does it again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
OUT ?= demo-output
DATA ?= digits
EPSILON ?= 1
STUDY ?= demo
BENCH_DATA ?= $(DPTRANSFER_DATA)
CASES ?= 10000
SEED ?= 0
FROM ?= 0
ONLY ?=

# The builds of torch on PyPI for Linux carry CUDA, several gigabytes of it. The same version without CUDA is asked for
# first, from wherever pip is configured to look and from PyTorch's own index; if neither has it, PyPI's is taken.
TORCH := 2.13.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --no-compile --prefer-binary --constraint constraints.txt
SOURCES := pyproject.toml lab/pyproject.toml constraints.txt

.PHONY: help setup demo demo-federate test lint types layers pytest test-slow test-gpu fuzz mutants coverage docs docs-check figures release-check bench lock clean

help: ## list the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
	@echo "Settings: PYTHON=$(PYTHON) VENV=$(VENV) WORKERS=$(WORKERS); for demo: OUT=$(OUT) DATA=$(DATA) EPSILON=$(EPSILON)"

setup: $(VENV)/.dev ## make the virtual environment with everything a developer needs

demo: $(VENV)/.demo ## run the whole story on handwritten digits; files go to OUT
	@$(BIN)/dptransfer demo --data $(DATA) --epsilon $(EPSILON) --out $(OUT)

demo-federate: $(VENV)/.demo ## three owners, three processes, one model; files go to OUT
	@$(BIN)/python benchmarks/demo_federate.py $(OUT)

test: lint types layers pytest ## formatting, lint, types, layers and tests

lint: $(VENV)/.dev ## ruff, lint and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

layers: $(VENV)/.dev ## who may import whom
	$(BIN)/lint-imports

pytest: $(VENV)/.dev ## the tests alone, without the slow ones
	$(BIN)/pytest --quiet --numprocesses $(WORKERS)

test-slow: $(VENV)/.dev ## the slow tests
	$(BIN)/pytest --quiet -m slow

test-gpu: $(VENV)/.dev ## the tests that need a CUDA device
	$(BIN)/pytest --quiet -m gpu

fuzz: $(VENV)/.dev ## damage every kind of file that is read: CASES=10000 of each, SEED=0, ONLY=npz
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(CASES) --seed $(SEED) --from $(FROM) --only '$(ONLY)' --workers $(WORKERS)

mutants: $(VENV)/.dev ## plant each fault of tests/mutants.toml in a copy; its tests must notice: ONLY=REGEX
	$(BIN)/python tests/mutants.py --only '$(ONLY)' --workers $(WORKERS)

coverage: $(VENV)/.dev ## lines and branches that no test of the guarantee's packages reaches; slower than the tests alone
	$(BIN)/pytest --quiet --numprocesses $(WORKERS) --cov --cov-report=term \
	  $(foreach part,privacy accounting noise exact queries mechanisms ledger,tests/$(part) src/dptransfer/$(part)) \
	  tests/test_event_plugins.py tests/test_new_event_kind.py

docs: $(VENV)/.docs ## build the site into site/; a warning is an error
	rm -rf site docs/generated
	$(BIN)/sphinx-build -W --keep-going -n -q -b html -d $(VENV)/doctrees docs site
	@echo "Open site/index.html"

figures: $(VENV)/.docs ## fit and draw the figure of the README again; some minutes
	$(BIN)/python docs/figures/accuracy.py

release-check: $(VENV)/.dev ## build wheel and sdist, install them into empty environments, run the README's story
	$(BIN)/python tools/release_check.py

docs-check: $(VENV)/.dev ## run the documents' examples, follow their links
	$(BIN)/pytest --quiet tests/test_docs.py

bench: $(VENV)/.dev ## speed of the default fit, and a study: STUDY=heads BENCH_DATA=FOLDER for all methods, in hours
	$(BIN)/python benchmarks/fit_speed.py
	$(BIN)/dptransfer bench run $(STUDY) --out bench-output/$(STUDY) --workers $(WORKERS) $(if $(BENCH_DATA),--data "$(BENCH_DATA)")
	$(BIN)/dptransfer bench report bench-output/$(STUDY)

lock: ## resolve the newest versions pyproject.toml allows, and write constraints.txt
	@echo "Resolving in a fresh environment; this takes a few minutes."
	@set -e; fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(PYTHON) -m venv "$$fresh/venv"; \
	pip() { "$$fresh/venv/bin/python" -m pip --disable-pip-version-check "$$@"; }; \
	pip install --quiet 'torch==$(TORCH)+cpu' \
	|| pip install --quiet --extra-index-url $(TORCH_INDEX) 'torch==$(TORCH)+cpu' || true; \
	pip install --quiet --editable '.[dev,docs]' --editable lab 'torch==$(TORCH)'; \
	{ echo "# Versions that are known to work together; written by 'make lock', used by the Makefile."; \
	  pip freeze --exclude-editable --exclude dptransfer | sed -E '/^#/d; / @ /d; s/\+cpu$$//'; } > "$$fresh/constraints.txt"; \
	mv "$$fresh/constraints.txt" constraints.txt
	@echo "Wrote constraints.txt: $$(grep -c == constraints.txt) packages."

clean: ## remove the virtual environment, caches and the demo's output
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site docs/generated
	find src tests lab benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	@if [ -e "$(OUT)/.dptransfer-demo.json" ]; then rm -rf "$(OUT)"; fi

# A stamp means: this extra is installed, at the versions of constraints.txt.
$(VENV)/.demo: $(SOURCES) | $(VENV)/.torch
	@echo "Installing dptransfer with what the demo needs (once)."
	@$(INSTALL) --editable '.[torch]' --editable lab
	@touch $@

$(VENV)/.dev: $(SOURCES) | $(VENV)/.torch
	@echo "Installing dptransfer with what the tests need (once)."
	@$(INSTALL) --editable '.[dev]' --editable lab
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(SOURCES) | $(VENV)/.torch
	@echo "Installing dptransfer with what the site needs (once)."
	@$(INSTALL) --editable '.[docs,images]' --editable lab
	@touch $@

$(VENV)/.torch: | $(VENV)/bin/python
	@echo "Installing torch $(TORCH) without CUDA (once)."
	@$(INSTALL) 'torch==$(TORCH)+cpu' 2> $(VENV)/torch.log \
	|| $(INSTALL) --retries 1 --extra-index-url $(TORCH_INDEX) 'torch==$(TORCH)+cpu' 2>> $(VENV)/torch.log \
	|| echo "No build without CUDA was found (see $(VENV)/torch.log): pip will take PyPI's."
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "dptransfer needs Python 3.11 or later; try: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "Making the virtual environment $(VENV) (once)."
	@$(PYTHON) -m venv $(VENV) || { echo "On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 2; }
