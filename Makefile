# What a developer runs; CI runs the same. `make` alone lists the targets.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STUB   := gpushare_plugin/sim/nvml_stub
CFLAGS_STUB := -std=c11 -O2 -Wall -Wextra -Werror -fPIC

# Only what is said for this: KUBECONFIG in the environment may be somebody's real cluster.
ifneq ($(origin KUBECONFIG),command line)
KUBECONFIG :=
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-core check lint types contracts native bench proto proto-check golden lock coverage image e2e e2e-build ci clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready $(STUB)/libnvidia-ml.so.1 ## virtual environment, locked dependencies, the C stub of NVML

# The stamp names what it was made from: a changed lock file makes it anew.
$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@scripts/system-packages $(PYTHON)
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(STUB)/libnvidia-ml.so.1: $(wildcard $(STUB)/*.c $(STUB)/*.h)
	@scripts/system-packages $(PYTHON)
	@echo "building $@"
	@cc $(CFLAGS_STUB) -shared -Wl,-soname,libnvidia-ml.so.1 -o $@ $(wildcard $(STUB)/*.c) -lpthread

demo: setup ## the main job on simulated GPUs: watch it happen
	@$(BIN)/gpushare demo

test: setup ## every test that needs no GPU and no cluster
	@$(BIN)/python -m pytest -n 2 --dist worksteal

test-core: setup ## the pure tests alone
	@$(BIN)/python -m pytest tests/core

check: lint types contracts proto-check ## lint, types, contracts, generated code

lint: setup ## ruff: style and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## mypy, strict, over package and tests
	@$(BIN)/mypy

contracts: setup ## import-linter: the walls of the house
	@$(BIN)/lint-imports

native: setup ## the C stub under the address and undefined-behaviour sanitizers
	@$(BIN)/python -m pytest tests/native --native-sanitizers

bench: setup ## measure; prints ratios against a baseline of the same run
	@$(BIN)/python -m bench

proto: setup ## generate gpushare_plugin/proto from protos/
	@$(BIN)/python -m grpc_tools.protoc -I protos --python_out=gpushare_plugin/proto --pyi_out=gpushare_plugin/proto protos/*.proto

proto-check: proto ## generate, and ask for no difference
	@git diff --exit-code --stat -- gpushare_plugin/proto
	@test -z "$$(git status --porcelain --untracked-files=all -- gpushare_plugin/proto | grep -v '^A ')" || { git status --short -- gpushare_plugin/proto; exit 1; }

golden: setup ## rewrite the recordings (README, golden files); review them as a diff
	@$(BIN)/python -m pytest tests --golden-rewrite -k golden

lock: setup ## resolve the dependencies anew
	@$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet pyproject.toml -o requirements/runtime.txt
	@$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet -c requirements/runtime.txt pyproject.toml requirements/dev.in -o requirements/dev.txt

coverage: setup ## the tests again, with the lines they reach
	@$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered

image: setup ## build the container image without Docker, and start it beside the simulated kubelet
	@scripts/image $(BIN)/python

e2e-build: setup ## build Kubernetes' programs for the tests on a real cluster; once, then they are kept
	@$(BIN)/python -m e2e --build

e2e: setup ## the product under a real Kubernetes on this machine, or KUBECONFIG=FILE: on that cluster
	@GPUSHARE_E2E_KUBECONFIG=$(abspath $(KUBECONFIG)) $(BIN)/python -m e2e $(E2E)

ci: check native test image ## all of it, as CI runs it

clean: ## remove what setup and the tools made
	@rm -rf $(VENV) $(STUB)/libnvidia-ml.so.1 .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
