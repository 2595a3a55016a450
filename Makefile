# Two commands matter: `make demo` and `make test`. Each installs what it needs into .venv first.

# Each JAX is pinned with what one Python takes beside it; these pins serve newer Pythons too.
PINNED_ON_3.11 := 0.6.2 0.8.2 0.10.2
PINNED_ON_3.12 := 0.11.2
PINNED_ON_3.13 := 0.12.0.1
PINNED_ON := 3.11 3.12 3.13
JAX_VERSIONS ?= $(foreach python,$(PINNED_ON),$(PINNED_ON_$(python)))

# The interpreter is the one given (PYTHON=…), else the newest of those above that is found on PATH or in pyenv.
GIVEN := $(PYTHON)
found = $(shell for python in python$(1) "$$(pyenv prefix $(1) 2>/dev/null)/bin/python$(1)"; do \
  "$$python" -c 'import ensurepip, venv' 2>/dev/null && { echo "$$python"; break; }; done)
ifeq ($(GIVEN),)
PYTHON := $(or $(call found,3.13),$(call found,3.12),python3)
endif
# Its JAX is the newest that is pinned for it; any other JAX has the Python that it is pinned for, where that is found.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
DEFAULT_JAX := $(lastword $(or $(PINNED_ON_$(VERSION)),$(PINNED_ON_3.13)))
pinned_on = $(strip $(foreach python,$(PINNED_ON),$(if $(filter $(1),$(PINNED_ON_$(python))),$(python))))
python_of = $(or $(GIVEN),$(call found,$(call pinned_on,$(1))),$(PYTHON))

PIP_TOOLS := 7.6.2
BUILD := 1.6.1
TWINE := 7.0.0
XPROF := 2.24.2
CHECK_JSONSCHEMA := 0.39.0
ARGS ?=
SEED := $(or $(SEED),$(shell date +%s))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test coverage deployment chart faults test-jax test-jax-versions jax-own-tests lint format benchmark benchmarks-report soak programs trackers untrue accuracy gpu-check gpu-check-wheels dashboards lint-grafana prove-grafana prove-page prove-docs docs docs-links package readme requirements trace-peers clean check-python check-prometheus check-compiler

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-18s %s\n", $$1, $$2}'

demo: .venv/installed  ## train a small model, observed (ARGS="--seconds 20 --json")
	.venv/bin/jaxobs demo $(ARGS)

# Hundreds of processes that tests start would each compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# More than two cores can run at once, because most tests wait for processes that they start.
WORKERS ?= 3
PYTEST = -m pytest -n $(WORKERS) --dist worksteal

test: lint check-prometheus check-compiler  ## lint, types, import rules and the tests (ARGS='-k name' for pytest; ARGS='-m long' for what takes long)
	.venv/bin/python $(PYTEST) $(ARGS)

# Jobs and agents are measured too. What a process had seen that was killed is lost, and so are threads that Python's
# `threading` does not know.
coverage: .venv/installed check-prometheus check-compiler  ## the tests, and which lines and branches they reach (ARGS as above)
	@rm -rf build/coverage && mkdir -p build/coverage
	.venv/bin/python -m coverage run $(PYTEST) $(ARGS)
	@.venv/bin/python -m coverage combine --quiet
	@.venv/bin/python -m coverage report

# What an older JAX can change, and what an older Python can; `make test` runs the rest, once.
ROOMS_WITH_JAX := $(addprefix tests/,cost_model end_to_end faults measure plugins probe profiler run_record safety trace \
  cli/test_run_with_jax.py)
ROOMS_OF_PYTHON := $(addprefix tests/,agent derive flow hardware model otel plugin prometheus proto report roofline_model)

test-jax: .venv-jax-$(JAX)/installed check-prometheus check-compiler  ## the tests that need JAX on one version: make test-jax JAX=0.6.2
	.venv-jax-$(JAX)/bin/python $(PYTEST) $(or $(TESTS),$(ROOMS_WITH_JAX) $(ALSO)) $(ARGS)

test-jax-versions:  ## the tests that need JAX on each version supported
	set -e; for version in $(JAX_VERSIONS); do \
	  echo "== JAX $$version"; $(MAKE) --no-print-directory test-jax JAX=$$version; \
	done

jax-own-tests: .venv/installed  ## what differs in JAX's own tests with jaxobs: make jax-own-tests TESTS=CHECKOUT
	@[ -n "$(TESTS)" ] || { echo "jaxobs: say where JAX's tests are: make jax-own-tests TESTS=/path/to/a/checkout" >&2; exit 2; }
	.venv/bin/python -m tests.jax_own.compare $(TESTS) $(ARGS)

# In one process, so that the order is that of the seed; with WORKERS=3 each of them takes a part of it.
faults: WORKERS = 0
FAULTS_ENV = $(if $(JAX),.venv-jax-$(JAX),.venv)
faults: $(FAULTS_ENV)/installed check-prometheus check-compiler  ## every fault that a job must not feel, in random order (SEED=number for one again, JAX=0.6.2)
	@echo "once more in this order: make faults SEED=$(SEED)$(if $(JAX), JAX=$(JAX))"
	$(FAULTS_ENV)/bin/python $(PYTEST) -m "" --random-order-bucket=module --random-order-seed=$(SEED) \
	  --hypothesis-seed=$(SEED) $$($(FAULTS_ENV)/bin/python -m tests.faults.rows) $(ALSO) $(ARGS)

# Built in an order in which the quick ones come first; each is kept, so that only the first time takes long.
DEPLOYMENT_TOOLS := kubeconform kubernetes-schemas helm collector prometheus jaeger
deployment: .venv/installed .venv-schemas/installed check-prometheus chart  ## deploy/ with the real programs, which Go builds (20 minutes once)
	.ci/tools.sh $(DEPLOYMENT_TOOLS) >/dev/null
	.venv/bin/python -m pytest -m deployment tests/deployment $(ARGS)

# Helm reads only what lies within a chart; the repository has each file once, where its own subject is.
CHART := build/chart/jaxobs
chart:  ## the Helm chart with its dashboards, rules and Collector's configuration: build/chart/jaxobs, and packed beside it
	@rm -rf $(CHART) && mkdir -p $(CHART)/files/dashboards $(CHART)/files/prometheus $(CHART)/files/collector
	@cp -r deploy/helm/jaxobs/. $(CHART)
	@cp grafana/dashboards/*.json $(CHART)/files/dashboards
	@cp deploy/prometheus/rules.yml deploy/prometheus/alerts.yml $(CHART)/files/prometheus
	@cp deploy/collector/config.yaml $(CHART)/files/collector
	@tar -C build/chart -czf build/chart/jaxobs-$$(sed -n 's/^version: *//p' $(CHART)/Chart.yaml).tgz jaxobs

lint: .venv/installed  ## ruff, mypy --strict, import-linter, and the limits of .ci/limits.py
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python .ci/limits.py

format: .venv/installed  ## put the code into its one format, and mend what can be mended
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

programs: .venv-programs/installed .venv-programs-jax-0.8.2/installed  ## what `jaxobs run` shows of fifteen training programs, beside their own truth (ARGS="--only keras_fit")
	.venv-programs/bin/python -m tests.programs $(ARGS)

trackers: .venv-programs/installed  ## what W&B, MLflow, Aim and TensorBoard keep of `obs.values()`, offline
	.venv-programs/bin/python -m tests.programs.trackers

untrue: .venv/installed  ## programs of which false figures were once shown, with the truth beside them (ARGS="--only one_call")
	.venv/bin/python -m benchmarks.untrue $(ARGS)

trace-peers: .venv-xprof/installed  ## times read from recorded traces beside XProf's own (ARGS=FILE for others)
	PYTHONPATH=. .venv-xprof/bin/python tests/trace/compare_with_xprof.py $(ARGS)

benchmark: .venv/installed  ## run one of benchmarks/ or of benchmarks/costs/: make benchmark NAME=step_cost
	@[ -n "$(NAME)" ] || { echo "jaxobs: say which of benchmarks/ or benchmarks/costs/: NAME=step_cost" >&2; exit 2; }
	@if [ -e "benchmarks/costs/$(NAME).py" ]; then .venv/bin/python -m benchmarks.costs --only $(NAME); \
	else .venv/bin/python -m benchmarks.$(NAME) $(ARGS); fi

benchmarks-report: .venv/installed  ## what jaxobs costs beside its peers: docs/results/benchmarks.md (ARGS="--only step_cost")
	@$(MAKE) --no-print-directory .venv-benchmark-peers/installed \
	  || echo "jaxobs: the peers could not be installed here: what is missing is said" >&2
	@python=.venv-benchmark-peers; [ -e $$python/installed ] || python=.venv; \
	$$python/bin/python -m benchmarks.costs $(ARGS)

fleet: .venv/installed check-prometheus  ## many ranks: what their Prometheus takes, whether the one that lags or hangs is named, a job that becomes slower (an hour)
	.venv/bin/python -m benchmarks.fleet
	.venv/bin/python -m benchmarks.lagging_ranks
	.venv/bin/python -m benchmarks.hangs
	.venv/bin/python -m benchmarks.fail_slow

soak: .venv/installed  ## a job for 30 minutes with outages and failures at random (ARGS="--minutes 5 --seed 1")
	.venv/bin/python -m benchmarks.soak $(ARGS)

# With the JAX of python3 where jaxobs is installed beside it, as on a machine with a GPU; .venv holds the CPU's.
gpu-check:  ## every figure on this machine's GPU against truths not its own (ARGS="--minutes 8 --only training")
	@python=$(or $(GIVEN),python3); $$python -c 'import jax, importlib.metadata as m; m.version("jaxobs")' 2>/dev/null \
	  || { $(MAKE) --no-print-directory .venv/installed && python=.venv/bin/python; } || exit; \
	$$python -m benchmarks.gpu_check $(ARGS)

# JAX and what it needs are there with it: its build is the device's.
WHEELS := build/gpu-check-wheels
WHEELS_PYTHON := 3.12
WHEELS_PLATFORMS := manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64
gpu-check-wheels: .venv/installed  ## build/gpu-check-wheels: what that needs beside JAX, for a machine without a network
	rm -rf $(WHEELS) && mkdir -p $(WHEELS)
	.venv/bin/python -m pip --disable-pip-version-check --quiet wheel --no-deps --no-build-isolation --wheel-dir $(WHEELS) .
	sed -nE 's/^([A-Za-z0-9._-]+==[^ ;]+).*/\1/p' requirements/jax-0.10.2.txt > $(WHEELS)/pins
	.venv/bin/python -m pip --disable-pip-version-check --quiet download --only-binary=:all: --implementation cp \
	  --python-version $(WHEELS_PYTHON) $(WHEELS_PLATFORMS:%=--platform %) --dest $(WHEELS) \
	  --constraint $(WHEELS)/pins $(WHEELS)/jaxobs-*.whl
	cd $(WHEELS) && rm -f pins jax-* jaxlib-* ml_dtypes-* numpy-* opt_einsum-* scipy-*

SPHINX := .venv-docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet --doctree-dir build/doctrees
docs: .venv/installed .venv-docs/installed  ## write the pages that come from the code, and build the site: build/site
	@for script in docs/generators/generate_*.py; do .venv/bin/python "$$script" || exit; done
	@$(SPHINX) --builder html docs build/site
	@echo "open build/site/index.html"

docs-links: .venv-docs/installed  ## ask every link of the site that leads elsewhere; needs a network
	@$(SPHINX) --builder linkcheck docs build/links

package: .venv-package/installed  ## build sdist and wheel, check them, and install the wheel in a clean environment
	rm -rf build/lib build/bdist.* dist
	.venv-package/bin/python -m build --quiet --outdir dist .
	rm -rf *.egg-info  # tests run from here would take its entry points for those that are installed
	.venv-package/bin/python -m twine check --strict dist/*
	.venv-package/bin/python .ci/package.py dist

readme: package  ## do what the README says, command by command, in a clean environment (five minutes at most)
	.venv-package/bin/python .ci/paste_readme.py dist

dashboards: .venv/installed  ## write grafana/dashboards/*.json anew from grafana/source/
	.venv/bin/python -m grafana.source

lint-grafana: .venv/installed  ## grafana/dashboard-linter on the dashboards and pint on the rules; builds both with Go, once
	@linter="$$(.ci/tools.sh dashboard-linter)" && for file in grafana/dashboards/*.json; do \
	  said="$$("$$linter" lint --strict --config grafana/dashboards/.lint "$$file" 2>&1)" || { echo "$$said" >&2; exit 1; }; \
	done
	@pint="$$(.ci/tools.sh pint)" && "$$pint" --no-color --log-level WARN --config deploy/prometheus/pint.hcl \
	  --offline lint --min-severity info --fail-on info deploy/prometheus/rules.yml deploy/prometheus/alerts.yml

prove-grafana: .venv/installed check-prometheus  ## every panel and rule shown a real training, through Prometheus and Grafana's own code
	@JAXOBS_GRAFANA_DATA="$$(.ci/tools.sh grafana-data)" && JAXOBS_PINT="$$(.ci/tools.sh pint)" && \
	  export JAXOBS_GRAFANA_DATA JAXOBS_PINT && \
	  .venv/bin/python -m pytest -m slow tests/grafana $(ARGS)

prove-page: .venv/installed  ## the live page in a real browser and `jaxobs top` in a real terminal, on real trainings (ARGS="--write-screenshots" for those in docs/)
	@JAXOBS_PAGE_BROWSER="$$(.ci/tools.sh page-browser)" && export JAXOBS_PAGE_BROWSER && \
	  .venv/bin/python -m pytest -m slow tests/page tests/top $(ARGS)

prove-docs: .venv/installed check-prometheus  ## every shell line and every example of README and docs, run as a reader would, and the demo
	.venv/bin/python $(PYTEST) -m slow tests/documentation tests/cli $(ARGS)

accuracy: .venv/installed  ## FLOPs and bytes of about 110 programs: formula, jaxobs, XLA (ARGS="--only attention")
	.venv/bin/python -m benchmarks.accuracy $(ARGS)

# The hashes must be those of the public index: a mirror or a local folder may hold rebuilt files, so the
# machine's own pip settings are left out.
define compile
env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
  CUSTOM_COMPILE_COMMAND="make requirements" .venv-requirements-$(1)/bin/pip-compile --quiet --upgrade \
  --strip-extras --allow-unsafe --generate-hashes \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links $(2) pyproject.toml
endef

requirements: $(JAX_VERSIONS:%=requirements-%)  ## write requirements/*.txt anew, every version pinned and hashed
	$(call compile,3.11,--extra docs --constraint requirements/jax-$(lastword $(PINNED_ON_3.11)).txt \
	  --output-file requirements/docs.txt)

requirements-%:
	@$(MAKE) --no-print-directory .venv-requirements-$(call pinned_on,$*)/installed
	$(call compile,$(call pinned_on,$*),--extra dev --upgrade-package jax==$* --upgrade-package jaxlib==$* \
	  --output-file requirements/jax-$*.txt)

clean:  ## remove environments, caches and build outputs
	rm -rf .venv .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find jaxobs plugins tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments. The stamp is written last, so an install that broke off is taken up again.
.venv/installed: requirements/jax-$(DEFAULT_JAX).txt pyproject.toml | check-python
	$(call install,.venv,$<,$(PYTHON))

.venv-jax-%/installed: requirements/jax-%.txt pyproject.toml | check-python
	$(call install,.venv-jax-$*,$<,$(call python_of,$*))

.venv-docs/installed: requirements/docs.txt pyproject.toml | check-python
	$(call install,.venv-docs,$<,$(PYTHON))

.venv-package/installed: Makefile | check-python
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python -m pip install --disable-pip-version-check --quiet build==$(BUILD) twine==$(TWINE)
	@touch $@

.venv-requirements-%/installed: Makefile
	@[ -n "$(call found,$*)" ] || { echo "make requirements: no python$* found, for which some pins are resolved" >&2; exit 2; }
	$(call found,$*) -m venv .venv-requirements-$*
	.venv-requirements-$*/bin/python -m pip install --quiet pip-tools==$(PIP_TOOLS)
	@touch $@

# With a JAX that the libraries of others take; what does not run with it has an environment with an older one.
.venv-programs/installed: requirements/programs.txt requirements/jax-0.10.2.txt pyproject.toml | check-python
	$(call install,.venv-programs,requirements/jax-0.10.2.txt,$(call python_of,0.10.2))
	@rm $@
	.venv-programs/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

.venv-programs-jax-0.8.2/installed: requirements/programs-jax-0.8.2.txt requirements/jax-0.8.2.txt pyproject.toml | check-python
	$(call install,.venv-programs-jax-0.8.2,requirements/jax-0.8.2.txt,$(call python_of,0.8.2))
	@rm $@
	.venv-programs-jax-0.8.2/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

# With jaxobs and jax as in .venv, so that all are timed side by side.
.venv-benchmark-peers/installed: benchmarks/costs/peers.txt requirements/jax-$(DEFAULT_JAX).txt pyproject.toml | check-python
	$(call install,.venv-benchmark-peers,requirements/jax-$(DEFAULT_JAX).txt,$(PYTHON))
	@rm $@
	.venv-benchmark-peers/bin/python -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

# It has the schema of compose files within it.
.venv-schemas/installed: Makefile | check-python
	$(PYTHON) -m venv .venv-schemas
	.venv-schemas/bin/python -m pip install --disable-pip-version-check --quiet check-jsonschema==$(CHECK_JSONSCHEMA)
	@touch $@

.venv-xprof/installed: Makefile | check-python
	$(PYTHON) -m venv .venv-xprof
	.venv-xprof/bin/python -m pip install --disable-pip-version-check --quiet xprof==$(XPROF)
	@touch $@

# An environment made by another Python is made anew. Two may be made at once, but for jaxobs.egg-info.
define install
[ "$$($(1)/bin/python --version 2>&1)" = "$$($(3) --version 2>&1)" ] || rm -rf $(1)
$(3) -m venv $(1)
$(1)/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r $(2)
flock pyproject.toml $(1)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
@touch $(1)/installed
endef

check-python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "jaxobs: no $(PYTHON) found: apt install python3 python3-venv, or name one with PYTHON=/path/to/python" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "jaxobs: $$($(PYTHON) --version 2>&1) is too old, 3.11 or newer is needed: name one with PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "jaxobs: $(PYTHON) cannot make a virtual environment (no ensurepip): apt install python3-venv" >&2; exit 2; }

check-prometheus:
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || \
	  echo "jaxobs: prometheus and promtool not found, tests that need them are skipped: apt install prometheus" >&2

check-compiler:
	@command -v cc >/dev/null || \
	  echo "jaxobs: no C compiler (cc) found, tests that need one are skipped: apt install gcc libc6-dev" >&2
