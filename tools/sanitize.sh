#!/bin/bash
# sanitize.sh asan|tsan VENV JOBS [test...]: builds everything under a sanitizer, into build-asan or build-tsan, and runs
# under it the C++ tests and some of the Python tests (those named, or the ones below).
#
# CPython and torch are not built with a sanitizer, so its runtime is preloaded. What is left out, and why:
# - leaks (ASan): CPython and torch keep memory until the process ends, and so do our tables;
# - races in torch (TSan): what orders its own accesses is not seen. tools/tsan.supp lists the libraries.
# UBSan stops at the first report, like ASan.
set -euo pipefail
kind=$1 venv=$2 jobs=$3
shift 3
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-$kind
python=$root/$venv/bin/python
runtime() { gcc -print-file-name="$1"; }

case $kind in
  asan)
    option=STATOR_SANITIZE
    # A test asks for more memory than there is, and must get torch's own error.
    export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:verify_asan_link_order=0:allocator_may_return_null=1
    export UBSAN_OPTIONS=print_stacktrace=1
    # The C++ runtime is loaded with it, so that exceptions are seen.
    preload="$(runtime libasan.so) $(runtime libstdc++.so)"
    cpp_filter='*'
    # Memory that is used after its end: guards on objects that die, frames that go on, interrupts.
    tests=(tests/python/native tests/python/parity/test_{guards,call_forms,breaks,generators,finalizers,lifetimes}.py
           tests/python/robust/test_{dropped_programs,hostile,interrupts}.py)
    ;;
  tsan)
    option=STATOR_TSAN
    export TSAN_OPTIONS="ignore_noninstrumented_modules=1 suppressions=$root/tools/tsan.supp"
    preload=$(runtime libtsan.so)
    cpp_filter='Threads.*:ForkSafe.*'
    tests=(tests/python/native tests/python/robust/test_threads.py)
    ;;
  *)
    echo "asan or tsan?" >&2
    exit 2
    ;;
esac
[ $# -gt 0 ] && tests=("$@")

cmake -S "$root" -B "$build" -G Ninja -DPython_EXECUTABLE="$python" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_{C,CXX}_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" -DSTATOR_TESTS=ON -D$option=ON
ninja -C "$build" -j "$jobs"
# The package: the Python sources beside the libraries that were just built.
tar -C "$root/python" --exclude='*.so' --exclude=__pycache__ -cf - stator | tar -C "$build/python" -xf -

# Without address space randomisation: ThreadSanitizer needs its own parts of it.
setarch -R "$build/stator_tests" --gtest_brief=1 --gtest_filter="$cpp_filter"
export STATOR_BUILD=$build PYTHONPATH=$build/python:$root
cd "$root"
# Only sys.stderr is captured: pytest would swallow a report that ends the process.
LD_PRELOAD=$preload setarch -R "$python" -m pytest -q -x -p no:cacheprovider --capture=sys \
  -o pythonpath="$build/python . tests/python/fake" "${tests[@]}"
