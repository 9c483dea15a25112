#!/bin/sh
# The steps of the GitHub Action (action.yml), one function each. What a workflow gives as inputs
# arrives in environment variables and is only ever used as one argument, never as code.
set -eu

# Below the runner's temporary folder, which is new for each job.
program=${RUNNER_TEMP:?is set by the runner}/wrkbench/bin/wrkbench
results=$RUNNER_TEMP/wrkbench-results

fail() {
    # A workflow command: the runner shows it as an annotation.
    printf '::error title=wrkbench::%s\n' "$*"
    exit 1
}

# Runs a command with the conditions of the input as its last options.
with_conditions() {
    while IFS= read -r line; do
        [ -z "$line" ] || set -- "$@" "--fail-if=$line"
    done <<LINES
$FAIL_IF
LINES
    "$@"
}

# Installs the version that belongs to this copy of the action, or the wanted one. With BINARY,
# a program that is already there.
install() {
    mkdir -p "$results"
    if [ -n "$BINARY" ]; then
        mkdir -p "${program%/*}"
        [ -x "$BINARY" ] || fail "$BINARY (input binary) is not a program"
        ln -sf "$(realpath "$BINARY")" "$program"
        return
    fi
    # shellcheck disable=SC2153 # a different variable
    version=$VERSION
    if [ -z "$version" ]; then
        version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$ACTION_PATH/Cargo.toml" | head -n 1)
    fi
    set -- --prefix "$RUNNER_TEMP/wrkbench"
    [ "$version" = latest ] || set -- "$@" --version "$version"
    sh "$ACTION_PATH/packaging/install.sh" "$@" || fail "wrkbench $version cannot be installed"
}

# Refuses a line with several options, or with an option and its value as two words: the line is
# one argument, in which only the value of --name=VALUE or -NVALUE can have spaces.
check_option() {
    # Without spaces at the end.
    words=${1%"${1##*[! ]}"}
    case $words in
    *\ *) ;;
    *) return 0 ;;
    esac
    # A header or a body may be anything.
    case $words in
    --header=* | --body=* | -H[!\ ]*) return 0 ;;
    --*=*)
        case $words in
        *\ -*) ;;
        *) return 0 ;;
        esac
        ;;
    esac
    fail "the input options takes one option per line, like -c64 or --rate=500," \
        "and this line has more: $1"
}

# Makes the run. The step succeeds also if a condition holds, so that the report follows; the exit
# code is an output.
load() {
    case $URL in
    "") fail "the input url is empty" ;;
    -*) fail "the input url is an option: $URL" ;;
    esac
    set --
    while IFS= read -r line; do
        if [ -n "$line" ]; then
            check_option "$line"
            set -- "$@" "$line"
        fi
    done <<LINES
$OPTIONS
LINES
    result=$results/result.json
    rm -f "$result"
    code=0
    with_conditions "$program" run "$@" "--json=$result" "$URL" || code=$?
    echo "exit-code=$code" >>"$GITHUB_OUTPUT"
    [ -s "$result" ] || fail "the run ended with exit code $code and without a result"
    echo "result=$result" >>"$GITHUB_OUTPUT"
}

# Annotations, the job's summary, and the page.
report() {
    result=$results/result.json
    page=$results/report.html
    # Exit code 2 says that a condition holds, which the last step reports.
    code=0
    with_conditions "$program" report "$result" --format github || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 2 ] || fail "report --format github: exit code $code"
    code=0
    # What is on stderr was printed by the step before.
    with_conditions "$program" report "$result" --format md >>"$GITHUB_STEP_SUMMARY" 2>/dev/null ||
        code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 2 ] || fail "report --format md: exit code $code"
    "$program" report "$result" --output "$page" >/dev/null
    echo "page=$page" >>"$GITHUB_OUTPUT"
}

# Ends the job with the exit code of the run.
judge() {
    case $EXIT_CODE in
    0) ;;
    2) echo "wrkbench: a condition of fail-if holds, or cannot be judged (exit code 2)" ;;
    *) echo "wrkbench: the run ended with exit code $EXIT_CODE" ;;
    esac
    exit "$EXIT_CODE"
}

case ${1:-} in
install | load | report | judge) "$1" ;;
*) fail "steps.sh: unknown step ${1:-}" ;;
esac
