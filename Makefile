# Every target works on a fresh clone: it makes its own virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
# Two processes; tests/conftest.py says which tests stay together, and which come first.
SHARE  := -n 2 --no-loadscope-reorder

PIP    := $(VENV)/bin/python -m pip -qq --disable-pip-version-check
OLD    := wolfpack needs Python 3.11 or newer, which $(PYTHON) is not; try make PYTHON=python3.11
NO_PY  := $(PYTHON) was not found; try make PYTHON=/path/to/python3.11

# The environment with the lowest versions that pyproject.toml allows. Old libraries use
# what newer ones below them have deprecated.
FLOORS    ?= .venv-floors
OLD_WARN  := -W default::DeprecationWarning -W default::FutureWarning
OLD_TESTS := $(addprefix tests/test_,estimators.py multiclass_estimator.py signals.py \
             sklearn.py integrations.py models.py plotting.py cli.py cli_predict.py \
             theory_command.py)
LOWEST    := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
             extras = project["optional-dependencies"]; \
             print(*(one.replace(">=", "==") for one in project["dependencies"] + \
             extras["ray"] + extras["test"] if ">=" in one))

# Tests and benchmarks use the data folder beside the repository, if there is one.
ifndef WOLFPACK_DATA
ifneq ($(wildcard ../shared/data/.),)
test test-floors slow bench reproduce: export WOLFPACK_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-floors slow soak certificates lint bench reproduce clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## run the demonstration
	@$(VENV)/bin/python -m wolfpack demo $(ARGS)

test: $(VENV)/.test  ## run the tests; ARGS go to pytest
	@$(VENV)/bin/python -m pytest $(SHARE) $(ARGS)

test-floors: $(FLOORS)/.test  ## run the tests of estimators and CLI with the lowest versions of all dependencies
	@$(FLOORS)/bin/python -m pytest $(SHARE) $(OLD_WARN) $(OLD_TESTS) $(ARGS)

slow: $(VENV)/.test  ## run the tests that take long; ARGS go to pytest
	@$(VENV)/bin/python -m pytest $(SHARE) -m "slow and not root" $(ARGS)

soak: $(VENV)/.test  ## inject faults by chance, 10 minutes; ARGS="--seconds 60 --seed 1"
	@$(VENV)/bin/python tests/abuse/soak.py $(ARGS)

certificates: $(VENV)/.test  ## hold certificates of random problems against double precision; ARGS="--count 5000 --seed 1"
	@$(VENV)/bin/python tests/abuse/certificates.py $(ARGS)

lint: $(VENV)/.lint  ## check style, formatting and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

bench: $(VENV)/.demo  ## time the serial engine
	@$(VENV)/bin/python benchmarks/serial.py $(ARGS)

reproduce: $(VENV)/.demo  ## measure the paper's figures again; ARGS may be --fast
	@$(VENV)/bin/python -m wolfpack reproduce all $(ARGS)

clean:  ## remove the environment, caches and builds
	@rm -rf $(VENV) $(FLOORS) build dist .pytest_cache .ruff_cache .hypothesis
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

$(FLOORS)/.test: pyproject.toml
	@echo "installing the lowest versions of all dependencies into $(FLOORS) (a minute, once)"
	@$(PYTHON) -m venv $(FLOORS)
	@$(FLOORS)/bin/python -m pip -qq --disable-pip-version-check install -e . \
		$$($(PYTHON) -c '$(LOWEST)')
	@touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/.made
	@echo "installing wolfpack and its lint tools into $(VENV) (a minute, once)"
	@$(PIP) install -e '.[test,dev]'
	@touch $@ $(VENV)/.demo
