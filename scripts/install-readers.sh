#!/bin/sh
# Installs what tests use as second opinions: parsers from PyPI and the JUnit schema of Jenkins for
# our formats, pandas and DuckDB for records, llama.cpp and guidellm for servers of language models.
# Everything goes below target/readers, nothing into the system.
#
# Does nothing when all are there. Never fails: without a network or Python it says what is
# missing, and the tests that want it say that they were skipped.
set -u

cd "$(dirname "$0")/.." || exit 1
readers=${CARGO_TARGET_DIR:-target}/readers

# The versions that the tests were written for.
packages="junitparser==5.0.3 hdrhistogram==0.10.8 xmlschema==4.3.2 opentelemetry-proto==1.45.0"
# What reads records of requests in docs/records.md; 40 MB.
frames="pandas==3.1.1 duckdb==2.0.1"
# llama.cpp with its HTTP server, a package of 34 MB without dependencies.
llama=xllamacpp==2026.10.11549
# guidellm's mock server, and the packages that it imports: 360 MB. Those of its clients, which
# include PyTorch, take 6 GB.
guidellm=guidellm==0.8.1
guidellm_imports="click==8.4.2 Faker==40.63.0 loguru==0.7.3 more-itertools==11.2.1 pydantic==2.14.4
pydantic-settings==2.16.3 rich==15.0.0 sanic==25.12.1 transformers==5.24.0 uvloop==0.23.0"
# Its source archive contains the schema of the xunit plugin of Jenkins.
pytest=pytest==8.4.2

# A download that takes longer is given up.
limit_s=300
PIP_RETRIES=1
PIP_DEFAULT_TIMEOUT=20
export PIP_RETRIES PIP_DEFAULT_TIMEOUT

say() { printf '%s\n' "install-readers: $*"; }

has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command within the time limit and discards its output.
quietly() {
    if has timeout; then
        timeout "$limit_s" "$@" >/dev/null 2>&1 </dev/null
    else
        "$@" >/dev/null 2>&1 </dev/null
    fi
}

# The file that the tests start or read.
file_of() {
    case $1 in
    python) echo venv/bin/python ;;
    llama) echo llama/bin/python ;;
    guidellm) echo guidellm/bin/guidellm ;;
    frames) echo frames/bin/python ;;
    schema) echo junit-10.xsd ;;
    *) echo "$1" ;;
    esac
}

is_current() {
    [ -e "$readers/$(file_of "$1")" ] && [ -f "$readers/$1.installed" ] &&
        [ "$(cat "$readers/$1.installed")" = "$2" ]
}

mark() { printf '%s\n' "$2" >"$readers/$1.installed"; }

# A folder and the packages from PyPI for it.
install_into() {
    folder=$1
    shift
    has python3 || return 1
    rm -rf "$folder"
    quietly python3 -m venv "$folder" || return 1
    quietly "$folder/bin/pip" install "$@"
}

# shellcheck disable=SC2086 # one word per package
install_python() { install_into "$readers/venv" $packages; }

# shellcheck disable=SC2086 # one word per package
install_frames() { install_into "$readers/frames" $frames; }

install_llama() { install_into "$readers/llama" "$llama"; }

# shellcheck disable=SC2086 # one word per package
install_guidellm() {
    install_into "$readers/guidellm" $guidellm_imports &&
        quietly "$readers/guidellm/bin/pip" install --no-deps "$guidellm"
}

install_schema() {
    [ -x "$readers/venv/bin/pip" ] || return 1
    rm -rf "$readers/sdist"
    mkdir -p "$readers/sdist"
    quietly "$readers/venv/bin/pip" download --no-deps --no-binary :all: -d "$readers/sdist" \
        "$pytest" || return 1
    tar -xzf "$readers"/sdist/pytest-*.tar.gz -O --wildcards '*/junit-10.xsd' \
        >"$readers/junit-10.xsd" 2>/dev/null
    found=$?
    rm -rf "$readers/sdist"
    [ "$found" -eq 0 ] && [ -s "$readers/junit-10.xsd" ]
}

mkdir -p "$readers" || { say "cannot create $readers"; exit 0; }
missing=
# Name and version.
reader() {
    is_current "$1" "$2" && return 0
    say "installing $1"
    rm -f "$readers/$1.installed"
    if "install_$1"; then
        mark "$1" "$2"
    else
        # The tests must not find an incomplete reader.
        rm -rf "${readers:?}/$1.installed" "${readers:?}/$(file_of "$1")"
        rm -rf "$readers/sdist"
        missing="$missing $1"
    fi
}

reader python "$packages"
reader schema "$pytest"
reader llama "$llama"
reader guidellm "$guidellm $guidellm_imports"
reader frames "$frames"

if [ -n "$missing" ]; then
    say "missing:$missing (needs a network, python3 with venv, apt-get); their tests cannot run"
else
    say "everything is installed"
fi
