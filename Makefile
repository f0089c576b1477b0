# make run    builds both datasets from real architectures and grades the example submissions (no GPU, no network use)
# make test   checks style, types, import directions and runs every test that needs no GPU
# VENV=dir overrides the virtual environment, RUN=dir the run directory, PYTHON=exe the interpreter (3.11 or newer)
PYTHON ?= python3
VENV ?= .venv
RUN ?= runs/default
BIN := $(abspath $(VENV))/bin
MARK := $(abspath $(VENV))/passnet-$(shell (echo $(CURDIR); cat pyproject.toml constraints.txt) | cksum | tr ' ' '-')
export OMP_NUM_THREADS ?= 1

.PHONY: run test install check plain
install: $(MARK)
$(MARK): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PassNet needs Python 3.11 or newer; set PYTHON=")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a first installation of torch takes minutes)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@rm -f $(abspath $(VENV))/passnet-* && touch $@

run: install
	$(BIN)/passnet build --out $(RUN)
	$(BIN)/passbench run examples/submissions/fused_add_layer_norm --tasks $(RUN) --out $(RUN)/results
	$(BIN)/passbench run examples/submissions/wrong_add_layer_norm --tasks $(RUN) --out $(RUN)/results
	$(BIN)/passnet status --out $(RUN)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

plain: install
	$(BIN)/python -m pytest -m plain -n 2

test: check plain
	$(BIN)/python -m pytest -m "slow or torch or build" -n 2 --dist loadfile
