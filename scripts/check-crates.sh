#!/bin/sh
# Runs `cargo install wrkbench` in an empty folder, as if the packages of `make crates` were on
# crates.io, and tries the installed program: everything that the program needs is in the packages.
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
packages=$(cd "${CARGO_TARGET_DIR:-target}/crates" && pwd)

fail() {
    printf '%s\n' "check-crates: $*" >&2
    exit 1
}

set -- "$packages/package"/wrkbench-[0-9]*.crate
[ -f "$1" ] || fail "there are no packages in $packages/package: run make crates first"
version=${1##*/wrkbench-}
version=${version%.crate}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp -R "$packages/workspace" "$work/workspace"

# A folder that stands for crates.io: the sources of all dependencies, and of our packages.
"$CARGO" vendor --quiet --locked --manifest-path "$work/workspace/Cargo.toml" "$work/registry" \
    >/dev/null
for package in "$packages/package"/*.crate; do
    name=${package##*/}
    name=${name%.crate}
    tar -xzf "$package" -C "$work/registry"
    printf '{"files":{},"package":"%s"}\n' "$(sha256sum "$package" | cut -d' ' -f1)" \
        >"$work/registry/$name/.cargo-checksum.json"
done
rm -rf "$work/workspace"
mkdir "$work/empty"
cat >"$work/config.toml" <<CONFIG
[source.crates-io]
replace-with = "packages"
[source.packages]
directory = "$work/registry"
CONFIG

cd "$work/empty"
# A debug build proves the same in a third of the time.
"$CARGO" install wrkbench --version "$version" --locked --offline --debug --root "$work/installed" \
    --target-dir "$packages/install" --config "$work/config.toml"
"$work/installed/bin/wrkbench" --version
# The page has parts from files, which must be in the package.
"$work/installed/bin/wrkbench" demo >"$work/demo.txt" 2>&1 || {
    cat "$work/demo.txt" >&2
    fail "the demo failed"
}
"$work/installed/bin/wrkbench" report demo-result.json -o page.html >/dev/null
grep -q uPlot page.html || fail "the page has no charts"
printf '%s\n' "check-crates: cargo install wrkbench --version $version --locked works"
