#!/bin/sh
# Writes the list of crates in the program to target/dist/wrkbench-VERSION.cdx.json, in CycloneDX
# 1.5. docs/decisions/0015-packages.md says why not by cargo-cyclonedx.
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
dist=${CARGO_TARGET_DIR:-target}/dist

command -v python3 >/dev/null || {
    echo "sbom: python3 is missing; on Debian: apt-get install python3" >&2
    exit 1
}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
mkdir -p "$dist"
"$CARGO" metadata --locked --format-version 1 --filter-platform x86_64-unknown-linux-gnu |
    python3 scripts/sbom.py >"$dist/wrkbench-$version.cdx.json"
echo "sbom: $dist/wrkbench-$version.cdx.json"
