# The two commands a newcomer needs: `make demo` and `make test`. Both set up all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE ?=

.PHONY: help venv system demo test test-long check format bench clean

help: ## what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(VENV)/.stamp ## .venv with the package and all that tests and benchmarks import

$(VENV)/.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

system: ## kubectl, runc and friends from the system's packages (as root on Debian; otherwise says what is missing)
	@sh tools/system-packages

demo: venv system ## a cluster on this machine and a pod with a device
	@$(BIN)/python -m examples.demo

test: venv check ## checks and tests, under 10 minutes
	@sh tools/system-packages tests
	$(BIN)/python -m pytest -n 2 -m 'not long'

test-long: venv ## what takes minutes: fuzzing, faults, durability
	@sh tools/system-packages tests
	$(BIN)/python -m pytest -m long

check: venv ## format, lint, types, import layers
	$(BIN)/ruff format --check drakit tests bench examples
	$(BIN)/ruff check drakit tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: venv
	$(BIN)/ruff format drakit tests bench examples
	$(BIN)/ruff check --fix drakit tests bench examples

bench: venv ## benchmarks, each beside its peer
	@for b in $(basename $(notdir $(wildcard bench/*.py))); do echo "== $$b"; $(BIN)/python -m bench.$$b || exit 1; done

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
