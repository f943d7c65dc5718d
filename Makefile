# After `git clone`: `make demo`. It needs Python 3.10 or newer, Java 17 and make; the rest it fetches.
# Every target sets up what is missing first. `make` alone lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-postgres test test-long test-mutants test-first-hour check bench soak docs reference site wheel \
	clean

BIN := .venv/bin

# Tests start hundreds of processes: without bytecode each would compile everything that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The stamp lies in .venv, so deleting .venv is enough to be set up afresh.
READY := .venv/.ready

# Not the documentation: ruff would tidy the code blocks that show how not to do it.
SOURCES := src tests examples bench scripts

ROUNDS ?= 50
KILLS ?= 500
SEED ?= 1

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-24s%s\n", $$1, $$2 }'

setup: $(READY) ## virtual environment from the lock file, jars; instant when nothing changed

$(READY): uv.lock pyproject.toml scripts/setup.sh
	@echo "set-up (once)"
	@sh scripts/setup.sh
	@touch $(READY)

demo: $(READY) ## the shop's story: kill it, run it again, look at the money (under 3 minutes)
	@$(BIN)/python examples/worldshop/demo.py

demo-postgres: $(READY) ## orders in PostgreSQL: 250,000 rows, killed and retried (under 4 minutes)
	@$(BIN)/python -W ignore examples/worldshop/demo_postgres.py

check: $(READY) ## format, lint, types, import contracts, unit tests: what pre-commit and CI run
	@echo "format" && $(BIN)/ruff format --check --quiet $(SOURCES)
	@echo "lint" && $(BIN)/ruff check --quiet $(SOURCES)
	@echo "types" && $(BIN)/mypy
	@echo "import contracts" && output=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$output"; exit 1; }
	@echo "unit tests" && $(BIN)/python -m pytest -q -n auto -m "not process" tests/unit

# Every test has its own time limit; the session limit is the bound for all of them together.
OTHERS := $(BIN)/python -m pytest -q -n 3 --dist loadscope --no-loadscope-reorder --ignore=tests/unit --durations=20

test: check ## check, then every other test in three processes: contracts, Spark, crashes, double fires
	@echo "unit tests of processes" && \
		$(BIN)/python -m pytest -q -n auto -m process $$(grep -rl "mark.process" --include="*.py" tests/unit)
	@echo "all other tests" && $(OTHERS) -m "not long" --session-timeout=4700 tests

test-long: $(READY) ## what `make test` only samples: every failpoint on Delta, every naive job, the whole shop
	@$(OTHERS) -m long --ignore=tests/mutants/test_mutants.py tests

test-mutants: $(READY) ## take every protection away that needs neither JVM nor server: a test must go red
	@$(BIN)/python -m pytest -q tests/mutants/test_mutants.py

test-first-hour: $(READY) ## a new user: wheel or git, fresh environment, twice init, its CI, all commands of README and tutorial
	@$(BIN)/python -m tests.first_hour.new_user

bench: $(READY) ## measure against hand-written Spark; results in bench/results
	@mkdir -p bench/results
	@for script in bench/*.py; do \
		grep -q '__name__ == "__main__"' "$$script" || continue; \
		name=$$(basename "$$script" .py); echo "bench: $$name"; \
		$(BIN)/python -m "bench.$$name" --json "bench/results/$$name.json" || exit 1; \
	done

soak: $(READY) ## the long proof: make soak ROUNDS=50 SEED=1; writes its results under docs/proof
	@$(BIN)/python -m tests.soak.runs --rounds $(ROUNDS) --seed $(SEED)
	@$(BIN)/python -m tests.soak.effects --kills $(KILLS) --seed $(SEED)
	@$(BIN)/python -m tests.soak.kills --kills 400 --seed $(SEED)
	@$(BIN)/python -m tests.soak.kills_warm --kills 100 --seed $(SEED)
	@$(BIN)/python -m tests.soak.backfill --seed $(SEED)
	@$(BIN)/python -m tests.soak.histories delta --rounds 200 --seed $(SEED)
	@$(BIN)/python -m tests.soak.histories postgres --rounds 500 --seed $(SEED)
	@$(BIN)/python -m tests.soak.postgres --seed $(SEED)
	@$(BIN)/python -m tests.soak.mutants
	@$(BIN)/python -m tests.soak.prove
	@$(BIN)/python scripts/soak_lint.py --rounds 20000 --seed $(SEED) --result docs/proof/lint.json

docs: $(READY) ## check the documentation: links resolve, examples run, the site is whole
	@$(BIN)/python -m pytest -q tests/docs

reference: $(READY) ## write the pages that are made from the code: command line, API, settings, rules, the picture
	@for script in render_cli render_configuration render_api render_rules draw_incident; do \
		$(BIN)/python scripts/$$script.py || exit 1; \
	done

# Not --quiet: what it does not print it does not count as an error either. The generator's own notice about its successor
# is left out: docs/decisions/0031.
site: $(READY) ## the documentation as a site that is read offline: site/index.html
	@output=$$(NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2>&1) || { echo "$$output"; exit 1; }
	@echo "open site/index.html"

wheel: $(READY) ## the package as one file, dist/twice-VERSION-py3-none-any.whl
	@.tools/bin/uv build --quiet --wheel --out-dir dist
	@ls dist/*.whl

clean: ## remove what make made (not your tables)
	@rm -rf .venv .tools dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
