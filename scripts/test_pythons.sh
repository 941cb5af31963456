#!/bin/sh
# Run the quick tests on every supported interpreter that the machine has: 3.11 to 3.14, on PATH or of pyenv.
#
#   scripts/test_pythons.sh [VERSION…]    all versions by default; prints a line for each, and the missing ones
#
# Each interpreter has an environment of its own in .venv-pythons, from the same lock files as .venv. The kernels are built
# in place; their file names contain the interpreter's version. TESTS="tests/record" runs other tests than all quick ones.
set -u
cd "$(dirname "$0")/.." || exit 1
uv=.venv/bin/uv
quick="not slow and not kafka and not spark and not heavy"

find_interpreter() {
    for candidate in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
        found=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
        if [ "$found" = "$1" ]; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

set_up() { # INTERPRETER ENVIRONMENT
    [ -x "$2/bin/python" ] || "$uv" venv --quiet --python "$1" "$2" || return 1
    if [ ! -e "$2/.packages" ] || [ requirements/dev.txt -nt "$2/.packages" ]; then
        "$uv" pip install --quiet --python "$2/bin/python" --require-hashes -r requirements/build.txt &&
            "$uv" pip install --quiet --python "$2/bin/python" --require-hashes --no-build-isolation -r requirements/dev.txt &&
            touch "$2/.packages" || return 1
    fi
    TIDELOG_WITHOUT_KERNELS=1 "$uv" pip install --quiet --python "$2/bin/python" --no-deps --no-build-isolation -e . &&
        "$2/bin/python" setup.py --quiet build_ext --inplace
}

passed= failed= missing=
for version in ${*:-3.11 3.12 3.13 3.14}; do
    interpreter=$(find_interpreter "$version") || { missing="$missing $version"; continue; }
    environment=.venv-pythons/$version
    echo "Python $version"
    if set_up "$interpreter" "$environment" &&
        "$environment/bin/python" -m pytest -m "$quick" -n auto --maxprocesses 4 --dist loadfile ${TESTS:-}; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done
echo "passed:${passed:- none}; failed:${failed:- none}; not on this machine:${missing:- none}"
[ -z "$failed" ] && [ -n "$passed" ]
