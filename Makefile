# Two commands do all the set-up: `make demo` and `make test`. Only python3 and make are assumed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DEVELOPED := .venv/.developed

.PHONY: help install demo test check bench example clean

help:
	@echo "make demo     install into .venv and run the embedded example"
	@echo "make test     install into .venv and run every test (those of Spark where there is Java 17)"
	@echo "make check    ruff and mypy --strict"
	@echo "make bench    benchmarks (ratios within one run)"
	@echo "make install  only install, tests included"
	@echo "make example  rebuild the embedded table: make example LOTS=manhattan_lots_2023.csv.gz"

install: $(DEVELOPED)

# The demo needs the program only; tests need much more, Spark among it.
$(INSTALLED): pyproject.toml constraints.txt
	$(call set_up,.)
	@touch $@

$(DEVELOPED): pyproject.toml constraints.txt
	$(call set_up,.[dev])
	@touch $(INSTALLED) $@

define set_up
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "distp: '$(PYTHON)' was not found: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "distp: $$($(PYTHON) --version) is too old: Python 3.11 or newer is needed (make PYTHON=python3.12 names another)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "distp: this Python has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Setting up .venv (once)"
	@$(PYTHON) -m venv .venv || { echo "distp: could not make .venv: is this folder writable?"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(1)' || { echo "distp: installing the packages failed: a package index must be reachable (see pip's message above)"; exit 1; }
endef

demo: $(INSTALLED)
	@$(BIN)/distp demo

test: $(DEVELOPED)
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

check: $(DEVELOPED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(DEVELOPED)
	@$(BIN)/python -m pytest benchmarks -q --benchmark-only --benchmark-columns=min,median,rounds

example: $(DEVELOPED)
	@$(BIN)/python tools/build_example.py $(LOTS)

clean:
	rm -rf .venv distp-demo
