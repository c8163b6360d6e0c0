# The two commands of this project are `make run` and `make test`; both work on a fresh clone.
# `make` alone lists the rest. All of it runs offline once it has run online.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# Seconds per fuzz target: a taste in `make test`, a meal in `make fuzz`.
FUZZ_SHORT_S := 10
FUZZ_S ?= 600
# More arguments for pytest, e.g. `make unit PYTEST_ARGS="-k matcher -x"`.
PYTEST_ARGS ?=
# How a target spreads its tests over processes; `PYTEST_ARGS="-n 0 --pdb"` keeps them in one.
SPREAD :=
PYTEST = $(BIN)/python -m pytest -q -m "not soak" --durations=10 $(SPREAD) $(PYTEST_ARGS)

.PHONY: help
help:
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use
.PHONY: run
run: ## Start one node with a live demo; Ctrl-C stops it
	@scripts/setup.sh run
	@$(BIN)/arauto demo --pipeline-setup "scripts/setup.sh pipeline"

##@ Check
.PHONY: test unit integration pipeline lint types fmt
test: setup services lint unit integration pipeline fuzz-short ## Everything: static checks, all tests, a little fuzzing
	@echo "Everything passed."

unit: SPREAD := -n 2
unit: setup ## Tests without sockets or processes, and the architecture's rules
	@echo "Unit and architecture tests, by two processes"
	@$(PYTEST) --asyncio-debug tests/unit tests/arch

integration: SPREAD := -n 2 --dist loadscope
integration: setup services ## Tests with real servers, processes and faults
	@echo "Contract, integration, conformance and chaos tests, by two processes"
	@$(PYTEST) $(wildcard tests/contract tests/integration tests/conformance tests/examples tests/interop tests/chaos)

pipeline: SPREAD := -n 2 --dist loadscope
pipeline: setup services ## Tests of the data pipeline, on a real Spark
	@echo "Pipeline tests, by two processes with a Spark each"
	@$(PYTEST) tests/pipeline

lint: setup ## Style, types, layers, spelling, security, generated files
	@echo "Static checks"
	@scripts/lint.sh

types: setup ## Types only
	@$(BIN)/mypy

fmt: setup ## Format the code and mend what can be mended
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

##@ Run for longer
.PHONY: fuzz fuzz-short chaos chaos-pipeline model soak fast fast-test bench bench-pipeline
fuzz: setup ## Fuzz each target for FUZZ_S seconds (600)
	@scripts/fuzz.sh $(FUZZ_S)

fuzz-short: setup
	@echo "Fuzzing, $(FUZZ_SHORT_S) s per target"
	@scripts/fuzz.sh $(FUZZ_SHORT_S)

chaos: setup services ## Only the tests that kill, stall and starve real nodes, with 30 kills for ten
	@CHAOS_KILLS=$${CHAOS_KILLS:-30} $(PYTEST) -v tests/chaos

chaos-pipeline: setup services ## Kill the data pipeline ten times while it works
	@PIPELINE_KILLS=10 $(PYTEST) -v tests/pipeline/crash

model: setup ## Play RECOVERY_EXAMPLES (20,000) random histories each over memory and SQLite, and hold recovery to them
	@RECOVERY_EXAMPLES=$${RECOVERY_EXAMPLES:-20000} $(PYTEST) -n 2 -k test_a_client_that_returns_has_everything \
	  tests/unit/session/test_recovery.py tests/integration/session/test_recovery_on_sqlite.py

soak: setup services ## The tests that take many minutes
	@$(BIN)/python -m pytest -v -m soak $(PYTEST_ARGS)

fast: setup ## Compile the hot modules with mypyc into build/fast
	@scripts/compile.sh

fast-test: SPREAD := -n 2 --dist loadscope
fast-test: fast ## The tests of the hot modules, on the compiled ones
	@PYTHONPATH=$(CURDIR)/build/fast $(PYTEST) tests/unit/codec tests/unit/hub tests/unit/session \
	  tests/unit/features tests/contract/test_state_contract.py tests/integration

bench: fast ## Measure beside NATS, Redis and Mosquitto, against the goals
	@scripts/services.sh bench
	@PYTHONPATH=$(CURDIR)/build/fast $(BIN)/python -m arauto bench all

bench-pipeline: setup ## Measure the data pipeline against its goals
	@$(BIN)/python -m bench.pipeline --out bench/results/$$(date -u +%F)-pipeline.md

##@ Keep
.PHONY: setup services lock clean
setup: ## Create .venv from the lock files (a no-op when nothing changed)
	@scripts/setup.sh dev

services: ## Have PostgreSQL, Redis and strace for the tests, where we may install them
	@scripts/services.sh test

lock: setup ## Move the lock files to the newest versions pyproject.toml allows
	@scripts/lock.sh

clean: ## Remove .venv and everything made by these commands
	@rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
