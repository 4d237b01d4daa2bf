# Everything a newcomer needs: `make demo` and `make test` set up what they use in .venv and can be run again and again.
# A machine with a GPU chooses its own torch build:  make setup TORCH_CONSTRAINT=   (or  TORCH_CONSTRAINT="-c my-constraints.txt")
PYTHON ?= python3
TORCH_CONSTRAINT ?= -c constraints.txt
SCALE ?= laptop
SMOKE := $(if $(filter smoke,$(SCALE)),-smoke)
BIN := .venv/bin
# compiled files are kept, whatever the shell says: without them every process compiles torch and all tests anew
unexport PYTHONDONTWRITEBYTECODE
# what imports Lightning and transformers: ten seconds in every process, so `make test-more` runs it in one
FRAMEWORKS := tests/complexity/test_callbacks.py tests/end_to_end/test_library_models.py netgrain/complexity/lightning_callback.py netgrain/complexity/transformers_callback.py
# what imports timm. Its torchvision may be built for another torch, and then breaks the imports of Lightning and
# transformers, so both stand in a folder of their own, which only these tests see
VISION := tests/models/test_timm_models.py tests/end_to_end/test_real_models.py

.PHONY: help setup demo quick test browser test-browser docs-lines test-more check bench house pages torture package lowest docs format lint types imports clean
.DEFAULT_GOAL := help

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /	/' | expand -t 14

# uv installs several times faster than pip and takes the same constraints; where it cannot be had, pip does the work.
define install
	@if $(BIN)/python -m pip install --quiet uv 2>/dev/null; then \
	  UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" $(BIN)/python -m uv pip install --quiet --python $(BIN)/python $(TORCH_CONSTRAINT) $(1); \
	else \
	  $(BIN)/python -m pip install --quiet $(TORCH_CONSTRAINT) $(1); \
	fi
endef

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "netgrain needs Python 3.11 or newer; $(PYTHON) is `$(PYTHON) --version 2>&1`. Try: make PYTHON=python3.11 setup"; exit 2; }
	$(PYTHON) -m venv .venv

.venv/.run-installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing netgrain into .venv ..."
	$(call install,-e .)
	@touch $@

.venv/.dev-installed: pyproject.toml constraints.txt .venv/.run-installed
	@echo "installing the test tools into .venv ..."
	$(call install,-e '.[dev]')
	@touch $@

.venv/.vision-installed: constraints.txt .venv/.dev-installed
	@echo "installing timm into .venv/vision ..."
	$(call install,--no-deps --target .venv/vision timm torchvision)
	@touch $@

setup: .venv/.run-installed  ## make .venv and install netgrain into it

demo: setup  ## an audit page, four geometries, figures 9 and 1, and files to try things on, in out/demo/ (SCALE=smoke: half a minute)
	@echo "1 of 4: the geometries of four networks"
	@$(BIN)/python examples/demo.py --out out/demo $(if $(filter smoke,$(SCALE)),--small)
	@$(BIN)/python examples/make_files.py --out out/demo
	@echo; echo "2 of 4: figure 9 of the paper"
	@$(BIN)/netgrain run fig9 --scale $(SCALE) --out out/demo/fig9$(SMOKE) --resume
	@echo; echo "3 of 4: figure 1 of the paper$(if $(filter smoke,$(SCALE)), (at this scale it shows the steps only: the networks are too small to learn))"
	@$(BIN)/netgrain run fig1 --scale $(SCALE) --out out/demo/fig1$(SMOKE) --resume
	@echo; echo "4 of 4: an audit"
	@$(BIN)/netgrain audit examples/mymodels.py:Net --data digits --limit 300 $(if $(filter smoke,$(SCALE)),--quick) --out out/demo/audit.html
	@sed 's,\(demo/fig[0-9]*\)/,\1$(SMOKE)/,' examples/next.txt

quick: .venv/.dev-installed  ## one contract or oracle test of each file, in under a minute
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m quick -n 2 tests

test: .venv/.dev-installed  ## the tests and doctests, five minutes on two cores
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not browser and not ray and not slow" -n 2 --dist loadgroup $(FRAMEWORKS:%=--ignore=%) $(VISION:%=--ignore=%)

browser:  ## Debian's Chromium for the tests of the report page, where it is missing and may be installed
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq >/dev/null && \
	  timeout 300 apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
	  || { echo "no chromium found; install it first: sudo apt-get install chromium"; exit 2; }

test-browser: browser .venv/.dev-installed  ## the report page in real Chromium
	@$(BIN)/python -m pytest -m browser tests/end_to_end/test_browser.py

docs-lines: .venv/.dev-installed  ## run every line of README and docs after the README's set-up (OPTIONS=--as-printed: slow ones, too)
	@$(BIN)/python tests/end_to_end/docs_lines.py $(OPTIONS)

test-more: docs-lines docs  ## what `make test` leaves out: every line of the docs, the site with its tutorials, training frameworks, real models, a Ray cluster, slow tests, a Jupyter kernel, the report page in Chromium (skipped where there is none)
	@$(MAKE) --no-print-directory browser || echo "no browser: the tests of the report page are skipped"
	@$(BIN)/python -m pytest tests/end_to_end/test_browser.py $(FRAMEWORKS)
	@$(MAKE) --no-print-directory .venv/.vision-installed
	@PYTHONPATH=.venv/vision $(BIN)/python -m pytest $(VISION)
	@$(BIN)/python -m pytest -m ray tests/runtime
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 tests

format: .venv/.dev-installed  ## rewrite the sources in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: .venv/.dev-installed
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

imports: .venv/.dev-installed
	@$(BIN)/lint-imports --no-cache > .venv/imports.log 2>&1 || { cat .venv/imports.log; exit 1; }

types: .venv/.dev-installed
	@$(BIN)/mypy

check: lint types imports test  ## format, lint, types, arrows between rooms, tests with doctests; CI runs this and test-more

bench: .venv/.vision-installed  ## measure speed and error against plain references (hours for real models; leave the machine alone meanwhile)
	@$(BIN)/python benchmarks/closed_form.py --widths --out out/bench
	@$(BIN)/python benchmarks/away_from_origin.py --out out/bench
	@$(BIN)/python benchmarks/geometry.py --out out/bench
	@$(BIN)/python benchmarks/large_input.py --out out/bench
	@$(BIN)/python benchmarks/evolution.py --out out/bench
	@$(BIN)/python benchmarks/complexity.py --out out/bench
	@PYTHONPATH=.venv/vision $(BIN)/python benchmarks/audit.py --out out/bench
	@PYTHONPATH=.venv/vision $(BIN)/python benchmarks/learnability.py --large resnet50 vit_small_patch16_224 --out out/bench
	@$(BIN)/python benchmarks/groups.py
	@$(BIN)/python benchmarks/limit.py --out out/bench
	@$(BIN)/python benchmarks/training.py
	@$(BIN)/python benchmarks/engine.py --out out/bench
	@PYTHONPATH=.venv/vision $(BIN)/python benchmarks/real_models.py --out out/bench
	@PYTHONPATH=.venv/vision $(BIN)/python benchmarks/real_models.py --reduced --outputs --families 0 --out out/bench
	@$(BIN)/python benchmarks/random_modules.py --out out/bench
	@PYTHONPATH=.venv/vision $(BIN)/python benchmarks/attention.py --out out/bench

house: .venv/.dev-installed  ## draw the rooms and their imports for docs/architecture.md, and count what stands in them
	@$(BIN)/python docs/house.py

pages: .venv/.dev-installed  ## docs/coverage.md and docs/settings.md, made from the experiments
	@$(BIN)/python docs/coverage.py
	@$(BIN)/python docs/settings.py

.venv/.docs-installed: pyproject.toml constraints.txt .venv/.dev-installed
	@echo "installing Sphinx into .venv ..."
	$(call install,-e '.[docs]')
	@touch $@

docs: .venv/.docs-installed  ## the documentation as a site in out/site/, with executed tutorials; fails on a warning or a broken link
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -d out/site-made docs out/site
	@$(BIN)/python docs/links.py out/site
	@echo "open out/site/index.html"

torture: .venv/.dev-installed  ## kill, starve and damage runs for a quarter of an hour and see that nothing is lost (best as root)
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/python -m pip install --quiet $(TORCH_CONSTRAINT) -e '.[torture]' \
	  || echo "atheris could not be installed: inputs are not guided by coverage"
	@$(BIN)/python -m torture --out out/torture

package: .venv/.dev-installed  ## sdist and wheel into dist/, each installed into an empty environment and tried there (PYTHON=python3.13: with that one)
	@rm -rf dist out/package && $(BIN)/python -m uv build --quiet --out-dir dist && ls -l dist
	@for file in dist/*.whl dist/*.tar.gz; do \
	  echo "trying $$file" && $(PYTHON) -m venv --clear out/package && \
	  UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" $(BIN)/python -m uv pip install --quiet --python out/package/bin/python $(TORCH_CONSTRAINT) "$$file" && \
	  out/package/bin/python -I tests/end_to_end/package_smoke.py || exit 1; \
	done; echo "both work"

lowest: .venv/.dev-installed  ## the quick tests with the lowest versions of all dependencies but torch (see pyproject.toml)
	@$(PYTHON) -m venv --clear out/lowest
	@UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" $(BIN)/python -m uv pip install --quiet --python out/lowest/bin/python --resolution lowest-direct $(TORCH_CONSTRAINT) -e '.[dev]'
	@OMP_NUM_THREADS=1 out/lowest/bin/python -m pytest -m quick -n 2 -W ignore::DeprecationWarning tests

clean:  ## remove the environment and everything made
	rm -rf .venv out
