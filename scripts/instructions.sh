#!/bin/sh
# Counts the instructions per request in user mode, with callgrind, and compares them with the
# limits in bench/instructions.txt. On a shared machine, times vary too much to show growth of a few
# percent. Instructions vary by less than one percent.
#
# usage: scripts/instructions.sh [WRKBENCH]
set -eu
cd "$(dirname "$0")/.."
wrkbench=${1:-${CARGO_TARGET_DIR:-target}/release/wrkbench}
limits=bench/instructions.txt
# Starting and ending the program cancel out in the difference of two runs. A histogram that gets
# its first sample in only one of them adds 270,000 instructions, which is 4 per request.
few=10000
many=80000
# If the server is slow to respond, the client makes more system calls per request. So a row above
# its limit is counted again, and its smallest count is used.
attempts=3

fail() {
    printf '%s\n' "instructions: $*" >&2
    exit 1
}

command -v valgrind >/dev/null || fail "valgrind is missing; on Debian: apt-get install valgrind"
[ -x "$wrkbench" ] || fail "$wrkbench is not built; run make first"
[ "$(uname -m)" = x86_64 ] || fail "the limits are for x86_64, and this is $(uname -m)"

folder=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$wrkbench" serve --listen 127.0.0.1:0 >"$folder/server" 2>&1 &
server=$!
url=
until [ -n "$url" ]; do
    kill -0 "$server" 2>/dev/null || fail "the server has ended: $(cat "$folder/server")"
    url=$(sed -n 's|^.*\(http://127\.0\.0\.1:[0-9]*\).*$|\1|p' "$folder/server" | head -n 1)
    [ -n "$url" ] || sleep 0.1
done

# The instructions of the worker thread's loop in a run: count REQUESTS OPTION...
# What is done per second or per new maximum, and not per request, is left out. Under valgrind, a
# second has few requests, and the busier the machine is, the fewer there are. Each option switches
# counting on or off while its function runs: the end of the window closes the last second outside
# the loop, so it is named too. (callgrind takes only one pattern that starts with
# "*engine::worker".)
count() {
    requests=$1
    shift
    rm -f "$folder"/threads*
    valgrind --tool=callgrind --callgrind-out-file="$folder/threads" --separate-threads=yes \
        --collect-atstart=no --toggle-collect='*engine::worker::Worker*::drive' \
        --toggle-collect='*>::end_window' \
        --toggle-collect='*close_latency_interval*' \
        --toggle-collect='*hdrhistogram::Histogram*record_n_inner*' \
        "$wrkbench" --io epoll --warmup 0s -n "$requests" "$@" >"$folder/run" 2>&1 ||
        fail "the run failed: $(cat "$folder/run")"
    # The thread of the worker has most of them. The others do their work once a second.
    collected=$(sed -n 's/^totals: *\([0-9]*\).*$/\1/p' "$folder"/threads* | sort -n | tail -n 1)
    [ "${collected:-0}" -gt 0 ] ||
        fail "no instruction was counted; is the worker's loop still Worker::drive?"
    printf '%s\n' "$collected"
}

failed=0
printf '%-16s %12s %8s\n' row instructions limit
while read -r name limit path options; do
    case $name in '' | '#'*) continue ;; esac
    smallest=
    attempt=0
    while [ "$attempt" -lt "$attempts" ]; do
        attempt=$((attempt + 1))
        # Options are words without blanks.
        # shellcheck disable=SC2086
        first=$(count "$few" $options "$url$path")
        # shellcheck disable=SC2086
        second=$(count "$many" $options "$url$path")
        each=$(((second - first) / (many - few)))
        [ -n "$smallest" ] && [ "$smallest" -le "$each" ] || smallest=$each
        [ $((smallest * 100)) -gt $((limit * 102)) ] || break
    done
    verdict=
    if [ $((smallest * 100)) -gt $((limit * 102)) ]; then
        verdict='  more than 2 % above the limit'
        failed=1
    elif [ $((smallest * 100)) -lt $((limit * 95)) ]; then
        verdict="  lower the limit in $limits"
    fi
    printf '%-16s %12s %8s%s\n' "$name" "$smallest" "$limit" "$verdict"
done <"$limits"
exit "$failed"
