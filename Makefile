# Every target works on a fresh clone: it makes its own virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
# Two processes; tests/conftest.py says which tests stay together, and which come first.
SHARE  := -n 2 --no-loadscope-reorder

PIP    := $(VENV)/bin/python -m pip -qq --disable-pip-version-check
OLD    := wolfpack needs Python 3.11 or newer, which $(PYTHON) is not; try make PYTHON=python3.11
NO_PY  := $(PYTHON) was not found; try make PYTHON=/path/to/python3.11

# Tests and benchmarks use the data folder beside the repository, if there is one.
ifndef WOLFPACK_DATA
ifneq ($(wildcard ../shared/data/.),)
test slow bench reproduce: export WOLFPACK_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo test slow soak lint bench reproduce clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## run the demonstration
	@$(VENV)/bin/python -m wolfpack demo $(ARGS)

test: $(VENV)/.test  ## run the tests; ARGS go to pytest
	@$(VENV)/bin/python -m pytest $(SHARE) $(ARGS)

slow: $(VENV)/.test  ## run the tests that take long; ARGS go to pytest
	@$(VENV)/bin/python -m pytest $(SHARE) -m "slow and not root" $(ARGS)

soak: $(VENV)/.test  ## inject faults by chance, 10 minutes; ARGS="--seconds 60 --seed 1"
	@$(VENV)/bin/python tests/abuse/soak.py $(ARGS)

lint: $(VENV)/.lint  ## check style, formatting and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

bench: $(VENV)/.demo  ## time the serial engine
	@$(VENV)/bin/python benchmarks/serial.py $(ARGS)

reproduce: $(VENV)/.demo  ## measure the paper's figures again; ARGS may be --fast
	@$(VENV)/bin/python -m wolfpack reproduce all $(ARGS)

clean:  ## remove the environment, caches and builds
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	@find src tests benchmarks experiments -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo '$(NO_PY)' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo '$(OLD)' >&2; exit 1; }
	@echo "making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.made
	@echo "installing wolfpack into $(VENV) (a minute, once)"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.made
	@echo "installing wolfpack and its test tools into $(VENV) (a minute, once)"
	@$(PIP) install -e '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.lint: pyproject.toml | $(VENV)/.made
	@echo "installing wolfpack and its lint tools into $(VENV) (a minute, once)"
	@$(PIP) install -e '.[test,dev]'
	@touch $@ $(VENV)/.demo
