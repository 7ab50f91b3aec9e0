# gazeattn: every target sets up what it needs in .venv first; a second call needs no network.
# Needed on the machine: Python 3.11 or newer, make, git.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEV    := $(VENV)/.installed-dev
DOCS   := $(VENV)/.installed-docs
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input

# Overrides handed to the command, e.g. make compare ARGS="lm=minilm"
ARGS ?=
# What the tests and benchmarks fetch, once. `gazeattn compare` fetches what it needs by itself.
ASSETS ?= onestop_sample smollm2-135m minilm efficientnet-lite0

# Tests neither ask a model hub nor write to an account.
TEST_ENV := HF_HUB_OFFLINE=1 WANDB_MODE=offline MPLBACKEND=Agg

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup compare assets test test-slow lint format docs bench bench-peers wheel clean

help:
	@echo "make compare     set up and compare human reading with a language model; prints the report's path"
	@echo "make test        set up and run the fast tests"
	@echo "make test-slow   set up and run all tests"
	@echo "make lint        ruff, mypy and the import layers"
	@echo "make format      let ruff rewrite the sources"
	@echo "make docs        build the documentation into site/"
	@echo "make bench       run the benchmarks, which print ratios"
	@echo "make bench-peers time the metrics against peers that need an environment of their own"
	@echo "make wheel       build the source archive and the wheel into dist/"
	@echo "make setup       only create .venv with the pinned packages"
	@echo "make clean       remove build products and caches (never data/ or outputs/)"
	@echo
	@echo "Options: ARGS=\"lm=minilm\" (overrides for make compare), PYTHON=python3.12"

setup: $(DEV)

# The stamp is written last: an interrupted set-up has none and starts again from an empty .venv.
# Without build isolation, so that a repeated installation asks the network for nothing.
$(DEV): pyproject.toml setup.py constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no '$(PYTHON)' here; gazeattn needs Python 3.11 or newer." >&2; \
	  echo "Name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gazeattn needs Python 3.11 or newer; '$(PYTHON)' is `$(PYTHON) --version 2>&1`." >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments: the modules venv and ensurepip are missing" >&2; \
	  echo "(on Debian and Ubuntu they are in the package python3-venv)." >&2; exit 1; }
	@test -f $(DEV) && $(BIN)/python -c '' 2>/dev/null || { \
	  echo "Setting up $(VENV): about 2 GB, a few minutes, once ..."; $(PYTHON) -m venv --clear $(VENV); }
	@$(PIP) install --quiet -c constraints.txt setuptools \
	  && $(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[dev]' || { \
	  echo "The set-up is not complete. It needs the network once; 'make setup' starts it again." >&2; exit 1; }
	@touch $(DEV)

$(DOCS): $(DEV)
	@$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[dev,docs]'
	@touch $(DOCS)

compare: setup
	@$(BIN)/gazeattn compare $(ARGS)

assets: setup
	@$(BIN)/gazeattn fetch $(ASSETS)

test: setup assets
	$(TEST_ENV) $(BIN)/python -m pytest -m "not slow" $(ARGS)

test-slow: setup assets
	$(TEST_ENV) $(BIN)/python -m pytest $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup assets
	@$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[dev,bench]'
	@for file in benchmarks/[a-z]*.py; do \
	  echo "== $$file"; $(TEST_ENV) $(BIN)/python "$$file" || exit 1; done

# pysaliency is built with an older setuptools, GazeParser asks for a window toolkit it does not need
# here: both in an environment beside .venv. The recordings: GAZEATTN_SHARED.
bench-peers: pyproject.toml
	@test -f .venv-peers/.installed || { $(PYTHON) -m venv --clear .venv-peers && \
	  .venv-peers/bin/python -m pip install --quiet 'setuptools<81' wheel Cython numpy && \
	  .venv-peers/bin/python -m pip install --quiet -e '.[bench]' && \
	  .venv-peers/bin/python -m pip install --quiet --no-deps GazeParser && \
	  .venv-peers/bin/python -m pip install --quiet --no-build-isolation pysaliency==0.2.22 && \
  .venv-peers/bin/python -m pip install --quiet 'setuptools<81' && \
	  touch .venv-peers/.installed; }
	$(TEST_ENV) .venv-peers/bin/python -W ignore benchmarks/metrics.py

wheel: setup
	$(BIN)/python -m build --no-isolation --outdir dist .

clean:
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find gazeattn tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
