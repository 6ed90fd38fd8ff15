# One command per job; each does whatever set-up is missing, and little when nothing is.
.DEFAULT_GOAL := build
SHELL := /bin/bash

VENV ?= .venv
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= 2
BUILD_TYPE ?= Release
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
VENV_STAMP := $(VENV)/.stator-ready
SYSTEM_STAMP := $(BUILD)/.system-ready
export PYTHONPATH := $(CURDIR)/python:$(CURDIR)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# The same for every process: a compiler cache tells locales apart, and Python sets one for those it starts.
export LC_ALL := C.UTF-8
export TOKENIZERS_PARALLELISM := false
export HF_HUB_OFFLINE := 1

say = @printf '\033[1m==> %s\033[0m\n' $(1)

.PHONY: build demo test test-cpp test-python test-wheel bench bench-readme conformance fuzz lint format asan tsan \
        test-debug clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(SYSTEM_STAMP): tools/setup_system.sh
	$(call say,"system packages")
	@mkdir -p $(BUILD)
	@bash tools/setup_system.sh
	@touch $@

$(VENV_STAMP): tools/setup_venv.sh tools/requirements-dev.txt | $(SYSTEM_STAMP)
	$(call say,"Python environment in $(VENV)")
	@bash tools/setup_venv.sh $(VENV) $(CURDIR)
	@touch $@

$(BUILD)/build.ninja: CMakeLists.txt $(VENV_STAMP) | $(SYSTEM_STAMP)
	$(call say,"configure")
	@cmake -S . -B $(BUILD) -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) \
	  -DSTATOR_TESTS=ON -DSTATOR_EXAMPLES=ON

build: $(BUILD)/build.ninja  ## set up .venv and build, optimised, into python/stator
	$(call say,"build")
	@ninja -C $(BUILD) -j $(JOBS)
	@$(PY) -m compileall -q python/stator

demo: build  ## compile a real model, compare with eager and with torch.compile
	@$(PY) examples/demo.py

lint: $(VENV_STAMP)  ## formatting, layer rule, row table, types
	$(call say,"lint")
	@$(PY) tools/lint.py --venv $(VENV)

format: $(VENV_STAMP)  ## rewrite sources to the project's format
	@$(PY) tools/lint.py --venv $(VENV) --fix

test-cpp: build  ## C++ tests
	$(call say,"C++ tests")
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS)

test-python: build  ## Python tests
	$(call say,"Python tests")
	@$(PY) -m pytest -n $(TEST_JOBS) --dist worksteal -q tests/python $(PYTEST_ARGS)

test-wheel: build  ## build the wheel, install it elsewhere, use it
	$(call say,"wheel")
	@$(PY) tools/check_wheel.py

test: lint  ## everything that CI runs
	@$(MAKE) --no-print-directory test-cpp test-python test-wheel
	$(call say,"all tests passed")

bench: build  ## side by side with torch.compile; BENCH=topic runs one topic
	@$(PY) -m benchmarks $(BENCH)

bench-readme: build  ## run all benchmarks and put the table into README.md
	@$(PY) -m benchmarks --update-readme

conformance: build  ## the corpus beside torch.compile: correct, captured whole, what is left; ONLY=category,... runs some
	@$(PY) tools/conformance.py --jobs $(TEST_JOBS) $(if $(ONLY),--only $(ONLY))

fuzz: build  ## random programs, plain against compiled, for SECONDS (default 60); SEED=n repeats a run
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

asan: $(VENV_STAMP)  ## C++ tests under AddressSanitizer and UBSan
	@cmake -S . -B build-asan -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DSTATOR_TESTS=ON -DSTATOR_SANITIZE=ON
	@ninja -C build-asan -j $(JOBS) stator_tests
	@ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build-asan --output-on-failure -j $(TEST_JOBS)

tsan: $(VENV_STAMP)  ## C++ tests with threads under ThreadSanitizer
	@cmake -S . -B build-tsan -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DSTATOR_TESTS=ON -DSTATOR_TSAN=ON
	@ninja -C build-tsan -j $(JOBS) stator_tests
	@TSAN_OPTIONS="ignore_noninstrumented_modules=1 suppressions=$(CURDIR)/tools/tsan.supp" \
	  setarch -R build-tsan/stator_tests --gtest_filter='Threads.*'

DEBUG_PYTHON ?= python3.11-dbg
DEBUG_PATH = PYTHONPATH=$(CURDIR)/python:$(CURDIR):$(shell $(PY) -c "import sysconfig; print(sysconfig.get_path('purelib'))")

# A debug build loads extensions of the release build: objects and frames are laid out the same.
test-debug: build  ## Python tests on a debug build of CPython (DEBUG_PYTHON), under its own assertions
	@command -v $(DEBUG_PYTHON) > /dev/null || { echo "no $(DEBUG_PYTHON): install it, or name another"; exit 1; }
	@$(DEBUG_PATH) $(DEBUG_PYTHON) -m pytest -n $(TEST_JOBS) -q tests/python/robust tests/python/parity

clean:  ## remove what was built (not .venv)
	@rm -rf $(BUILD) build-asan build-tsan build-wheel build-wheel-env dist python/stator/*.so
