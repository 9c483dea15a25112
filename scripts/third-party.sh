#!/bin/sh
# Prints which crates the program contains, their licences, and the texts that these want kept with
# copies of the program. Texts that several crates share are printed once. The licences of files in
# the repository that others wrote follow.
#
# third-party.sh x86_64|aarch64 does so for a static binary, which also contains musl and Rust's
# standard library. (LLVM's libunwind, which is in it too, wants no text kept.)
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src

fail() {
    printf '%s\n' "third-party: $*" >&2
    exit 1
}

processor=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/texts"

section() {
    printf '\n%s\n%s\n' "================================================================" "$1"
    printf '%s\n\n' "----------------------------------------------------------------"
}

# Build dependencies too: the sources of LuaJIT are one. Our own crates are those with a path.
set -- -p wrkbench --locked --edges normal,build --prefix none
[ -z "$processor" ] || set -- "$@" --target "$processor-unknown-linux-musl"
"$CARGO" tree "$@" --format '{p}|{l}' |
    grep -v '(/' | sed 's/ (proc-macro)//; s/ (\*)//' | sort -u >"$work/crates"
[ -s "$work/crates" ] || fail "cargo tree names no crates"

cat <<'TEXT'
wrkbench contains the following crates. Where a licence offers a choice, any of them may be chosen.

TEXT
while IFS='|' read -r crate licence; do
    printf '%s: %s\n' "$crate" "$licence"
    name=${crate% v*}
    set -- "$sources"/*/"$name-${crate##* v}"
    [ -d "$1" ] || fail "the sources of $crate are not in $sources: run cargo fetch --locked"
    # Blanks at the ends of lines make no other text.
    find "$1" -maxdepth 2 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' \
        -o -iname 'copyright*' -o -iname 'notice*' \) ! -name '*.rs' | LC_ALL=C sort |
        while IFS= read -r file; do
            sed 's/[[:space:]]*$//' "$file" >"$work/text"
            sum=$(sha256sum "$work/text" | cut -d' ' -f1)
            [ -e "$work/texts/$sum" ] || mv "$work/text" "$work/texts/$sum"
            printf '%s\n' "$crate" >>"$work/texts/$sum.crates"
        done
done <"$work/crates"

for users in "$work/texts"/*.crates; do
    section "$(LC_ALL=C sort -u "$users" | paste -s -d, - | sed 's/,/, /g' | fold -s -w 100)"
    cat "${users%.crates}"
done

for licence in crates/report/assets/vendor/*/LICENSE; do
    folder=$(dirname "$licence")
    section "$(sed -n '1s/^# //p' "$folder/README.md")"
    cat "$licence"
done

[ -n "$processor" ] || exit 0
sh scripts/static-cargo.sh "$processor" notices >"$work/notices"
section "musl, Rust's standard library"
while IFS= read -r file; do
    [ -r "$file" ] || fail "$file is missing, which must come with a static binary"
    # One of them is HTML.
    sed -e 's/<[^>]*>//g' -e 's/&#34;/"/g' -e "s/&#39;/'/g" -e 's/&#60;/</g' \
        -e 's/&#62;/>/g' -e 's/[[:space:]]*$//' "$file" | cat -s
done <"$work/notices"
