PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo matrix test lint docs figures light full lock browser faults fuzz clean
.PHONY: check-style check-types check-site

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

light:  ## the light environment: no compiler needed
	@$(PYTHON) requirements/install.py light

full:  ## the full environment: compiled mmcv ops, mmdet, test tools
	@$(PYTHON) requirements/install.py full

demo: light  ## pre-train on digits on photographs and write a page
	@$(BIN)/ttl demo

matrix:  ## install the light stack and run the quick suite on every Python found
	@$(PYTHON) requirements/matrix.py $(ONLY)

lock:  ## pin all that requirements/*.txt need, with hashes; needs uv and the registry
	@$(PYTHON) requirements/lock.py

test: full lint  ## lint, then the whole suite but `faults`, with the share of lines covered
	@$(BIN)/python -m pytest -n 2 --max-worker-restart 1 --dist loadfile --no-loadscope-reorder -p tests.helpers.line_coverage

browser:  ## Chromium for the tests of pages, where the system lets us install it
	@tools/install_browser.sh

faults: full  ## the long fault suite: kills, hostile files, hanging ranks
	@$(BIN)/python -m pytest -m faults

fuzz: full  ## damaged files for every reader, five minutes; MUTANTS=200000 for a long run
	@$(BIN)/python tools/fuzz.py $(if $(MUTANTS),--mutants $(MUTANTS)) 2>/dev/null

lint: full  ## style, layers of imports, types, house rules, the site; two at a time
	@$(MAKE) --no-print-directory -j 2 check-site check-types check-style

check-style:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/import_graph.py
	@$(BIN)/python tools/house_rules.py
	@$(BIN)/python tools/figures.py check

check-types:
	@$(BIN)/mypy

check-site:
	@DOCS_CHECK=1 $(BIN)/python -m sphinx -q -W --keep-going -c docs . build/check

docs: full  ## the site, in build/site; a broken link or a public name without a docstring is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs . build/site

figures: full  ## renew the figures of the pages that take minutes; check the others against stored readings
	@$(BIN)/python tools/figures.py renew

clean:  ## delete the environment and what was built
	rm -rf .venv .matrix build *.egg-info
