# The commands of this project; `make help` lists them.

PYTHON ?= python3
PYTEST_ARGS ?=
# Tests wait for processes more than they compute, so more of them than cores go at once.
TEST_WORKERS ?= 3
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.test-installed

# An environment that was made elsewhere and came here with a copy of the folder is made again.
ifneq ($(shell cat $(VENV)/.made-for 2>/dev/null),$(CURDIR))
$(INSTALLED) $(TEST_INSTALLED): made-elsewhere
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help up install console test check lint format bench bench-console services clean made-elsewhere

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

up: $(INSTALLED) ## Install into ./.venv and run everything here, with the example jobs
	@scripts/build-console --quietly
	@$(BIN)/warren up --jobs examples/handlers.py --apply examples/jobs.yaml

install: $(INSTALLED) ## Install into ./.venv, with all that it needs

console: ## Build the console's scripts with npm; without them its pages work all the same
	@scripts/build-console

test: $(TEST_INSTALLED) services ## Check format, lint and types and run all tests, on services of its own
	@$(MAKE) --no-print-directory lint
	@scripts/build-console --quietly
	@echo "warren: running the tests"
	@CI=true $(BIN)/pytest --numprocesses $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

check: test ## The same as test

lint: $(TEST_INSTALLED) ## Check format, lint and types
	@echo "warren: checking format, lint and types"
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

format: $(TEST_INSTALLED) ## Format the code and mend what the linter can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(TEST_INSTALLED) services ## Measure throughput and lateness, on services of its own
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-console: $(TEST_INSTALLED) services ## Measure the console's pages with 100,000 jobs and 10,000,000 runs
	@$(BIN)/python -m benchmarks.console $(BENCH_ARGS)

services: ## Install RabbitMQ and MariaDB for the tests, where that may be done; start nothing
	@scripts/install-test-services

clean: ## Remove the environment and all caches; what `warren up` keeps in ./.warren stays
	@rm -rf admin_web/frontend/node_modules admin_web/static/bundle $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt scripts/make-environment
	@scripts/make-environment "$(PYTHON)" .
	@touch $@

$(TEST_INSTALLED): pyproject.toml constraints.txt scripts/make-environment
	@scripts/make-environment "$(PYTHON)" ".[test]"
	@touch $@ $(INSTALLED)
