#!/bin/sh
# Opens report pages in a headless Chromium: the catalogue page, and pages of runs made here against
# the built-in server. Screenshots go to target/screenshots.
#
# Without Chromium, Node.js, playwright-core or axe-core, and no way to install them, says so and
# succeeds. With CI=true that is a failure, unless WRKBENCH_MAY_SKIP contains `browser`.
set -eu

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
tests=crates/report/tests/browser
# The oldest version that the tests and playwright-core work with.
node_least=18

say() { printf '%s\n' "test-browser: $*"; }

skip() {
    say "SKIPPED: $*"
    case ,${WRKBENCH_MAY_SKIP:-}, in
    *,browser,*) exit 0 ;;
    esac
    [ "${CI:-}" != true ] || exit 1
    exit 0
}

has() { command -v "$1" >/dev/null 2>&1; }

find_chromium() {
    for name in "${WRKBENCH_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser \
        google-chrome; do
        if [ -n "$name" ] && has "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

chromium=$(find_chromium) || skip "no Chromium (Debian: apt-get install chromium-headless-shell)"
has node || skip "no Node.js (Debian: apt-get install nodejs)"
node_major=$(node -p 'process.versions.node.split(".")[0]')
[ "$node_major" -ge "$node_least" ] || skip "Node.js $node_major is too old (needs $node_least)"

wanted=$(cksum <"$tests/package-lock.json")
installed="$tests/node_modules/.installed"
if [ ! -f "$installed" ] || [ "$(cat "$installed")" != "$wanted" ]; then
    has npm || skip "no npm to install playwright-core and axe-core (Debian: apt-get install npm)"
    say "installing playwright-core and axe-core"
    (cd "$tests" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null) \
        >/dev/null 2>&1 || skip "npm cannot install playwright-core and axe-core (npm ci in $tests)"
    printf '%s\n' "$wanted" >"$installed"
fi

mkdir -p "$target/browser"
pages=$(cd "$target/browser" && pwd)
target=$(cd "$target" && pwd)
"$CARGO" build --locked --quiet -p report --example catalogue_page
"$target/debug/examples/catalogue_page" "$pages/catalogue.html"
"$CARGO" build --locked --quiet -p wrkbench
sh scripts/make-pages.sh "$target/debug/wrkbench" "$pages"

export WRKBENCH_CHROMIUM="$chromium"
export WRKBENCH_CATALOGUE="$pages/catalogue.html"
export WRKBENCH_PAGES="$pages/reports"
export WRKBENCH_SCREENSHOTS="$target/screenshots"
cd "$tests"
exec node --test --test-reporter=spec .
