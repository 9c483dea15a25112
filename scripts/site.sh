#!/bin/sh
# Builds the site of docs/ in target/site with mdBook, and looks for dead links in it. mdBook is
# taken from PATH, else built below target/tools. docs/decisions/0027-site.md says why mdBook.
#
# Its contents are those of docs/README.md, and the decisions. Links to files outside docs/ lead to
# the repository that Cargo.toml names.
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
target=$(mkdir -p "$target" && cd "$target" && pwd)
tools=$target/tools
version=0.5.4

say() { printf '%s\n' "site: $*"; }

command -v python3 >/dev/null || {
    say "python3 is missing, which looks for dead links; on Debian: apt-get install python3" >&2
    exit 1
}
PATH="$tools/bin:$PATH"
if ! command -v mdbook >/dev/null 2>&1; then
    say "installing mdbook $version"
    # A debug build takes a third of the time and is fast enough.
    "$CARGO" install mdbook --version "$version" --locked --debug --quiet --root "$tools" \
        --target-dir "$tools/build"
    rm -rf "$tools/build"
fi

home=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)
book=$target/book
rm -rf "$book" "$target/site"
mkdir -p "$book/src/decisions"
cp packaging/site/book.toml "$book"
cp -r docs/pictures docs/*.schema.json "$book/src"

# Copies a page. Arguments: the page, and the path from its folder to the root of the repository.
# mdBook calls README.md index.
page() {
    sed -e "s|](decisions/)|]($home/tree/main/docs/decisions)|g" \
        -e "s|]($2|]($home/blob/main/|g" \
        -e 's|](\(\(\.\./\)*\)README\.md|](\1index.md|g' "$1" >"$book/src/${1#docs/}"
}
for path in docs/*.md; do page "$path" ../; done
for path in docs/decisions/*.md; do page "$path" ../../; done

{
    echo '[wrkbench](README.md)'
    # Headings become parts, entries of lists become pages without what is said about them.
    sed -n 's/^## \(.*\)/\n# \1\n/p
        s/^\(-\|[0-9]*\.\) \(\[[^]]*\]([a-z0-9-]*\.md)\).*/- \2/p' docs/README.md
    echo '- [Decisions]()'
    for path in docs/decisions/*.md; do
        sed -n "1s|^# \(.*\)|    - [\1](${path#docs/})|p" "$path"
    done
} >"$book/src/SUMMARY.md"

export MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL="$home"
# The page for wrong addresses is shown below any path, so its links begin at the root.
export MDBOOK_OUTPUT__HTML__SITE_URL="/${home##*/}/"
mdbook build "$book" --dest-dir "$target/site"
python3 scripts/check-site.py "$target/site"
