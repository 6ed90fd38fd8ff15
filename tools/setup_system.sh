#!/usr/bin/env bash
# Checks for compiler, CMake, Ninja and GoogleTest. As root it installs what is missing; otherwise it prints the command.
set -euo pipefail

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
need g++ g++
need cmake cmake
need ninja ninja-build
need ccache ccache
need git git
[ -e /usr/include/gtest/gtest.h ] || packages+=(libgtest-dev)

if [ ${#packages[@]} -eq 0 ]; then
  echo "all installed"
  exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
  echo "Missing: ${packages[*]} (Debian names). Install them with this system's package manager, then run make again." >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "Missing system packages. Run:  sudo apt-get install ${packages[*]}   then make again." >&2
  exit 1
fi
echo "installing ${packages[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
