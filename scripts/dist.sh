#!/bin/sh
# Builds what a release consists of, in target/dist: for each processor an archive with the static
# binary, manual pages, completions, documents and examples, a file with its debug data, and the
# sums of all of them. The same commit gives the same bytes (scripts/dist-check.sh compares).
# DIST_PROCESSORS="x86_64" builds for one processor only.
set -eu

cd "$(dirname "$0")/.."

fail() {
    printf '%s\n' "dist: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

tar --version 2>/dev/null | grep -q 'GNU tar' || fail "GNU tar is missing; install it"
has gzip || fail "gzip is missing; install it"
has sha256sum || fail "sha256sum is missing; install coreutils"
case $(uname -m) in
x86_64 | aarch64) ;;
*) fail "needs a machine that runs one of the binaries: x86_64 or aarch64" ;;
esac

# Files in the archives have the time of the commit.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) ||
        fail "this is no git repository; set SOURCE_DATE_EPOCH to the time of the release"
fi
export SOURCE_DATE_EPOCH
export LC_ALL=C
umask 022

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
target_dir=${CARGO_TARGET_DIR:-target}
dist=$target_dir/dist
rm -rf "$dist"
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)

built() { echo "$target_dir/$1-unknown-linux-musl/static/wrkbench"; }

objcopy() { sh scripts/static-cargo.sh "$here" objcopy "$@"; }

# Moves the debug data of a binary into a file that debuggers find by name or build id: split BINARY
# STRIPPED DEBUG.
split() {
    objcopy --only-keep-debug --compress-debug-sections=zlib "$1" "$3"
    chmod 644 "$3"
    objcopy --strip-all "$1" "$2"
    objcopy --add-gnu-debuglink="$3" "$2"
}

processors=${DIST_PROCESSORS:-x86_64 aarch64}
here=$(uname -m)
for processor in $here $processors; do
    [ -e "$dist/binary-$processor" ] && continue
    printf '%s\n' "dist: building for $processor"
    sh scripts/static-cargo.sh "$processor" build --profile static --package wrkbench
    name=wrkbench-$version-$processor-linux-musl
    split "$(built "$processor")" "$dist/binary-$processor" "$dist/$name.debug"
done

for processor in $processors; do
    name=wrkbench-$version-$processor-linux-musl
    sh scripts/archive.sh "$dist/$name" "$dist/binary-$processor" "$dist/binary-$here" "$processor"
done
case " $processors " in
*" $here "*) ;;
*) rm "$dist/wrkbench-$version-$here-linux-musl.debug" ;;
esac
rm "$dist"/binary-*

cd "$dist"
sha256sum -- *.tar.gz *.debug >SHA256SUMS
printf '%s\n' "dist: $dist"
ls -l
