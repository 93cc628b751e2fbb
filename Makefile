# What a contributor runs; `make` alone lists the targets. Every stage says how long it took.

PY := .venv/bin/python
STAGE := .ci/stage
ENV := .venv/.made
PYTHONS ?= python3.11 python3.12 python3.13
PORT ?= 8000
SEEDS ?= 200

# One thread for each matrix product: the same digits on every machine, and no two threads that wait for each other when
# something else runs beside (measured on two busy cores: 16 times slower for small matrices).
export OPENBLAS_NUM_THREADS ?= 1

# The exercises that a build or a test runs are no learner's progress.
export TRANSFORMER_BLOCK_PROGRESS :=

# Each run of make keeps its own list of stages.
$(shell rm -f _build/.stages)

.DEFAULT_GOAL := help
.PHONY: help book html test serve proofs mutation certify class problems lint bench notebooks model lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

# Every other target needs it; make redoes it only when one of these files is newer than the stamp.
$(ENV): requirements.txt constraints.txt pyproject.toml package-lock.json .ci/make-env
	@$(STAGE) environment .ci/make-env

book: html ## build the book strictly: a failing cell, a dangling reference or a missing alt text is an error
	@$(STAGE) --summary
	@echo "the book is in _build/html/index.html"

# -n -W --keep-going: every warning is an error, and all of them are listed before the build fails.
html: $(ENV) model
	@$(STAGE) book .venv/bin/jupyter-book build . -n -W --keep-going

# The book comes first: a real browser tests what was built.
test: $(ENV) lint html ## lint, build the book, test the library, the book's pages and the tools, run every notebook
	@$(STAGE) system .ci/system
	@$(STAGE) tests $(PY) -m pytest
	@$(STAGE) notebooks $(PY) -m notebooks.check
	@$(STAGE) --summary

serve: html ## build the book and serve it on this machine (PORT=8000)
	@$(STAGE) --summary
	@echo "http://127.0.0.1:$(PORT)/ (Ctrl-C stops)"
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

proofs: $(ENV) ## print the table of proofs: each pair's relative errors before its four witnesses
	@$(PY) -m tests.witnesses

mutation: $(ENV) ## change scratch in one spot after another and see that a test fails (tens of minutes)
	@$(STAGE) mutation $(PY) -m tests.mutation

certify: $(ENV) ## judge every known wrong and right answer to every exercise with 200 seeds (SEEDS=200)
	@$(STAGE) certify $(PY) -m exercises.certify --seeds $(SEEDS)

class: $(ENV) ## grade 3,000 synthetic submissions of known scores, and compare
	@$(STAGE) class $(PY) -m tests.classroom _build/class --count 3000 --grade

problems: $(ENV) ## write problem sets, learner's and instructor's, and lists to print, HTML and PDF (ARGS=--help)
	@$(PY) -m notebooks.problems $(ARGS)

lint: $(ENV) ## check style (.venv/bin/ruff format . repairs most of it)
	@$(STAGE) lint sh -c '.venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check .'

bench: $(ENV) ## time blocks, decoding and training against bare products and PyTorch (ARGS="A decoding --rounds 15")
	@env -u OPENBLAS_NUM_THREADS $(PY) -m benchmarks $(ARGS)

notebooks: $(ENV) ## write notebooks/*.ipynb anew from the chapters (ARGS=--execute: stored outputs, too)
	@$(PY) -m notebooks.generate $(ARGS)

# Without the model the book still builds: its pages say what is missing. So a failed download is only reported.
model: $(ENV) ## fetch the real model (98 MB, once) into the user's cache
	@$(STAGE) model sh -c '$(PY) -m scratch.pretrained || echo "continuing without the real model"'

lock: $(ENV) ## resolve requirements.txt anew into constraints.txt (PYTHONS="python3.11 python3.12 python3.13")
	@$(PY) .ci/lock.py $(PYTHONS)

clean: ## remove what was built and the environment
	rm -rf _build .venv node_modules
