# Each target does its own set-up: a virtual environment in .venv, filled once and again when pyproject.toml changes.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
CAPS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false
DEMO := build/demo

.PHONY: demo test lint format docs browser frameworks clean

demo: .venv/core.stamp
	$(BIN)/unweave demo
	@mkdir -p $(DEMO)
	$(BIN)/unweave identify examples/tanh_30_9.onnx --out $(DEMO)/recovered.onnx --json $(DEMO)/verdict.json
	$(BIN)/unweave compare examples/tanh_30_9.onnx $(DEMO)/recovered.onnx

test: .venv/dev.stamp
	$(CAPS) $(BIN)/python -m pytest -n 2

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/docs.stamp
	$(BIN)/mkdocs build --strict

browser: .venv/dev.stamp
	$(BIN)/python tests/report/browser.py build/browser

frameworks: .venv/dev.stamp
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location -e '.[keras,flax,equinox,tflite]' flatbuffers
	$(CAPS) $(BIN)/python -m pytest -n 0 -W ignore tests/models/frameworks.py

clean:
	rm -rf .venv build dist site .pytest_cache .ruff_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; install it, or run: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old; run: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/core.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location -e '.[onnx]'
	@touch $@

.venv/dev.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location -e '.[all,dev]'
	@touch $@ .venv/core.stamp

.venv/docs.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location -e '.[docs]'
	@touch $@
