#!/bin/sh
# Checks licences, sources, duplicates and known vulnerabilities of all dependencies with
# cargo-deny (deny.toml).
#
# If cargo-deny is missing, installs it below target/tools within a time limit. If that fails, for
# example without a network, says so and succeeds.
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
tools=$(mkdir -p "$target/tools" && cd "$target/tools" && pwd)
version=0.20.2
install_limit_s=600
# Downloading the list of vulnerabilities.
fetch_limit_s=60

say() { printf '%s\n' "check-dependencies: $*"; }

PATH="$tools/bin:$PATH"
if ! command -v cargo-deny >/dev/null 2>&1; then
    say "installing cargo-deny $version"
    # A debug build takes a third of the time and is fast enough.
    if ! timeout "$install_limit_s" "$CARGO" install cargo-deny --version "$version" --locked \
        --debug --quiet --root "$tools" --target-dir "$tools/build" </dev/null; then
        say "SKIPPED: cargo-deny cannot be installed here"
        exit 0
    fi
    rm -rf "$tools/build"
fi

"$CARGO" deny --locked check --hide-inclusion-graph bans licenses sources
if timeout "$fetch_limit_s" "$CARGO" deny --locked fetch db </dev/null >/dev/null 2>&1; then
    "$CARGO" deny --locked --offline check advisories
else
    say "SKIPPED: advisories: their database cannot be downloaded"
fi
