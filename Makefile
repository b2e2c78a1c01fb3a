# make book      the whole book, from nothing to _build/html
# make test      the tests
# make help      everything else

SCALE ?= quick
JOBS ?= 2
BROWSER ?= auto
DEPTH ?= read
PORT ?= 8000
VENV ?= .venv
# Where the pages' buttons lead.
export BOOK_REPOSITORY := $(or $(BOOK_REPOSITORY),$(shell git remote get-url origin 2>/dev/null))
PY := "$(VENV)/bin/python"
# A space in the name of a file that make looks at is written with a backslash.
READY := $(subst $() ,\ ,$(VENV))/.ready
# The package of this checkout, also where .venv was copied from another one; and assertions are checked.
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
unexport PYTHONOPTIMIZE

# The first interpreter that is new enough and can make an environment; PYTHON=... overrides it.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if $$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; \
	then echo $$p; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help setup book notebook try lab serve pdf zip slides student assignments grade test lint bench mutants lock clean

help: ## show this list
	@echo "Replicable RL: book and package. Commands:"
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18
	@echo "  Options: SCALE=full, NAME=03 (one notebook), JOBS=2, PORT=8000, PYTHON=python3.12"
	@echo "           DEPTH=read, code, proofs or all (of the pdf)"

$(READY): requirements.lock requirements-hashed.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11, 3.12 or 3.13 with the venv module was found." \
	  "Install one (on Debian and Ubuntu also python3-venv), or name it: make book PYTHON=/path/to/python" >&2; exit 1; }
	@echo "==> Setting up $(VENV) with $(PYTHON) (a few minutes the first time)"
	@$(PY) -c 'import pip' 2>/dev/null || "$(PYTHON)" -m venv --clear "$(VENV)"
	@$(PY) -m pip install --progress-bar off --require-hashes --no-deps -r requirements-hashed.lock
	@$(PY) -m pip install --progress-bar off -r requirements.lock
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(PY) -m pip check
	@touch "$@"

setup: $(READY) ## make .venv and install everything into it

book: $(READY) ## run the notebooks and build the site (SCALE=quick or full)
	@echo "==> Running the notebooks"
	@$(PY) tools/run_notebooks.py --scale $(SCALE) --jobs $(JOBS)
	@echo "==> Building the site"
	@$(PY) tools/build_book.py --browser $(BROWSER)
	@echo "==> Done: open _build/html/index.html, or run 'make serve'"

notebook: $(READY) ## run one notebook: make notebook NAME=03
	@test -n "$(NAME)" || { echo "error: say which one, as in: make notebook NAME=03" >&2; exit 1; }
	@$(PY) tools/run_notebooks.py $(NAME) --scale $(SCALE) --force
	@echo "==> Done: the executed notebook is in chapters/"

try: $(READY) ## run a changed notebook, past failed assertions: make try NAME=03
	@test -n "$(NAME)" || { echo "error: say which one, as in: make try NAME=03" >&2; exit 1; }
	@$(PY) tools/run_notebooks.py $(NAME) --scale $(SCALE) --try
	@echo "==> Done: the executed notebook is in _build/tried/, and chapters/ stays as it was"

lab: $(READY) ## open the chapters' sources as notebooks in JupyterLab: make lab NAME=03
	@test -z "$(NAME)" || test -f "$(firstword $(wildcard notebooks/$(NAME)*.md))" || { \
	  echo "error: no file of notebooks/ begins with $(NAME)" >&2; exit 1; }
	@JUPYTER_CONFIG_PATH="$(CURDIR)/tools/jupyter" $(PY) -m jupyterlab $(if $(NAME),$(firstword $(wildcard notebooks/$(NAME)*.md)),notebooks)

serve: $(READY) ## show the built site at http://localhost:8000
	@test -f _build/html/index.html || { echo "error: there is no site yet; run 'make book' first" >&2; exit 1; }
	@$(PY) -c 'import socketserver as s; s.TCPServer.allow_reuse_address = True; s.TCPServer(("127.0.0.1", $(PORT)), None)' \
	  2>/dev/null || { echo "error: port $(PORT) is in use; try make serve PORT=$$(($(PORT) + 1))" >&2; exit 1; }
	@echo "==> http://localhost:$(PORT) (stop with Ctrl-C)"
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

pdf: book ## build the site and print it to _build/book.pdf (needs Chromium)
	@echo "==> Printing the book (a few minutes)"
	@$(PY) tools/print_book.py --depth $(DEPTH)

zip: $(READY) ## pack the built site into _build/book.zip, to read offline
	@test -f _build/html/index.html || { echo "error: there is no site yet; run 'make book' first" >&2; exit 1; }
	@$(PY) -c 'import shutil; shutil.make_archive("_build/book", "zip", "_build/html")'
	@echo "==> Done: _build/book.zip; unpack it and open index.html"

slides: $(READY) ## make the lecture slides in _build/slides from the executed notebooks
	@echo "==> Running the notebooks"
	@$(PY) tools/run_notebooks.py --scale $(SCALE) --jobs $(JOBS)
	@$(PY) tools/build_slides.py

student: $(READY) ## make chapters without solutions in _build/student, to hand out (NAME=03: one)
	@$(PY) tools/build_student.py $(NAME)

assignments: $(READY) ## make the graded assignments in _build/assignments
	@$(PY) tools/build_assignments.py

grade: $(READY) ## grade a folder of submissions: make grade NAME=1 FROM=submissions
	@test -n "$(NAME)" && test -n "$(FROM)" || { echo "error: say which, as in: make grade NAME=1 FROM=submissions" >&2; exit 1; }
	@$(PY) tools/grade_submissions.py $(NAME) $(FROM)

test: $(READY) ## run the tests with branch coverage
	@echo "==> Running the tests"
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) -p no:benchmark --cov --cov-report=term --cov-fail-under=95
	@echo "==> Done: all tests passed"

mutants: $(READY) ## change the core at random and see whether the tests notice (see tests/MUTANTS.md)
	@$(PY) -c 'import cosmic_ray' 2>/dev/null || { echo "error: Cosmic Ray is not installed; run" \
	  "'$(VENV)/bin/python -m pip install -c requirements.lock cosmic-ray==8.7.0' first" >&2; exit 1; }
	@OMP_NUM_THREADS=1 $(PY) tools/mutants.py $(NAME) $(if $(SAMPLE),--sample $(SAMPLE))

lint: $(READY) ## check style
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m basedpyright --pythonpath $(PY) --level error

bench: $(READY) ## time the main algorithms (RECORD=1 keeps the results)
	@OMP_NUM_THREADS=1 $(PY) -m pytest benchmarks --benchmark-only --benchmark-columns=min,median,rounds \
	  $(if $(RECORD),--record)

COMPILE = $(PY) -m uv pip compile pyproject.toml --config-file tools/lock.toml --quiet
# First for Python 3.11.0; then those versions are kept, and what other Pythons and systems need is added. Torch has no
# hashes: a CPU build from another index has others than the public one.
lock: $(READY) ## make the lock files again from pyproject.toml
	@echo "==> Resolving the dependencies of every extra"
	@$(COMPILE) --upgrade --output-file requirements.lock
	@$(COMPILE) --universal --output-file requirements.lock
	@$(COMPILE) --universal --upgrade --constraint requirements.lock --generate-hashes --no-emit-package torch \
	  --output-file requirements-hashed.lock
	@echo "==> Done: requirements.lock and requirements-hashed.lock"

clean: ## remove what was built (not the environment)
	rm -rf _build chapters .pytest_cache .hypothesis .ruff_cache .coverage
