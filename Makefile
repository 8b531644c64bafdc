# One command each; every target makes the virtual environment it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Images for containers like to set it: then each of the hundreds of processes of a test run compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test laws sim system programs real older parity check fix bench docs dist lock clean

help: ## Show this help
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/runtime.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 1; }
	@test -x $(BIN)/python || echo "making the virtual environment $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned dependencies into $(VENV): about 750 MB, some minutes the first time ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/dev.stamp: requirements-dev.lock $(VENV)/runtime.stamp
	@echo "installing the pinned development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(VENV)/runtime.stamp ## Start three embedded clusters and watch pods spread over them (ARGS="--once", "--keep", ...)
	@$(BIN)/global-dispatcher demo $(ARGS)

test: $(VENV)/dev.stamp ## Run the fast tests (no cluster needed, about 4 minutes on two cores)
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m "not system and not real and not patient" $(ARGS)

laws: $(VENV)/dev.stamp ## Run the laws with all their examples (make test takes a tenth)
	@ALL_EXAMPLES=1 $(BIN)/python -m pytest tests/laws tests/relay tests/simulation \
		tests/scheduling/framework/test_class_keys.py tests/scheduling/batch/test_leading_rows.py $(ARGS)

sim: $(VENV)/dev.stamp ## Seeds, enumerated faults and planted bugs in virtual time (ARGS="--seed 7" replays one)
	@PYTHONPATH=. $(BIN)/python -m tests.simulation $(ARGS)

system: $(VENV)/dev.stamp ## Run the system tests: real Ray, embedded clusters as processes, kills
	@$(BIN)/python -m pytest -m "system and not real" $(ARGS)

programs: $(VENV)/dev.stamp
	@$(BIN)/python -m localfleet.controlplane.binaries >/dev/null || test $$? -eq 3 # 3: no Go, so what needs them is skipped

real: programs ## Run the suites on real control planes (builds them from Go modules once, into a cache)
	@$(BIN)/python -m pytest -m real $(ARGS)

older: export KUBERNETES_MINOR ?= 1.36
older: programs ## Run the cases of API and charts on an older Kubernetes, 1.36 or KUBERNETES_MINOR (builds it once, too)
	@$(BIN)/python -m pytest -m real tests/contract tests/charts $(ARGS)

parity: programs ## Compare with a real kube-scheduler and its oracle on generated fleets (a part of make real)
	@$(BIN)/python -m pytest -m parity tests/parity $(ARGS)

check: $(VENV)/dev.stamp ## Lint, types and import contracts (changes nothing)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports --no-cache

fix: $(VENV)/dev.stamp ## Format and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp ## Measure beside kube-scheduler and published figures; appends to benchmarks/results.jsonl (docs/benchmarks.md)
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/dev.stamp ## Build the documentation into build/site; a link that leads nowhere fails
	@PYTHONPATH=. $(BIN)/python -m docs.generate
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dist: $(VENV)/dev.stamp ## Make a release's files in dist/: wheel, charts, kubectl plugin, image context, SBOM
	@.ci/dist $(ARGS)

lock: $(VENV)/dev.stamp ## Refresh the hash-locked dependency files
	@$(BIN)/python -m pip install --quiet 'uv>=0.13,<0.14'
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --upgrade --output-file requirements.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	@# What the image has, traces included, and what makes the wheel in it.
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --extra otel --constraint requirements.lock --output-file requirements-image.lock pyproject.toml
	@echo 'hatchling>=1.27,<2' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --output-file requirements-build.lock -

clean: ## Remove the virtual environment and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
