# `make` alone prints this help. ARGS reaches the command behind a target: make test ARGS="tests/unit -k lock"

.DEFAULT_GOAL := help
.PHONY: help setup check test demo bench picture soak docs lock

BIN := .venv/bin
ARGS ?=
# Python keeps what it has compiled, whatever the environment says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

help: ## this list
	@printf 'usage: make TARGET [ARGS="..."]\n\n'
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
		printf '  %-8s %s\n' "$$target" "$$text"; done

setup: ## make .venv from the lock file; at once when it is up to date
	@scripts/setup

check: setup ## format, lint, types, layers, dependencies, spelling, lock file
	@scripts/check

# Four processes for two cores: one computes, the others mostly wait for real processes (tests/groups.py).
test: setup ## all tests, with the real components they need
	@scripts/components
	@$(BIN)/pytest -n 4 --dist loadgroup -raR $(ARGS)

demo: setup ## the main job: break a real training run in six ways and watch it come back
	@$(BIN)/relance demo $(ARGS)

bench: setup ## measure, and hold the bars; prints JSON
	@test -d bench || { echo 'bench: this checkout has no benchmarks (no folder bench/)' >&2; exit 1; }
	@$(BIN)/python -m bench $(ARGS)

picture: setup ## make the pictures of the README anew, from a run of the demonstration
	@$(BIN)/python scripts/picture.py

soak: setup ## the hours-long tests that `make test` samples
	@scripts/components
	@$(BIN)/pytest -m soak --timeout 0 -ra $(ARGS)

docs: setup ## build the documentation into docs/_build/html; a warning is an error
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html $(ARGS)
	@echo 'docs/_build/html/index.html'

lock: ## bring requirements.lock in step with pyproject.toml; ARGS=--upgrade takes the newest of all
	@test -x $(BIN)/uv || scripts/setup
	@$(BIN)/python scripts/lock.py $(ARGS)
