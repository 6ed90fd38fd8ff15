# Each target sets up what is missing first, so any of them works in a fresh checkout.
.DEFAULT_GOAL := build
SHELL := /bin/bash

VENV ?= .venv
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= 2
BUILD_TYPE ?= Release
PYTEST_ARGS ?=
GOLDEN_TESTS := tests/python/golden $(addprefix tests/python/parity/,test_corpus.py test_guards.py test_call_forms.py)

PY := $(VENV)/bin/python
PYTHON_EXECUTABLE := $(CURDIR)/$(PY)
VENV_STAMP := $(VENV)/.stator-torch
TOOLS_STAMP := $(VENV)/.stator-tools
SYSTEM_STAMP := $(BUILD)/.system-ready
# USE_PYTHON=python3 takes an interpreter that has torch and the tools. Nothing is installed then.
ifdef USE_PYTHON
PY := $(USE_PYTHON)
PYTHON_EXECUTABLE := $(shell command -v $(USE_PYTHON))
VENV_STAMP := CMakeLists.txt
TOOLS_STAMP := CMakeLists.txt
SYSTEM_STAMP := CMakeLists.txt
endif
export PYTHONPATH := $(CURDIR)/python:$(CURDIR)
export STATOR_BUILD := $(CURDIR)/$(BUILD)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# One locale for every process: compiler caches hash the locale, and Python sets one for its child processes.
export LC_ALL := C.UTF-8
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE := 1

say = @printf '\033[1m==> %s\033[0m\n' $(1)

.PHONY: build demo test test-cpp test-python test-oracle test-cuda test-wheel golden bench bench-readme conformance fuzz properties lint \
        format asan tsan sanitize test-debug clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

ifndef USE_PYTHON
$(SYSTEM_STAMP): tools/setup_system.sh
	$(call say,"system packages")
	@mkdir -p $(BUILD)
	@bash tools/setup_system.sh
	@touch $@

$(VENV_STAMP): tools/setup_venv.sh | $(SYSTEM_STAMP)
	$(call say,"Python environment in $(VENV)")
	@bash tools/setup_venv.sh $(VENV) $(CURDIR)
	@touch $@

$(TOOLS_STAMP): tools/requirements-dev.txt | $(VENV_STAMP)
	@$(PY) -m pip --disable-pip-version-check install -q -r tools/requirements-dev.txt
	@touch $@
endif

$(BUILD)/build.ninja: CMakeLists.txt $(VENV_STAMP) | $(SYSTEM_STAMP)
	$(call say,"configure")
	@cmake -S . -B $(BUILD) -G Ninja -DPython_EXECUTABLE=$(PYTHON_EXECUTABLE) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) \
	  -DSTATOR_TESTS=$(if $(USE_PYTHON),OFF,ON) -DSTATOR_EXAMPLES=$(if $(USE_PYTHON),OFF,ON)

build: $(BUILD)/build.ninja  ## set up .venv and build, optimised, into python/stator
	$(call say,"build")
# The compiler needs torch only: the other packages are installed meanwhile.
	@$(MAKE) --no-print-directory $(TOOLS_STAMP) & ninja -C $(BUILD) -j $(JOBS) stator_core _C && wait $$!
	@$(PY) -m compileall -q python/stator

demo: build  ## compile a small BERT, compare with eager and with torch.compile
	@$(PY) examples/demo.py

lint: $(TOOLS_STAMP)  ## check formatting, layers, row table, docs, retired words, types
	$(call say,"lint")
	@$(PY) tools/lint.py --venv $(VENV)

format: $(TOOLS_STAMP)  ## format the sources
	@$(PY) tools/lint.py --venv $(VENV) --fix

test-cpp: build  ## run the C++ tests
	$(call say,"C++ tests")
	@ninja -C $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS)

test-python: build  ## run the Python tests
	$(call say,"Python tests")
	@ninja -C $(BUILD) -j $(JOBS)
	@$(PY) -m pytest -n $(TEST_JOBS) --dist worksteal -q tests/python $(PYTEST_ARGS)

golden: build  ## regenerate the expected captures in tests/golden; review the diff
	@$(PY) -m pytest -n $(TEST_JOBS) -q --renew $(GOLDEN_TESTS)
	@git -c core.pager= diff --stat -- tests/golden

# Tests that are expected to fail there, each with the reason: tests/python/parity/no_oracle.toml.
ORACLE_TESTS ?= tests/python/parity
# Files that `make test` leaves out: they capture at every instruction, count captures, compile with torch's backends,
# or have a row in that table. Under the oracle, a fresh capture of symbolic_strides and overlapping_writes makes other
# strides symbols than the entry, and an entry of dropped_objects breaks where a fresh capture need not.
SLOW_ORACLE := ahead_of_time aliases breaks_everywhere call_forms changing_constants changing_numbers_backends \
  checkpoint_lifetimes class_statements checkpoints class_changes corpus_backends data_dependent dropped_objects \
  external_iterators functional fuzz handled_errors instances library_state lifetimes marked_regions numpy \
  overlapping_writes reentrant_checkpoints symbolic_sizes symbolic_strides unrecoverable_writes warnings \
  weak_dictionaries word_pass
QUICK_ORACLE_TESTS := $(filter-out $(SLOW_ORACLE:%=tests/python/parity/test_%.py),$(wildcard tests/python/parity/test_*.py))

test-oracle: build  ## parity tests with every hit checked against a fresh capture
	$(call say,"oracle")
	@STATOR_ORACLE=1 $(PY) -m pytest -n $(TEST_JOBS) --dist worksteal -q $(ORACLE_TESTS) $(PYTEST_ARGS)

test-cuda:  ## tests on a GPU, and the table of docs/gpu.md; USE_PYTHON=python3 takes an interpreter that has torch with CUDA
	@$(if $(USE_PYTHON),,$(MAKE) --no-print-directory build)
	@$(PY) -c "import torch, sys; sys.exit(not torch.cuda.is_available())" || \
	  { echo "make test-cuda needs a GPU and a build of torch with CUDA: torch.cuda.is_available() is False"; exit 1; }
	@$(MAKE) --no-print-directory build
	$(call say,"tests on the GPU")
	@$(PY) -m pytest -n $(TEST_JOBS) --dist worksteal -q tests/cuda $(PYTEST_ARGS)
	@$(PY) -m benchmarks gpu

test-wheel: build  ## build the wheel, install it into a fresh environment, use it
	$(call say,"wheel")
	@$(PY) tools/check_wheel.py

test: lint  ## run everything that CI runs
	@$(MAKE) --no-print-directory test-cpp test-python
	@$(MAKE) --no-print-directory test-oracle ORACLE_TESTS="$(QUICK_ORACLE_TESTS)"
	@$(MAKE) --no-print-directory test-wheel
	$(call say,"all tests passed")

bench: build  ## run the benchmarks beside torch.compile; BENCH=topic runs one topic
	@$(PY) -m benchmarks $(BENCH)

bench-readme: build  ## run all benchmarks and put the table into README.md
	@$(PY) -m benchmarks --update-readme

conformance: build  ## run the corpus beside torch.compile: correct, in one graph, failures; ONLY=category,... runs some
	@$(PY) tools/conformance.py --jobs $(TEST_JOBS) $(if $(ONLY),--only $(ONLY))

fuzz: build  ## compare random programs, plain and compiled, for SECONDS (default 60); SEED=n repeats a run; ORACLE=1 also checks hits
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED)) $(if $(ORACLE),--oracle)

properties: build  ## compare COUNT (default 1000000) random expressions over sizes with exact evaluation; SEED=n takes others
	@ninja -C $(BUILD) -j $(JOBS) stator_tests
	@STATOR_FUZZ_COUNT=$(or $(COUNT),1000000) STATOR_FUZZ_SEED=$(or $(SEED),1) \
	  $(BUILD)/stator_tests --gtest_filter='ShapeProperties.*'

asan: $(TOOLS_STAMP)  ## C++ tests and some of the Python tests under AddressSanitizer and UBSan
	@bash tools/sanitize.sh asan $(VENV) $(JOBS) $(TESTS)

tsan: $(TOOLS_STAMP)  ## C++ and Python tests with threads under ThreadSanitizer
	@bash tools/sanitize.sh tsan $(VENV) $(JOBS) $(TESTS)

sanitize: asan tsan  ## both; TESTS="file ..." runs those Python tests instead

DEBUG_PYTHON ?= python3.11-dbg
DEBUG_PATH = PYTHONPATH=$(CURDIR)/python:$(CURDIR):$(shell $(PY) -c "import sysconfig; print(sysconfig.get_path('purelib'))")

# A debug CPython loads extensions of the release build: objects and frames have the same layout.
test-debug: build  ## run Python tests on a debug build of CPython (DEBUG_PYTHON), with its assertions enabled
	@command -v $(DEBUG_PYTHON) > /dev/null || { echo "no $(DEBUG_PYTHON): install it, or name another"; exit 1; }
	@$(DEBUG_PATH) $(DEBUG_PYTHON) -m pytest -n $(TEST_JOBS) -q tests/python/robust tests/python/parity

clean:  ## remove build output (not .venv)
	@rm -rf $(BUILD) build-asan build-tsan build-wheel build-wheel-env dist python/stator/*.so
