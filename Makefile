VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip && $(BIN)/python -m pip install --quiet -e '.[dev]' && touch $@

install: $(VENV)/.installed ; @:
lint: install ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports
types: install ; $(BIN)/mypy
test: install ; $(BIN)/python -m pytest -q
.PHONY: install lint types test
