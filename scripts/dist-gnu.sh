#!/bin/sh
# Builds the archive with the dynamic binary for the processor of this machine, in target/dist:
# wrkbench-VERSION-PROCESSOR-linux-gnu.tar.gz. The binary uses the C library of the system, and so
# loads Lua modules written in C, which a static one cannot (docs/decisions/0016-static-binary.md).
# The binary is tried with such modules before it is packed (scripts/check-dynamic.sh).
#
# It must run on systems with an old glibc, so it is built on one: Debian 12 or Ubuntu 22.04.
set -eu

cd "$(dirname "$0")/.."
export LC_ALL=C
umask 022

fail() {
    printf '%s\n' "dist-gnu: $*" >&2
    exit 1
}

[ -n "${SOURCE_DATE_EPOCH:-}" ] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) ||
    fail "this is no git repository; set SOURCE_DATE_EPOCH to the time of the release"
export SOURCE_DATE_EPOCH
processor=$(uname -m)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
target_dir=${CARGO_TARGET_DIR:-target}
mkdir -p "$target_dir/dist"
dist=$(cd "$target_dir/dist" && pwd)
archive=$dist/wrkbench-$version-$processor-linux-gnu
binary=$(mktemp "$dist/binary.XXXXXX")
trap 'rm -f "$binary"' EXIT

"${CARGO:-cargo}" build --release --locked -p wrkbench
cp "$target_dir/release/wrkbench" "$binary"
chmod 755 "$binary"
# What modules look for is in the dynamic table, which stays.
strip "$binary" || fail "the binary cannot be stripped"
sh scripts/check-dynamic.sh "$binary"
sh scripts/archive.sh "$archive" "$binary" "$binary"
printf '%s\n' "dist-gnu: $archive.tar.gz"
