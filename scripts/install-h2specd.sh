#!/bin/sh
# Builds h2specd, the test of HTTP/2 clients in github.com/summerwind/h2spec, below target/readers.
#
# Does nothing when it is there. Never fails: without Go, or where its sources are neither in Go's
# module cache nor on a network, it says so, and the test that wants h2specd says that it was
# skipped.
set -u

cd "$(dirname "$0")/.." || exit 1
folder=${CARGO_TARGET_DIR:-target}/readers
program=$folder/h2specd

# Of the libraries, the last versions that Go 1.19 of Debian 12 can build.
modules='module h2specd

go 1.19

require (
	github.com/fatih/color v1.13.0
	github.com/spf13/cobra v1.7.0
	github.com/summerwind/h2spec v2.2.1+incompatible
	golang.org/x/net v0.17.0
)'

# A build that takes longer is given up.
limit_s=180

say() { printf '%s\n' "install-h2specd: $*"; }

has() { command -v "$1" >/dev/null 2>&1; }

is_current() {
    [ -x "$program" ] && [ "$(cat "$folder/h2specd.installed" 2>/dev/null)" = "$modules" ]
}

build() {
    go=go
    has go || go=/usr/local/go/bin/go
    has "$go" || return 1
    output=$(cd "$folder" && pwd)/h2specd
    workdir=$(mktemp -d) || return 1
    printf '%s\n' "$modules" >"$workdir/go.mod"
    limit=
    has timeout && limit="timeout $limit_s"
    # shellcheck disable=SC2086 # nothing or two words
    (cd "$workdir" && $limit "$go" build -mod=mod -o "$output" \
        github.com/summerwind/h2spec/cmd/h2specd >"$workdir/log" 2>&1 </dev/null)
    built=$?
    [ "$built" -eq 0 ] || tail -n 3 "$workdir/log"
    rm -rf "$workdir"
    return "$built"
}

mkdir -p "$folder" || { say "cannot create $folder"; exit 0; }
if is_current; then
    say "it is installed"
    exit 0
fi
say "building h2specd"
rm -f "$program" "$folder/h2specd.installed"
if build; then
    printf '%s\n' "$modules" >"$folder/h2specd.installed"
    say "done"
else
    rm -f "$program"
    say "h2specd is missing (needs go and a network); its test cannot run"
fi
