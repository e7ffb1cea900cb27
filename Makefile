# The commands of this project; `make help` lists them.

PYTHON ?= python3
PYTEST_ARGS ?=
# Most tests wait for processes, so run more of them than there are cores; unit tests wait for nothing.
TEST_WORKERS ?= 6
UNIT_WORKERS ?= logical
BENCH_ARGS ?=
RUN_TESTS = CI=true scripts/run-tests $(BIN)/pytest --dist worksteal -m "not release"
# Compiles all tests on the core that mypy leaves free; else each worker compiles all of them.
COLLECT_TESTS = $(RUN_TESTS) --collect-only --quiet >/dev/null 2>&1
# Each starts several nodes and loads them; beside others it would measure this machine.
TOPOLOGIES := tests/acceptance/test_topologies.py
OTHER_TESTS := tests/integration tests/acceptance tests/faults tests/interop

# Without compiled modules, each command that a test starts takes a third longer.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.test-installed
DOCS_INSTALLED := $(VENV)/.docs-installed
PEERS_INSTALLED := build/peers/.installed

# Rebuild an environment that was copied here together with the folder: its paths are wrong.
ifneq ($(shell cat $(VENV)/.made-for 2>/dev/null),$(CURDIR))
$(INSTALLED) $(TEST_INSTALLED) $(DOCS_INSTALLED): made-elsewhere
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help up install console test tests test-fast release-check check lint coverage wheel release docs fuzz interop openapi format bench bench-api bench-business-day bench-gateway bench-console bench-growth bench-peers soak matrix services clean made-elsewhere

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

up: $(INSTALLED) ## Install into ./.venv and run everything here, with the example jobs
	@scripts/build-console --quietly
	@$(BIN)/warren up --jobs examples/handlers.py --seed examples/jobs.yaml

install: $(INSTALLED) ## Install into ./.venv, with all dependencies

console: ## Build the console's scripts with npm; its pages work without them too
	@scripts/build-console

test: $(TEST_INSTALLED) ## Check format, lint and types and run the tests, on private services
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(COLLECT_TESTS); $(MAKE) --no-print-directory tests; status=$$?; \
	wait $$lint || { echo "warren: format, lint or types are wrong: see above"; exit 1; }; exit $$status

tests: $(TEST_INSTALLED) services ## Run the tests, without format, lint and types
	@scripts/build-console --quietly
ifeq ($(strip $(PYTEST_ARGS)),)
	@echo "warren: running the unit tests, then the others"
	@$(RUN_TESTS) --numprocesses $(UNIT_WORKERS) tests/unit
	@$(RUN_TESTS) --numprocesses $(TEST_WORKERS) $(OTHER_TESTS)
else
	@echo "warren: running the tests"
	@$(RUN_TESTS) --numprocesses $(TEST_WORKERS) $(PYTEST_ARGS)
endif

test-fast: $(TEST_INSTALLED) ## Run the unit tests only; they need no services
	@$(BIN)/pytest tests/unit --numprocesses $(UNIT_WORKERS) --dist worksteal $(PYTEST_ARGS)

release-check: $(TEST_INSTALLED) services ## What only a release needs: long tests, packaging, XXL-JOB's executors; needs PyPI, Maven, Go
	@scripts/build-console
	@scripts/install-debian-packages "the tests of a proxy and of monitoring rules need" nginx prometheus
	@CI=true scripts/run-tests $(BIN)/pytest -rs --dist worksteal --numprocesses $(TEST_WORKERS) -m release \
		--ignore tests/interop --ignore $(TOPOLOGIES) $(PYTEST_ARGS)
	@CI=true scripts/run-tests $(BIN)/pytest -rs -m release $(TOPOLOGIES)
	@$(MAKE) --no-print-directory interop

check: test ## The same as test

# `make coverage COVERAGE_TESTS="tests/unit tests/integration"` measures more, and needs the services.
COVERAGE_TESTS ?= tests/unit
coverage: $(TEST_INSTALLED) ## Measure what the unit tests cover; build/coverage/index.html shows the lines
	@$(BIN)/pytest $(COVERAGE_TESTS) --numprocesses $(TEST_WORKERS) --dist worksteal \
		--cov --cov-report=term:skip-covered --cov-report=html $(PYTEST_ARGS)

wheel: $(TEST_INSTALLED) ## Build sdist and wheel into dist, with the console's scripts
	@scripts/build-console
	@$(BIN)/python -m build --no-isolation --outdir dist .

release: $(TEST_INSTALLED) ## Build what a release is into dist: wheel, sdist, a Dockerfile that installs the wheel, notes
	@scripts/build-console
	@$(BIN)/python scripts/make-release

docs: $(DOCS_INSTALLED) ## Build the documentation into build/docs; a dead link is an error
	@$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --quiet -c docs . build/docs
	@echo "warren: open build/docs/index.html"

fuzz: $(TEST_INSTALLED) ## Fuzz the HTTP API with requests generated from its description; needs PyPI
	@$(BIN)/python -m pip install --quiet --upgrade --target build/fuzz --constraint constraints.txt "schemathesis>=4.32,<5"
	@PYTHONPATH=build/fuzz CI=true $(BIN)/python -m pytest -q tests/integration/admin_web/test_api_fuzz.py

openapi: $(TEST_INSTALLED) ## Write docs/openapi.json, the description of the HTTP API
	@$(BIN)/python -m tests.support.write_openapi

interop: $(TEST_INSTALLED) services ## Test the gateway with executors of XXL-JOB in Python, Java and Go, and single sign-on with Keycloak; needs Maven and Go
	@CI=true INTEROP=1 $(BIN)/pytest -rs tests/interop $(PYTEST_ARGS)

lint: $(TEST_INSTALLED) ## Check format, lint and types
	@echo "warren: checking format, lint and types"
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

format: $(TEST_INSTALLED) ## Format the code and fix what the linter can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(TEST_INSTALLED) services ## Measure throughput and lateness, on private services
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-api: $(TEST_INSTALLED) services ## Measure the HTTP API beside a scheduler, and clients that wait
	@$(BIN)/python -m benchmarks.api $(BENCH_ARGS)

bench-business-day: $(TEST_INSTALLED) services ## Measure calendars, backfills, flows and limits
	@$(BIN)/python -m benchmarks.business_day $(BENCH_ARGS)

bench-gateway: $(TEST_INSTALLED) services ## Measure runs through the gateway, in turn with Warren's own executor
	@$(BIN)/python -m benchmarks.gateway $(BENCH_ARGS)

bench-console: $(TEST_INSTALLED) services ## Measure the console's pages with 100,000 jobs and 10,000,000 runs
	@$(BIN)/python -m benchmarks.console $(BENCH_ARGS)

bench-growth: $(TEST_INSTALLED) services ## Measure whether a run costs the same with more jobs, runs, executors and schedulers
	@$(BIN)/python -m benchmarks.growth $(BENCH_ARGS)

bench-peers: $(TEST_INSTALLED) $(PEERS_INSTALLED) services ## Measure Celery, Dramatiq, APScheduler and RQ in turn with Warren; needs PyPI and Redis
	@command -v redis-server >/dev/null || scripts/install-debian-packages "the peers need" redis-server
	@$(BIN)/python -m benchmarks.peers $(BENCH_ARGS)

# `make soak MINUTES=60 SEED=7` repeats the faults of a seed; without SEED it chooses one and prints it.
# TOPOLOGY is one of benchmarks/soak/topology.py: what the cluster stands on, and what happens to it.
MINUTES ?= 10
SEED ?=
TOPOLOGY ?= single
SOAK_ARGS ?=
soak: $(TEST_INSTALLED) services ## Run a cluster under random faults and judge it; MINUTES=10, SEED=… repeats one, TOPOLOGY=…
	@$(BIN)/python -m benchmarks.soak --topology $(TOPOLOGY) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(SOAK_ARGS)

# Each is SUITE or SUITE/DATABASE, and takes 5 GB in build/matrix.
MATRIX ?= trixie unstable/mysql unstable/postgresql
matrix: ## Run the tests on other versions of Debian, Python, RabbitMQ and the database; needs root
	@scripts/test-matrix $(MATRIX)

services: ## Install RabbitMQ, MariaDB and PostgreSQL for the tests if allowed; start nothing
	@scripts/install-test-services

clean: ## Remove the environment and all caches; what `warren up` keeps in ./.warren stays
	@rm -rf admin_web/frontend/node_modules admin_web/static/bundle $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt scripts/make-environment
	@scripts/make-environment "$(PYTHON)" ".[server,gateway]"
	@touch $@

$(TEST_INSTALLED): pyproject.toml constraints.txt scripts/make-environment
	@scripts/make-environment "$(PYTHON)" ".[server,postgresql,s3,sso,gateway,test]"
	@touch $@ $(INSTALLED)

$(DOCS_INSTALLED): pyproject.toml constraints.txt scripts/make-environment
	@scripts/make-environment "$(PYTHON)" ".[server,gateway,docs]"
	@touch $@ $(INSTALLED)

$(PEERS_INSTALLED): benchmarks/peers/requirements.txt
	@$(PYTHON) -m venv --clear build/peers
	@build/peers/bin/python -m pip install -qq --disable-pip-version-check --no-input --requirement $<
	@touch $@
