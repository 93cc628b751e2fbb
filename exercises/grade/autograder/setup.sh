#!/usr/bin/env bash
# Makes the image ready: Python, NumPy, what holds learners' code in, and the files that their code sees.
#
# Gradescope runs it once, as root and with a network, when the image is built. What is there already is left as it is.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive OPENBLAS_NUM_THREADS=1
autograder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

install() {
    [ -n "${updated:-}" ] || apt-get update -qq
    updated=yes
    apt-get install -y -qq --no-install-recommends "$@"
}

# the grader goes on without them, and says what is weaker then
if ! command -v bwrap >/dev/null || ! ldconfig -p | grep 'libseccomp\.so\.2' >/dev/null; then
    install bubblewrap libseccomp2 || echo "NOT INSTALLED: bubblewrap and libseccomp2"
fi

# these have the pinned versions; on Ubuntu ensurepip, which venv needs, is in a package of its own
usable() {
    command -v "$1" >/dev/null &&
        "$1" -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

if [ ! -x "$autograder/venv/bin/python" ]; then
    for python in python3.12 python3.13 python3.11 python3; do
        if usable "$python"; then break; fi
    done
    for version in 3.12 3.13 3.11; do
        if usable "$python"; then break; fi
        install "python$version" "python$version-venv" && python=python$version
    done
    if ! usable "$python"; then
        echo "error: there is no Python 3.11, 3.12 or 3.13, and apt has none; choose the base image Ubuntu 24.04" >&2
        exit 1
    fi
    "$python" -m venv "$autograder/venv"
fi
cd "$autograder/source"
"$autograder/venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check -r requirements.txt
"$autograder/venv/bin/python" -m compileall -q exercises scratch
"$autograder/venv/bin/python" -m exercises.grade.autograder.container prepare "$autograder"
chmod go= "$autograder/source" # the answers and the secret are in it
