#!/bin/sh
# Check the machine: Python 3.11 or newer with venv and headers, a C compiler, make; with --jvm a JDK 17 or newer and Maven.
#
#   scripts/prerequisites.sh [--jvm]    as root on Debian install missing packages, elsewhere name them and stop
#   scripts/prerequisites.sh --python   print the interpreter to build environments with
#   scripts/prerequisites.sh --browser  as root on Debian install Chromium if it is missing; without it, tests are skipped
#
# Every command of the Makefile runs this first, so a missing piece is named before the work begins.
set -u

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

has_python_venv() { python=$(find_python) && "$python" -c 'import venv, ensurepip' 2>/dev/null; }

has_python_headers() {
    python=$(find_python) && "$python" -c '
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null
}

# gcc alone does not bring the C library's headers.
has_compiler() { echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1; }

has_jdk() {
    command -v javac >/dev/null 2>&1 || return 1
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

missing_packages() {
    find_python >/dev/null || echo python3
    has_python_venv || echo python3-venv
    has_python_headers || echo python3-dev
    has_compiler || echo gcc libc6-dev
    command -v make >/dev/null 2>&1 || echo make
    if [ -n "$jvm" ]; then
        has_jdk || echo default-jdk-headless
        command -v mvn >/dev/null 2>&1 || echo maven
    fi
}

if [ "${1:-}" = --python ]; then
    find_python
    exit
fi

if [ "${1:-}" = --browser ]; then
    command -v chromium >/dev/null 2>&1 && exit 0
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing the Debian package chromium (a minute or two), for the tests of the inspector" >&2
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq >/dev/null 2>&1
        apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1
    fi
    command -v chromium >/dev/null 2>&1 || echo "Chromium is missing: the tests that need it are skipped." >&2
    exit 0
fi

jvm=
alternatives="a python3 of 3.11 or newer with venv and headers, gcc, make"
if [ "${1:-}" = --jvm ]; then
    jvm=yes
    alternatives="$alternatives, a JDK of 17 or newer, Maven"
fi

packages=$(missing_packages | tr '\n' ' ')
[ -z "$packages" ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Debian packages (a minute or two): $packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086  # a list of names
    apt-get install -qq -y --no-install-recommends $packages >/dev/null
    packages=$(missing_packages | tr '\n' ' ')
    [ -z "$packages" ] && exit 0
fi

echo "This machine lacks these Debian packages: $packages(or: $alternatives)" >&2
exit 1
