#!/bin/sh
# Runs a command, prints what it prints, and ends with a line that says how many tests of cargo's
# test programs passed. Exits with the code of the command.
#
#     sh scripts/count-tests.sh cargo test
said=$(mktemp)
trap 'rm -f "$said"' EXIT
{ "$@" 2>&1 && echo 0 >"$said.code" || echo $? >"$said.code"; } | tee "$said"
code=$(cat "$said.code" 2>/dev/null || echo 1)
rm -f "$said.code"
awk '
    /^test result: / {
        for (i = 2; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
        }
    }
    # Cargo counts a test that skips itself as passed. `require` in crates/testkit prints this line.
    sub(/^.*SKIPPED /, "") { sub(/: it needs .*/, ""); skipped += !($0 in seen); seen[$0] }
    END {
        printf "\ntests: %d passed, %d failed", passed - skipped, failed
        if (skipped) printf ", %d skipped", skipped
        print ""
    }
' "$said"
exit "$code"
