# Two commands need nothing but Python 3.11+, pip and make:
#   make demo   embed the data sets that ship with heatsketch, print a table, draw pictures under out/
#   make test   lint, types, tests and every example in the README, the docs and the docstrings (some minutes)
# And for those who want to see the paper's figures and claims:
#   make reproduce   all of them, under out/reproduction (some five minutes on two cores)
# And for those who want to read it all:
#   make docs        the documentation as a site, under out/docs (open out/docs/index.html)
# And for those who want to see how good HeatSketch is (PHATE and UMAP are installed):
#   make study        the trials that docs/study lacks; all of them take hours on two cores
# And for those who want to see how good the automatic choices are:
#   make choices      the trials that docs/choices lacks; all of them take half an hour on two cores
# And for those who want to see what it does for classifiers and clusterings (UMAP and scanpy are installed):
#   make pipelines    the trials that docs/pipelines lacks; all of them take some 35 minutes on two cores
# And for those who want to see how fast it is, beside others (which are installed, some gigabytes):
#   make bench        some ten minutes; results under out/benchmarks
#   make bench-full   up to a million points and all peers, hours; results under docs/benchmarks
# And for those who doubt the tests (mutmut is installed):
#   make mutants      faults put into the core, one at a time; some two hours, results under docs/trust
# And for those with a GPU:
#   make bench-gpu    some minutes; results under docs/gpu
#   make bench-cluster  half an hour; results under docs/cluster
# And for those who change it:
#   make test-slow    hostile input, killed processes, clusters, browsers, interpreted GPU programs, the gallery
#   make test-oldest  all tests with the oldest versions that pyproject.toml allows
# And for those who want to break it:
#   make hunt         the tests that try to break it, with 20 times the cases; results under docs/trust
#   make coverage     what the tests reach; results under docs/trust
#   make audit        known vulnerabilities of what is installed, asked of the network

PYTHON ?= python3
BIN := .venv/bin
# Modules are compiled when they are first imported, which most of what is installed never is, and kept for the processes
# that follow, even where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo docs reproduce study choices pipelines lint types format bench bench-full bench-gpu bench-cluster
.PHONY: test test-slow test-oldest hunt coverage mutants audit clean

# The stamp is remade when the project file changes, so that a pull never leaves an old environment behind.
.venv/stamp-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	touch $@

demo: .venv/stamp-plot
	$(BIN)/python examples/demo.py --output out

reproduce: .venv/stamp-reproduce
	$(BIN)/heatsketch reproduce --output out/reproduction

# What Sphinx wrote before may be of names that are gone; only the gallery, which takes a minute, is kept while it is unchanged.
docs: .venv/stamp-docs
	rm -rf docs/api/generated docs/sg_execution_times.rst
	$(BIN)/python -m sphinx -W --keep-going docs out/docs

# Studies: `make study ARGS="circle --trials 5"`; the extra of pyproject.toml has the name of the study.
choices: .venv/stamp-reproduce
study: .venv/stamp-study
pipelines: .venv/stamp-pipelines
study choices pipelines:
	$(BIN)/python -m benchmarks.$@ $(ARGS)

# Two processes share the cores; threads of BLAS and OpenMP that wait for work while spinning would take them away.
PYTEST = OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test: lint types
	$(PYTEST)

test-slow: .venv/stamp-dev
	$(PYTEST) tests/slow

# A new run replaces the recorded one.
hunt coverage: .venv/stamp-dev
mutants: .venv/stamp-mutants
hunt coverage mutants:
	$(BIN)/python -m benchmarks.trust $@ --fresh $(ARGS)

# Old versions warn about each other; only warnings that heatsketch causes are errors. The site is built with new tools.
test-oldest: BIN = .venv-oldest/bin
test-oldest: .venv-oldest/stamp
	$(PYTEST) -o "filterwarnings=$$(printf 'default\nerror:::heatsketch')" -o norecursedirs=corpus \
	  --ignore tests/slow/test_site.py tests src

.venv-oldest/stamp: pyproject.toml
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct --editable '.[test]'
	touch $@

bench: .venv/stamp-bench
	$(BIN)/python -m benchmarks.scale --quick $(ARGS)

bench-full: .venv/stamp-bench
	$(BIN)/python -m benchmarks.scale $(ARGS)

# The build of PyTorch is the user's choice, so this takes the environment as it is.
bench-gpu: .venv/stamp-dev
	$(BIN)/python -m benchmarks.gpu $(ARGS)

bench-cluster: .venv/stamp-dev
	$(BIN)/python -m benchmarks.cluster $(ARGS)

# Asks a service on the network.
audit: .venv/stamp-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --skip-editable

lint: .venv/stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/stamp-dev
	$(BIN)/mypy

format: .venv/stamp-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf docs/gallery docs/api/generated docs/sg_execution_times.rst
	rm -rf .venv .venv-oldest out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
