#!/bin/sh
# Makes the packages for crates.io: target/crates/package/*.crate, from a copy of the workspace.
#
# The crates have short names here, many of which are taken on crates.io. In the copy `plan` is
# called `wrkbench-plan`, with `[lib] name = "plan"`, so that its code stays as it is. Tests and
# what only tests use are left out. docs/decisions/0015-packages.md says why.
#
# With `--publish`, uploads them after a dry run; needs a token of crates.io (cargo login).
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
mkdir -p "${CARGO_TARGET_DIR:-target}/crates"
out=$(cd "${CARGO_TARGET_DIR:-target}/crates" && pwd)
copy=$out/workspace

fail() {
    printf '%s\n' "make crates: $*" >&2
    exit 1
}

# The crates that the program contains, by the names of their folders.
used=$("$CARGO" tree -p wrkbench --locked --edges normal --prefix none --format '{p}' |
    sed -n 's|.*/crates/\([a-z]*\)).*|\1|p' | sort -u)
[ -n "$used" ] || fail "cargo tree names no crates"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

rm -rf "$copy"
mkdir -p "$copy/crates"
cp Cargo.lock "$copy/"
for name in $used; do
    folder=$copy/crates/$name
    mkdir "$folder"
    for part in src assets templates build.rs lua-symbols.txt; do
        [ ! -e "crates/$name/$part" ] || cp -R "crates/$name/$part" "$folder/"
    done
    cp LICENSE-APACHE LICENSE-MIT "$folder/"
done
cp README.md "$copy/"
# Whatever else a crate comes with must be in the list above.
for path in crates/*/*; do
    case ${path##*/} in
    Cargo.toml | src | assets | templates | build.rs | lua-symbols.txt) ;;
    tests | examples | benches) ;;
    *) fail "$path: is it part of the package? Name it in scripts/crates.sh" ;;
    esac
done

# The manifest of the workspace: its members, their names on crates.io and exact versions.
awk -v used="$(echo "$used" | tr '\n' ' ')" -v version="$version" '
    BEGIN { count = split(used, names, " "); for (i = 1; i <= count; i++) is_used[names[i]] = 1 }
    /^members = / { print "members = [\"crates/*\"]"; in_members = 1; next }
    in_members { if (/^\]/) in_members = 0; next }
    /^publish = / { next }
    /= \{ path = "crates\// {
        if (!($1 in is_used)) next
        printf "%s = { path = \"crates/%s\", package = \"wrkbench-%s\", version = \"=%s\"", \
            $1, $1, $1, version
        # What else was said about it, as default-features.
        rest = $0; sub(/^[^"]*"[^"]*"/, "", rest); print rest
        next
    }
    { print }
' Cargo.toml >"$copy/Cargo.toml"

for name in $used; do
    awk -v name="$name" '
        /^\[/ {
            skipped = /^\[(dev-dependencies|\[test\]|\[bench\]|\[example\])/
            if (section == "[package]") end_of_package()
            section = $0
        }
        function end_of_package() {
            if (name == "cli") return
            if (!described)
                print "description = \"A part of wrkbench, without a stable interface.\""
            print "repository.workspace = true\n"
            print "[lib]\nname = \"" name "\"\n"
        }
        skipped { next }
        /^publish/ { next }
        section == "[package]" && /^repository/ && name != "cli" { next }
        section == "[package]" && /^description/ { described = 1 }
        section == "[package]" && /^name = / && name != "cli" { sub(/"/, "\"wrkbench-") }
        section == "[package]" && /^$/ { next }
        { print }
    ' "crates/$name/Cargo.toml" >"$copy/crates/$name/Cargo.toml"
done
# Profiles of a dependency do not count: the program is built with those of its own manifest.
{
    echo
    sed -n '/^\[profile\.release\]/,/^$/p' Cargo.toml
    awk -v used="$(echo "$used" | tr '\n' ' ')" '
        BEGIN { count = split(used, names, " "); for (i = 1; i <= count; i++) ours[names[i]] = 1 }
        /^\[/ { wanted = /^\[profile\.release\.package\]/ }
        /^$/ { wanted = 0 }
        wanted && $1 in ours { $0 = "wrkbench-" $0 }
        wanted { print }
    ' Cargo.toml
} >>"$copy/crates/cli/Cargo.toml"

# Names only change: no version of a dependency may.
cd "$copy"
"$CARGO" metadata --format-version 1 >/dev/null
others() { awk '/^name/ { n = $3 } /^version/ { v = $3 } /^source/ { print n, v }' "$1" | sort; }
others Cargo.lock >"$out/packaged.txt"
others "$OLDPWD/Cargo.lock" >"$out/locked.txt"
new=$(comm -23 "$out/packaged.txt" "$out/locked.txt")
[ -z "$new" ] || fail "these versions are not in Cargo.lock: $new"

if [ "${1:-}" = --publish ]; then
    "$CARGO" publish --workspace --locked --allow-dirty --dry-run --target-dir "$out"
    exec "$CARGO" publish --workspace --locked --allow-dirty --target-dir "$out"
fi
rm -rf "$out/package"
"$CARGO" package --workspace --locked --allow-dirty --no-verify --target-dir "$out"
ls "$out/package"/*.crate
