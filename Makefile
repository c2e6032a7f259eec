# make demo and make test do all their own set-up in a private .venv, from pinned versions.
PYTHON ?= python3.11
PYTHON_FOUND := $(shell command -v $(PYTHON) || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo-output
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: demo test lint bench bench-real test-browser clean

$(STAMP): requirements/lock.txt pyproject.toml
	$(PYTHON_FOUND) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/septum demo --force -o $(DEMO)

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -q

# Ratios against named peers, each written to benchmarks/results. SPAMS (GPL) is for comparison only.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/bench.txt
	$(BIN)/python benchmarks/spectral.py
	$(BIN)/python benchmarks/coding.py
	$(BIN)/python benchmarks/baselines.py
	$(BIN)/python benchmarks/learning.py synthetic
	$(BIN)/python benchmarks/learning.py front
	$(BIN)/python benchmarks/learning.py scaling
	$(BIN)/python benchmarks/learning.py against-palm
	$(BIN)/python benchmarks/palm.py --max-time 120 --seeds 2
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/denoising.py --phantom isbi
	$(BIN)/python benchmarks/denoising.py --phantom multitensor
	$(BIN)/python benchmarks/denoising.py --summary

# The same on a real image, its .bval and .bvec beside it: make bench-real VOLUME=dwi.nii.gz
bench-real: $(STAMP)
	$(BIN)/python benchmarks/learning.py real --volume "$(VOLUME)"
	$(BIN)/python benchmarks/denoising_real.py "$(VOLUME)"

# The report in a real browser: Debian's chromium and its driver, and selenium beside the pinned packages.
test-browser: $(STAMP)
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		{ $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -qq --no-install-recommends chromium chromium-driver; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/browser.txt
	$(BIN)/python -m pytest -q -m browser tests/browser

clean:
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
