#!/bin/sh
# Checks before a release: the tag, Cargo.toml and CHANGELOG.md name the same version.
set -eu

cd "$(dirname "$0")/.."

fail() {
    printf '%s\n' "check-version: $*" >&2
    exit 1
}

tag=${1:?usage: check-version.sh TAG}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
[ "$tag" = "v$version" ] || fail "the tag is $tag, Cargo.toml has version $version"
# A heading like `## 0.2.0: 2026-12-01`.
grep -q "^## $version: [0-9]" CHANGELOG.md ||
    fail "CHANGELOG.md has no heading '## $version: DATE'"
