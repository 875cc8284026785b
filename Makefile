PYTHON ?= python3
BIN := .venv/bin
DEMO_CONFIG := configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py
DEMO_RUN := work_dirs/demo

.DEFAULT_GOAL := help
.PHONY: help demo test lint light full faults clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

light:  ## the light environment: no compiler needed
	@$(PYTHON) requirements/install.py light

full:  ## the full environment: compiled mmcv ops, mmdet, test tools
	@$(PYTHON) requirements/install.py full

demo: light  ## pre-train on real digits and write a report
	@rm -rf $(DEMO_RUN)
	@$(BIN)/python tools/train.py $(DEMO_CONFIG) --work-dir $(DEMO_RUN)
	@$(BIN)/ttl report $(DEMO_RUN) --neighbors --out $(DEMO_RUN)/report \
	  --title 'Digits, learnt without labels'

test: full lint  ## lint, then the whole suite but `faults`, with the share of lines covered
	@$(BIN)/python -m pytest -n 2 --dist loadfile --cov

faults: full  ## the long fault suite: kills, hostile files, hanging ranks
	@$(BIN)/python -m pytest -m faults

lint: full  ## style, layers of imports, types, house rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/import_graph.py
	@$(BIN)/mypy
	@$(BIN)/python tools/house_rules.py

clean:  ## delete the environment and what was built
	rm -rf .venv build *.egg-info
