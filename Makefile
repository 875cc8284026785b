PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint light full faults clean

light:  ## the light environment: no compiler needed
	@$(PYTHON) requirements/install.py light

full:  ## the full environment: compiled mmcv ops, mmdet, test tools
	@$(PYTHON) requirements/install.py full

demo: light  ## pre-train on real digits and write a report
	@$(BIN)/python -m ttl_mm demo

test: full lint  ## everything CI checks
	@$(BIN)/python -m pytest -n 2 --dist loadfile

faults: full  ## the long fault suite: kills, hostile files, hanging ranks
	@$(BIN)/python -m pytest -m faults

lint: full
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m tests.house_rules

clean:
	rm -rf .venv build *.egg-info
