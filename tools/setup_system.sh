#!/usr/bin/env bash
# Checks for compiler, CMake, Ninja, GoogleTest and a browser. As root it installs what is missing; otherwise it prints
# the command.
set -euo pipefail

packages=()
need() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
need g++ g++
need cmake cmake
need ninja ninja-build
need ccache ccache
need git git
[ -e /usr/include/gtest/gtest.h ] || packages+=(libgtest-dev)

# A browser, for the tests of the report's page. Where it cannot be installed, they are skipped.
if ! command -v chromium >/dev/null 2>&1 && ! command -v chromium-browser >/dev/null 2>&1; then
  if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ]; then
    echo "installing chromium"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium ||
      echo "chromium is not installed: the tests of the report's page are skipped"
  else
    echo "no chromium: the tests of the report's page are skipped"
  fi
fi

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
