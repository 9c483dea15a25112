#!/bin/sh
# Checks before a release: the tag, Cargo.toml and CHANGELOG.md name the same version, and the
# documents that of the latest release.
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
# Documents and examples name the latest release, which one like 1.2.3-rc.1 does not become.
case $version in *-*) exit ;; esac
before='wrkbench[:_]|WRKBENCH_VERSION:-|wrkbench@v|--version |--tag v'
found=$(git grep -ohE "($before)[0-9]+[.][0-9]+[.][0-9]+" -- README.md docs/install.md deploy |
    sed 's/.*[^0-9.]//' | sort -u | paste -s -d ' ')
[ "$found" = "$version" ] ||
    fail "README.md, docs/install.md and deploy/ name other versions than $version: $found"
