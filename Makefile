# Two commands matter: `make demo` and `make test`. Each sets up all it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
endif

.PHONY: demo test test-slow lint bench docs clean

$(VENV)/ready-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

demo: $(VENV)/ready-xarray
	$(BIN)/python examples/demo.py

lint: $(VENV)/ready-test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not slow"

test-slow: $(VENV)/ready-test
	$(BIN)/python -m pytest -n auto --maxprocesses 4 -m slow

bench: $(VENV)/ready-bench
	if command -v gfortran; then $(BIN)/python -m pip install --quiet numbalsoda; fi  # it has no wheels
	$(BIN)/python benchmarks/collection.py
	$(BIN)/python benchmarks/pendulum.py
	$(BIN)/python benchmarks/formulations.py
	$(BIN)/python benchmarks/second_order.py
	$(BIN)/python benchmarks/alpha.py
	$(BIN)/python benchmarks/nonstiff.py
	$(BIN)/python benchmarks/proportionality.py
	$(BIN)/python benchmarks/automatic.py
	$(BIN)/python benchmarks/alternatives.py
	$(BIN)/python benchmarks/iterated.py

docs: $(VENV)/ready-xarray
	$(BIN)/python docs/make_figures.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
