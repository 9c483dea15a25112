#!/bin/sh
# Writes target/dist/wrkbench.rb: the Homebrew formula with the version and the sums of the archives
# in target/dist/ (`make dist`).
set -eu

cd "$(dirname "$0")/.."
dist=${CARGO_TARGET_DIR:-target}/dist
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

fail() {
    printf '%s\n' "make formula: $*" >&2
    exit 1
}

sum_of() {
    file=$dist/wrkbench-$version-$1-linux-musl.tar.gz
    [ -f "$file" ] || fail "$file is missing: run make dist first"
    sha256sum "$file" | cut -d' ' -f1
}

x86_64=$(sum_of x86_64)
aarch64=$(sum_of aarch64)
# The sum follows the URL of its archive.
awk -v version="$version" -v x86_64="$x86_64" -v aarch64="$aarch64" '
    /^# For a tap\./ { print "# Written by scripts/formula.sh of wrkbench " version "."; next }
    /^ *version "/ { sub(/".*"/, "\"" version "\"") }
    /^ *url "/ {
        gsub(/v[0-9][^\/]*\/wrkbench-[0-9][^\/]*-(x86_64|aarch64)-linux/, \
            "v" version "/wrkbench-" version "-" ($0 ~ /x86_64/ ? "x86_64" : "aarch64") "-linux")
        sum = $0 ~ /x86_64/ ? x86_64 : aarch64
    }
    /^ *sha256 "/ { sub(/".*"/, "\"" sum "\"") }
    { print }
' packaging/homebrew/wrkbench.rb >"$dist/wrkbench.rb"
if command -v ruby >/dev/null; then
    ruby -c "$dist/wrkbench.rb" >/dev/null
fi
printf '%s\n' "$dist/wrkbench.rb"
