# Every target sets up what it needs: a virtual environment in .venv, for the site in .venv-docs, for measurements in .venv-bench,
# made again only when pyproject.toml changes. Nothing is installed outside of this folder.
PYTHON ?= python3
VENV := .venv
DOCS := .venv-docs
BENCH := .venv-bench
BIN := $(VENV)/bin

# Install lie_jax from here with the extra $(2) into the environment $(1).
define install
	@echo "Installing lie_jax with the extra [$(2)] into $(1): minutes, and again when pyproject.toml changes."
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[$(2)]'
	@touch $@
endef

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

# On the newest Python, whose users get the newest JAX.
bench: $(BENCH)/.ready
	$(BENCH)/bin/python -m benchmarks.peers
	$(BENCH)/bin/python -m benchmarks.step_cost
	$(BENCH)/bin/python -m benchmarks.gradient_cost
	$(BENCH)/bin/python -m benchmarks.compile_cost
	$(BENCH)/bin/python -m benchmarks.mpc
	$(BENCH)/bin/python -m benchmarks.maps
	$(BENCH)/bin/python -m benchmarks.sweep_throughput

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

# The theme prints a page about another project's plans unless the variable is set.
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

clean:
	rm -rf .venv .venv-newest $(DOCS) $(BENCH) .jax_cache .pytest_cache .ruff_cache out site

# All that the command line and most experiments need, half of what tests and lint do.
$(VENV)/.experiments: pyproject.toml
	$(call install,$(VENV),experiments)

$(VENV)/.ready: pyproject.toml
	$(call install,$(VENV),dev)

# The libraries that the experiment `accuracy` compares with, besides those that tests use.
$(VENV)/.peers: $(VENV)/.ready
	$(call install,$(VENV),peers)

# The simulators that `make bench` measures against, on the newest Python.
$(BENCH)/.ready: PYTHON = $(NEWEST)
$(BENCH)/.ready: pyproject.toml
	$(call install,$(BENCH),bench)

$(VENV)/.notebooks: $(VENV)/.ready
	$(call install,$(VENV),notebooks)

$(DOCS)/.ready: pyproject.toml
	$(call install,$(DOCS),docs)
