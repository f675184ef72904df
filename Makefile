# Everything stays in this checkout: uv in .tools, packages in .venv. Nothing here needs root.

SHELL := /bin/sh
.DEFAULT_GOAL := help

WORKERS ?= 2# test processes
ARGS ?=#      more arguments for pytest: make test ARGS="tests/engine/placement/test_gangs.py -x"

export UV_PYTHON_DOWNLOADS := never
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

BIN := .venv/bin
UV := .tools/bin/uv
PYTHONS := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11

.PHONY: help run ui test check bench proof cluster lock format clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: .venv/.run ui ## set everything up and run a day of GPU work on the embedded cluster
	@$(BIN)/windlass demo

ui: src/windlass/web/static/index.html ## build the dashboard (needs Node 20 or newer)

test: .venv/.dev ui ## set everything up and run the tests
	@$(BUILD_PLANE)
	@echo "Running the tests in $(WORKERS) processes ..."
	@$(BIN)/pytest -n $(WORKERS) $(ARGS)

check: .venv/.dev ## lint, format, types and layers
	@echo "Linting ..." && $(BIN)/ruff check .
	@echo "Checking the format ..." && $(BIN)/ruff format --check .
	@echo "Checking the types ..." && $(BIN)/pyright
	@echo "Checking the layers ..." && $(BIN)/lint-imports --no-logo
	@echo "Checking names, doors and docstrings ..." && $(BIN)/python tools/house.py --check
	@if ! $(HAS_NODE); then echo "$(NO_NODE)"; else \
		echo "Checking the types of the dashboard ..." && $(GET_UI) && npm run --silent check; fi

bench: .venv/.run ## time the engine: large clusters, large backlogs, the impossible
	@echo "Deciding 10,000 pods of 64 shapes ..."
	@$(BIN)/windlass bench engine --nodes 10000 --pods 10000 --shapes 64
	@echo "Deciding 10,000 pods, no two alike ..."
	@$(BIN)/windlass bench engine --nodes 10000 --pods 10000 --shapes 10000
	@echo "The same on a tenth of it, where the impossible is proved ..."
	@$(BIN)/windlass bench engine --nodes 1000 --pods 1000 --shapes 64
	@echo "Twenty times as many pods as a cluster has nodes, for the memory ..."
	@$(BIN)/windlass bench engine --nodes 5000 --pods 100000 --shapes 64
	@echo "Making room on 500 crowded nodes: taking back, moving, and neither ..."
	@$(BIN)/windlass bench displace --nodes 500

proof: .venv/.dev ui ## the same tests at full counts (long)
	@$(BUILD_PLANE)
	@echo "Running the tests at full counts in $(WORKERS) processes; this takes a while ..."
	@WINDLASS_PROOF=1 $(BIN)/pytest -n $(WORKERS) $(ARGS)

cluster: .venv/.run ## a real control plane on this machine, until Ctrl-C (ARGS="--nodes 20")
	@$(BIN)/windlass cluster $(ARGS)

format: .venv/.dev ## format the code and fix what can be fixed safely
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-annotate --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: .tools/.ready ## write requirements/*.txt from pyproject.toml (UPGRADE=1 takes newer versions)
	@echo "Resolving the requirements ..."
	@$(COMPILE) pyproject.toml --output-file requirements/run.txt
	@$(COMPILE) pyproject.toml --group dev --constraint requirements/run.txt \
		--output-file requirements/dev.txt
	@$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt
	@$(COMPILE) --group uv --output-file requirements/uv.txt

clean: ## remove everything that make has made
	rm -rf ui/node_modules src/windlass/web/static
	rm -rf .venv .tools .cluster build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find src lab tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A real control plane, and controllers of other projects, for the tests on Kubernetes; built once, with
# progress, if Go is there.
BUILD_PLANE = $(BIN)/windlass cluster --build || echo "Tests that need what could not be built are skipped."

# --- the dashboard ------------------------------------------------------------------------------
# Made from ui/ whenever that has changed; without Node everything else works all the same.

HAS_NODE = { npm --version && \
	node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)'; } >/dev/null 2>&1
NO_NODE = Node 20 or newer is not here, so the dashboard is left out.
GET_UI = cd ui && { [ node_modules/.ready -nt package-lock.json ] || \
	{ npm ci --loglevel=error --ignore-scripts && touch node_modules/.ready; }; }
UI_SOURCES := $(wildcard ui/src/*.* ui/src/*/*.*) ui/build.mjs ui/package-lock.json

src/windlass/web/static/index.html: $(UI_SOURCES)
	@if ! $(HAS_NODE); then echo "$(NO_NODE)"; else \
		echo "Building the dashboard ..."; { $(GET_UI) && npm run --silent build; } || \
		echo "The dashboard could not be built, so it is left out; the lines above say why."; fi

# --- setting up ---------------------------------------------------------------------------------
# Each step leaves a stamp, so that a repeated call has nothing to do.

INSTALL_WINDLASS = $(UV) pip install --quiet --python .venv --no-deps --no-build-isolation --editable . --editable lab

.venv/.run: requirements/run.txt requirements/build.txt pyproject.toml lab/pyproject.toml | .venv/pyvenv.cfg
	@echo "Installing what Windlass stands on ..."
	@$(UV) pip install --quiet --python .venv --require-hashes \
		-r requirements/run.txt -r requirements/build.txt
	@$(INSTALL_WINDLASS)
	@touch $@

.venv/.dev: requirements/dev.txt pyproject.toml lab/pyproject.toml | .venv/pyvenv.cfg
	@echo "Installing what Windlass stands on and the tools that check it ..."
	@$(UV) pip sync --quiet --python .venv --require-hashes requirements/dev.txt
	@$(INSTALL_WINDLASS)
	@touch .venv/.run $@

.venv/pyvenv.cfg: | .tools/.ready
	@$(FIND_PYTHON); $(UV) venv --quiet --no-project --clear --python "$$python" .venv

.tools/.ready: requirements/uv.txt
	@$(FIND_PYTHON); echo "Setting up in this checkout with Python from $$python ..."; \
	rm -rf .tools; \
	PIP_REQUIRE_VIRTUALENV=0 PIP_USER=0 "$$python" -m pip install --quiet --no-input \
		--disable-pip-version-check --root-user-action=ignore --only-binary :all: \
		--target .tools --require-hashes -r requirements/uv.txt
	@touch $@

# Sets $python to the first Python that is new enough and has pip, or says what is there instead.
define FIND_PYTHON
python=; found=; \
for name in $(PYTHONS); do \
	version=$$("$$name" -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue; \
	if "$$name" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then python=$$(command -v "$$name"); break; fi; \
	"$$name" -c 'import pip' 2>/dev/null || version="$$version without pip"; \
	found="$${found:+$$found, }$$name $$version"; \
done; \
if [ -z "$$python" ]; then \
	echo "Windlass needs Python 3.11 or newer with pip, but found $${found:-no Python}." >&2; exit 1; \
fi
endef
