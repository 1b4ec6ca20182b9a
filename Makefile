# Each target sets up everything it needs in .venv (the demo in .venv-demo, which is small); only Python >= 3.11, pip and
# make have to be there.
PYTHON ?= python3
VENV := .venv
DEMO := .venv-demo
OLDEST := .venv-oldest
EMPTY := .venv-empty
# Where a virtual environment has its programs.
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
# One BLAS thread: the matrices are small, and threads only fight over the cores.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg

# Python compiles what is imported at its first use: to compile all of PyTorch and JAX beforehand takes longer.
PIP = -m pip install --quiet --disable-pip-version-check --no-compile
INSTALL = $(BIN)/python $(PIP)
OLD_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "auglag needs Python 3.11 or newer, this is " + sys.version)'
# The groups of pyproject.toml, written out: the pip of Python 3.11 does not know groups.
GROUPS = $(PYTHON) -c 'import sys, tomllib; g = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; print(*(r for n in sys.argv[1:] for r in g[n] if isinstance(r, str)))'
TOOLS = $$($(GROUPS) test dev docs)
# The oldest NumPy and SciPy that pyproject.toml allows.
LOWEST = $$($(PYTHON) -c 'import tomllib; print(*(r.replace(">=", "==") for r in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]))')
TORCH = torch==2.13.0 lightning tensorboard

.PHONY: demo paper test lint types unit oldest package docs gallery bench clean
.DELETE_ON_ERROR:

$(VENV)/.stamp: pyproject.toml
	$(OLD_ENOUGH)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[all,baselines]' $(TOOLS) $(TORCH) || { \
	  echo 'Not everything can be installed here at once; part by part:' && \
	  $(INSTALL) -e '.[all]' $(TOOLS) && \
	  { $(INSTALL) -e '.[baselines]' || echo 'Some rival solvers have no wheel here; their tests are skipped.'; } && \
	  { $(INSTALL) $(TORCH) || echo 'No PyTorch here; the tests of auglag.torch are skipped.'; }; }
	touch $@

$(DEMO)/.stamp: pyproject.toml
	$(OLD_ENOUGH)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/$(SCRIPTS)/python $(PIP) -e '.[plot,cutest,cli]' psutil
	touch $@

demo: $(DEMO)/.stamp  ## six examples with pictures, two of the paper's figures on samples; open demo-output/index.html
	$(DEMO)/$(SCRIPTS)/python examples/run_gallery.py swing_up circle_packing soap_film power_flow predictive_control hanging_chain --output demo-output/gallery
	$(DEMO)/$(SCRIPTS)/auglag paper fig2 --quick --output demo-output/paper
	$(DEMO)/$(SCRIPTS)/auglag paper fig1 --quick --output demo-output/paper
	$(DEMO)/$(SCRIPTS)/python examples/demo.py --output demo-output

paper: $(VENV)/.stamp  ## all of the paper's experiments on all problems; resumes where it was interrupted
	$(BIN)/auglag paper all --output paper-output

test: lint types unit  ## everything CI runs

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp
	$(BIN)/mypy

unit: $(VENV)/.stamp
	$(BIN)/python -m pytest -n auto --dist worksteal --durations=25

oldest:  ## the tests with the oldest NumPy and SciPy that are allowed, and without JAX, PyTorch and rivals
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/$(SCRIPTS)/python $(PIP) -e '.[bench]' $(LOWEST) $$($(GROUPS) test)
	$(OLDEST)/$(SCRIPTS)/python -m pytest -n auto --dist worksteal

package: $(VENV)/.stamp  ## dist/: the source distribution and the wheel, checked; the wheel is tried in an empty environment
	rm -rf dist $(EMPTY)
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/$(SCRIPTS)/python $(PIP) dist/*.whl
	$(EMPTY)/$(SCRIPTS)/python -m pip check
	cd $(EMPTY) && $(SCRIPTS)/auglag solve HS71

docs: $(VENV)/.stamp  ## the site, in site/; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'Open site/index.html; with the search: $(BIN)/python -m http.server -d site'

gallery: $(VENV)/.stamp  ## the examples' pictures and what they print, in docs/gallery/
	$(BIN)/python examples/run_gallery.py --output docs/gallery --collage docs/pictures/gallery.png

bench: $(VENV)/.stamp  ## time outside the user's functions, beside SciPy
	$(BIN)/python benchmarks/overhead.py

clean:
	rm -rf $(VENV) $(DEMO) $(OLDEST) $(EMPTY) demo-output dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
