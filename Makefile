PYTHON ?= python3
BIN := .venv/bin
DEMO_CONFIG := configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py
DEMO_RUN := work_dirs/demo

.PHONY: demo test lint light full faults clean

light:  ## the light environment: no compiler needed
	@$(PYTHON) requirements/install.py light

full:  ## the full environment: compiled mmcv ops, mmdet, test tools
	@$(PYTHON) requirements/install.py full

demo: light  ## pre-train on real digits and write a report
	@rm -rf $(DEMO_RUN)
	@$(BIN)/python tools/train.py $(DEMO_CONFIG) --work-dir $(DEMO_RUN)
	@$(BIN)/ttl report $(DEMO_RUN) --neighbors --out $(DEMO_RUN)/report \
	  --title 'Digits, learnt without labels'

test: full lint  ## everything CI checks
	@$(BIN)/python -m pytest -n 2 --dist loadfile

faults: full  ## the long fault suite: kills, hostile files, hanging ranks
	@$(BIN)/python -m pytest -m faults

lint: full
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m tools.house_rules

clean:
	rm -rf .venv build *.egg-info
