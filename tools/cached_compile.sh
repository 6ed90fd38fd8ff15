#!/usr/bin/env bash
# cached_compile.sh COMPILER ARGUMENTS...: runs the compiler under ccache.
#
# A precompiled header is never taken from the cache: g++ stores the time stamps of the headers in it, and rejects
# `#pragma once` for files of another checkout. Sources that use one are cached by a checksum of the header's
# preprocessed text, which this script writes beside it.
set -euo pipefail
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
# Paths below the checkout count as relative: other checkouts, and the wheel's build, find what the first build made.
CCACHE_BASEDIR=$(dirname "$(dirname "$(readlink -f "$0")")")
export CCACHE_BASEDIR

case " $* " in
  *" -x c++-header "*) ;;
  *) exec ccache "$@" ;;
esac

command=("$@") preprocess=() output=
while [ $# -gt 0 ]; do
  case $1 in
    -c) preprocess+=(-E) ;;
    -o) output=$2; shift ;;
    -MD) ;;
    -MT | -MF) shift ;;
    *) preprocess+=("$1") ;;
  esac
  shift
done
checksum() { "${preprocess[@]}" | grep -v '^# ' | sha256sum; }

# Headers may be edited while the compiler reads them. The checksum must be that of the text that was compiled, since
# the cache would give objects of another layout to later builds.
found=$(checksum)
while :; do
  "${command[@]}"
  before=$found
  found=$(checksum)
  [ "$found" = "$before" ] && break
done
echo "$found" > "$output.sum"
