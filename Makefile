# Every target sets up what it needs: a virtual environment in .venv, made again only when
# pyproject.toml changes. Nothing is installed outside of this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The newest interpreter that is installed, for which pip finds the newest JAX.
NEWEST = $(firstword $(foreach minor,14 13 12 11,$(foreach python,\
	python3.$(minor) $(wildcard $(HOME)/.pyenv/versions/3.$(minor).*/bin/python),\
	$(shell $(python) -c "print('$(python)')" 2>/dev/null))))

.PHONY: demo test test-all smoke test-newest smoke-newest experiments notebooks bench lint docs clean

demo: $(VENV)/.experiments
	$(BIN)/python -m experiments run demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest

# All tests. The experiments run first, so that their claims are tested on new numbers. Pages and
# the tests of `make test` are compiled as users' programs are, the others for a short wait.
test-all: test experiments
	$(BIN)/python -m pytest -m full --ignore=tests/pages
	XLA_FLAGS= $(BIN)/python -m pytest -m full tests/pages
	XLA_FLAGS= $(BIN)/python -m pytest

# What a new release of JAX breaks first.
smoke: $(VENV)/.ready
	$(BIN)/python -m pytest -m smoke tests/package/test_smoke.py

test-newest smoke-newest:
	$(MAKE) $(@:-newest=) PYTHON=$(NEWEST) VENV=.venv-newest

experiments: $(VENV)/.peers notebooks
	$(BIN)/python -m experiments run all

notebooks: $(VENV)/.notebooks
	$(BIN)/python -m nbconvert --to notebook --execute --inplace notebooks/*.ipynb

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.step_cost
	$(BIN)/python -m benchmarks.gradient_cost
	$(BIN)/python -m benchmarks.maps
	$(BIN)/python -m benchmarks.sweep_throughput

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .venv-newest .jax_cache .pytest_cache .ruff_cache out site

# All that the command line and most experiments need, half of what tests and lint do.
$(VENV)/.experiments: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --editable '.[experiments]'
	touch $@

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --editable '.[dev]'
	touch $@

# The libraries that the experiment `accuracy` compares with, besides those that tests use.
$(VENV)/.peers: $(VENV)/.ready
	$(PIP) install --editable '.[peers]'
	touch $@

# The simulators that `make bench` measures against.
$(VENV)/.bench: $(VENV)/.ready
	$(PIP) install --editable '.[bench]'
	touch $@

$(VENV)/.notebooks: $(VENV)/.ready
	$(PIP) install --editable '.[notebooks]'
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(PIP) install --editable '.[docs]'
	touch $@
