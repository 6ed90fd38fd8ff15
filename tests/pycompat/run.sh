#!/bin/sh
# Builds the parts of Stator that need no torch against one CPython and runs their tests with it.
#   run.sh PYTHON [BUILD_DIR] [test module ...]
# PYCOMPAT_FULL=1 decodes the whole standard library instead of a third of it.
# PYCOMPAT_CFLAGS adds compiler flags and PYCOMPAT_ENV variables for the tests; with sanitizers:
#   PYCOMPAT_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover" \
#   PYCOMPAT_ENV="LD_PRELOAD=$(cc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc" run.sh ...
set -eu
python=$1
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../src" && pwd)
build=${2:-$(mktemp -d)}
shift; [ $# -eq 0 ] || shift
[ $# -ne 0 ] || set -- $(cd "$here" && ls test_*.py)
mkdir -p "$build"

include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
[ -f "$include/Python.h" ] || { echo "no headers for $python in $include" >&2; exit 77; }
launcher=$(command -v ccache || true)
flags="-O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers"
flags="$flags -I$source -I$here -isystem $include"
module=$build/stator_pycompat_ext.so

build_module() {
  objects=
  for file in "$source"/capture/pycompat/*.c "$source"/capture/pycompat/*.cpp "$here"/*.c "$here"/*.cpp; do
    object=$build/$(basename "$file").o
    case $file in
      *.c) $launcher ${CC:-cc} -std=c11 $flags ${PYCOMPAT_CFLAGS:-} -c "$file" -o "$object" ;;
      *) $launcher ${CXX:-c++} -std=c++20 $flags ${PYCOMPAT_CFLAGS:-} -c "$file" -o "$object" ;;
    esac
    objects="$objects $object"
  done
  ${CXX:-c++} -shared ${PYCOMPAT_CFLAGS:-} $objects -o "$module"
}
changed=$([ -f "$module" ] && find "$source/capture/pycompat" "$here" -newer "$module" -name '*.[chd]*' || echo yes)
[ -z "$changed" ] || build_module

for test in "$@"; do
  echo "== $("$python" -V) $test"
  ${PYCOMPAT_ENV:+env $PYCOMPAT_ENV} env PYTHONPATH="$build" PYTHONDONTWRITEBYTECODE=1 "$python" "$here/$test"
done
