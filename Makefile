# Two commands on a machine with Python 3.11 or newer, pip and make: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean help

help:
	@echo "make demo    an agent on an embedded model, then on two simulated services"
	@echo "make test    the whole test suite"
	@echo "make lint    style, types, layering"
	@echo "make bench   what the loop costs, next to a bare floor"
	@echo "make clean   remove the virtual environment and build files"

demo: $(VENV)/demo
	$(BIN)/hotloop demo

test: $(VENV)/dev
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadgroup

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev
	$(BIN)/python benchmarks/overhead.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "hotloop needs Python 3.11 or newer; call make with PYTHON=python3.12, say"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[cli,local]'
	@touch $@

$(VENV)/dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
