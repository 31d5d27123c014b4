# Every target sets up what it needs: a virtual environment in .venv, made again only when
# pyproject.toml changes. Nothing is installed outside of this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test experiments notebooks bench lint docs clean

demo: $(VENV)/.experiments
	$(BIN)/python -m experiments run demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest

experiments: $(VENV)/.peers notebooks
	$(BIN)/python -m experiments run all
	XLA_FLAGS= $(BIN)/python -m pytest -m slow

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
	rm -rf $(VENV) .jax_cache .pytest_cache .ruff_cache out site

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
