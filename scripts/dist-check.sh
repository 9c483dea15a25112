#!/bin/sh
# Checks what `make dist` has made: builds it again in another folder, with another target folder
# and another name of cargo's, compares the sums, and runs the binaries (check-static.sh).
# DIST_CHECK_BUILD=no leaves out the second build, which takes as long as the first.
set -eu

cd "$(dirname "$0")/.."

say() { printf '%s\n' "dist-check: $*"; }

fail() {
    say "$*" >&2
    exit 1
}

target_dir=${CARGO_TARGET_DIR:-target}
dist=$(cd "$target_dir/dist" 2>/dev/null && pwd) || fail "run make dist first"
(cd "$dist" && sha256sum --check --quiet SHA256SUMS) || fail "the sums are wrong"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for archive in "$dist"/*-linux-musl.tar.gz; do
    tar --extract --file "$archive" --directory "$folder"
done
for unpacked in "$folder"/*; do
    binary=$unpacked/bin/wrkbench
    size=$(wc -c <"$binary")
    say "$(basename "$unpacked"): the binary has $size bytes"
    [ "$size" -le 11000000 ] || fail "more than 11 MB (docs/decisions/0018-nats.md)"
    processor=$(basename "$unpacked" | sed 's/.*-\(.*\)-linux-musl$/\1/')
    if [ "$processor" = "$(uname -m)" ]; then
        sh scripts/check-static.sh "$binary"
    elif command -v "qemu-$processor" >/dev/null 2>&1; then
        sh scripts/check-static.sh "$binary" "qemu-$processor"
    else
        say "SKIPPED: $processor: qemu-$processor is missing (Debian: apt-get install qemu-user)"
    fi
done

[ "${DIST_CHECK_BUILD:-yes}" = yes ] || exit 0
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# A path with another length, of which no binary may know anything.
copy="$folder/another folder/sources"
mkdir -p "$copy" "$folder/cargo"
git ls-files -z | tar --null --files-from=- --create | tar --extract --directory "$copy"
for part in registry git; do
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/$part" ] ||
        ln -s "${CARGO_HOME:-$HOME/.cargo}/$part" "$folder/cargo/$part"
done
for file in config.toml config; do
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/$file" ] ||
        cp "${CARGO_HOME:-$HOME/.cargo}/$file" "$folder/cargo/$file"
done
processors=$(for archive in "$dist"/*-linux-musl.tar.gz; do
    basename "$archive" | sed 's/.*-\(.*\)-linux-musl.tar.gz$/\1/'
done)
CARGO_HOME="$folder/cargo" CARGO_TARGET_DIR="$folder/built" \
    DIST_PROCESSORS=$(echo "$processors" | tr '\n' ' ') sh "$copy/scripts/dist.sh"
# Packages that were made from these archives have sums in the same file.
grep 'linux-musl\.[a-z.]*$' "$dist/SHA256SUMS" | diff - "$folder/built/dist/SHA256SUMS" ||
    fail "a build in another folder gave other bytes"
say "a build in another folder gave the same bytes"
