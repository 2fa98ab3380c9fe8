# Every target sets up what it needs in .venv; Python 3.11+, pip and make are enough.
#   make demo           embed the data sets that ship with heatsketch, print a table, draw pictures under out/
#   make test           lint, types, tests and every example in the README, the docs and the docstrings (some minutes)
#   make test-slow      hostile input, killed processes, clusters, browsers, interpreted GPU programs, the gallery
#   make test-sanitized the compiled loops, built with checks of memory and undefined behaviour (GCC on Linux)
#   make test-oldest    the tests with the oldest versions that pyproject.toml allows
#   make docs           the documentation as a site, under out/docs (open out/docs/index.html)
#   make reproduce      the paper's figures and claims, under out/reproduction (about five minutes on two cores)
#   make audit          known vulnerabilities of the installed packages, from a service on the network
# Studies: each runs the trials that its folder under docs/ lacks, and writes the page there.
#   make study          HeatSketch beside the paper's methods, PHATE and UMAP; hours on two cores
#   make defaults       the defaults beside earlier ones and other methods; about two hours on two cores
#   make pipelines      classifiers and clusterings on embeddings, beside UMAP; about 35 minutes
#   make labels         few labels in the fit and the way back to data, beside UMAP and others; about 15 minutes
#   make bench          speed and accuracy beside other packages (gigabytes to install), under out/; about ten minutes
#   make bench-full     the same up to a million points and all packages, under docs/benchmarks; hours
#   make bench-gpu      on a GPU; minutes
#   make bench-cluster  on a Dask cluster of local processes; half an hour
#   make hunt           the tests of hostile input with 20 times the cases, under docs/trust
#   make fuzz           thousands of damaged files and sparse matrices; ARGS="5000 --seed 1 --jobs 2"
#   make coverage       what the tests reach, under docs/trust
#   make mutants        faults put into the core, one at a time, under docs/trust; about two hours

PYTHON ?= python3
BIN := .venv/bin
# Packages are installed without bytecode, as most modules are never imported. The first import of a module writes it for
# later processes, even if the environment forbids that.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo docs reproduce study defaults pipelines labels lint types format bench bench-full bench-gpu bench-cluster
.PHONY: test test-slow test-sanitized test-oldest hunt fuzz coverage mutants audit clean

# The stamp is remade when the project file or C code changes, so that a pull never leaves an old environment behind.
COMPILED := hatch_build.py $(wildcard src/heatsketch/compiled/*.[ch])
.venv/stamp-%: pyproject.toml $(COMPILED)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	touch $@

demo: .venv/stamp-plot
	$(BIN)/python examples/demo.py --output out

reproduce: .venv/stamp-reproduce
	$(BIN)/heatsketch reproduce --output out/reproduction

# Earlier output of Sphinx may contain names that no longer exist; only the gallery, which takes a minute, is kept.
docs: .venv/stamp-docs
	rm -rf docs/api/generated docs/sg_execution_times.rst
	$(BIN)/python -m sphinx -W --keep-going docs out/docs

# Studies: `make study ARGS="circle --trials 5"`; the extra of pyproject.toml has the name of the study.
defaults: .venv/stamp-defaults
study: .venv/stamp-study
pipelines labels: .venv/stamp-pipelines
study defaults pipelines labels:
	$(BIN)/python -m benchmarks.$@ $(ARGS)

# Two processes share the cores; threads of BLAS and OpenMP that wait for work while spinning would take them away.
PYTEST = OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test: lint types
	$(PYTEST)

test-slow: .venv/stamp-dev
	$(PYTEST) tests/slow

# A separate build, so that the other targets never load it. Python is not built with the sanitizers, so their runtime is
# loaded before it: it replaces malloc, and so knows where NumPy's arrays end. The C++ library comes next, as the runtime
# looks up how exceptions are thrown when it starts. Python frees little when it ends: leaks are not reported.
# SANITIZER=thread finds data races between the loops; it does not record what Python and NumPy access.
# Reports go to files, because pytest would lose them with the process. Those of undefined behaviour go to the terminal:
# pytest captures only what Python writes (--capture=sys).
SANITIZER ?= address
SANITIZED = build/loops-$(SANITIZER)
REPORT = log_path=$(CURDIR)/$(SANITIZED)/report
CHECKS_address = ASAN_OPTIONS=detect_leaks=0:$(REPORT) UBSAN_OPTIONS=print_stacktrace=1
CHECKS_thread = TSAN_OPTIONS=ignore_noninstrumented_modules=1:die_after_fork=0:$(REPORT)
# polars, which these tests import, crashes with the runtime that finds races.
SKIPPED_thread = --ignore tests/estimators/test_errors.py
RUNTIME_address = libasan.so
RUNTIME_thread = libtsan.so
PRELOADED = $$(gcc -print-file-name=$(RUNTIME_$(SANITIZER))) $$(gcc -print-file-name=libstdc++.so)
# Tests that call all loops, in some minutes: without those that measure memory, of which the sanitizers need much, and
# those that repeat the same calls.
SANITIZED_TESTS ?= tests/test_regimes.py tests/compiled tests/neighbors tests/linalg tests/kernel tests/layout \
	tests/optimize tests/estimators tests/io/test_models.py tests/backends/test_dask_neighbors.py -k "not torch" \
	--ignore tests/kernel/test_scale.py --ignore tests/estimators/test_contract.py \
	--ignore tests/estimators/test_aligned.py

$(SANITIZED)/stamp: $(COMPILED)
	CC=gcc $(BIN)/python hatch_build.py --sanitize=$(SANITIZER)
	touch $@

test-sanitized: .venv/stamp-dev $(SANITIZED)/stamp
	rm -f $(SANITIZED)/report.*
	HEATSKETCH_LOOPS=$(CURDIR)/$(SANITIZED) $(CHECKS_$(SANITIZER)) LD_PRELOAD="$(PRELOADED)" \
	$(PYTEST) --capture=sys $(SANITIZED_TESTS) $(SKIPPED_$(SANITIZER)) $(ARGS); status=$$?; cat $(SANITIZED)/report.* 2> /dev/null && exit 1; exit $$status

# A new run replaces the recorded one.
hunt coverage: .venv/stamp-dev
mutants: .venv/stamp-mutants
hunt coverage mutants:
	$(BIN)/python -m benchmarks.trust $@ --fresh $(ARGS)

fuzz: .venv/stamp-dev
	$(BIN)/python -m benchmarks.fuzz $(ARGS)

# Old versions warn about each other; only warnings that heatsketch causes are errors.
test-oldest: BIN = .venv-oldest/bin
test-oldest: .venv-oldest/stamp
	$(PYTEST) -o "filterwarnings=$$(printf 'default\nerror:::heatsketch')" tests src

.venv-oldest/stamp: pyproject.toml $(COMPILED)
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct --editable '.[test]'
	touch $@

bench: .venv/stamp-bench
	$(BIN)/python -m benchmarks.scale --quick $(ARGS)

bench-full: .venv/stamp-bench
	$(BIN)/python -m benchmarks.scale $(ARGS)

# The user chooses the build of PyTorch, so none is installed here.
bench-gpu: .venv/stamp-dev
	$(BIN)/python -m benchmarks.gpu $(ARGS)

bench-cluster: .venv/stamp-dev
	$(BIN)/python -m benchmarks.cluster $(ARGS)

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
	rm -rf src/heatsketch/compiled/loops-* .venv .venv-oldest out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
