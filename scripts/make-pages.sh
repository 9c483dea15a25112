#!/bin/sh
# make-pages.sh WRKBENCH FOLDER: makes runs against the built-in server and creates the report pages
# that the browser tests open: FOLDER/reports/{run,runs,sweep,tokens}.html. Only uses loopback;
# takes about 25 seconds.
set -eu

wrkbench=$(realpath "$1")
mkdir -p "$2"
folder=$(cd "$2" && pwd)
rm -rf "$folder/runs" "$folder/reports" "$folder/journal"
mkdir -p "$folder/runs" "$folder/reports"
cd "$folder/runs"

server=
finish() { [ -z "$server" ] || kill "$server" 2>/dev/null || :; }
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Its first line says where it listens.
mkfifo said
"$wrkbench" serve --listen 127.0.0.1:0 --answer 'size=2k&delay=lognormal:3ms,0.5' \
    --stall 1500ms,500ms >said 2>serve.log &
server=$!
read -r line <said || { cat serve.log >&2; exit 1; }
url=${line#serving }
port=${url##*:}
port=${port%/}

# Shows the notes of a run only if it fails.
measure() {
    "$wrkbench" -t1 "$@" "$url" >text 2>notes || { cat notes >&2; exit 1; }
}

# Responses come too late during the stall, so this run has errors.
measure -c32 -d3s --timeout 250ms --breakout --sockets "dport = :$port" --interval 250ms \
    --counters --json first.json
measure -c64 -d1s --json second.json
measure -c16 -d1s -R 500 --json third.json

cat >plan.toml <<END
name    = "connections, for the browser tests"
rounds  = 5
results = "sweep"

[load]
threads  = 1
duration = "200ms"

[[target]]
name = "built-in"
url  = "$url"

[[factor]]
connections = [1, 2, 4, 8, 16, 32, 64]

[telemetry]
sockets  = "dport = :$port"
interval = "50ms"
counters = true
END
"$wrkbench" sweep plan.toml --quiet --journal "$folder/journal" >text 2>notes || {
    cat notes >&2
    exit 1
}

# A stream of tokens over the same server: it is not stalled any more.
"$wrkbench" sweep -L connections 1,4,16 --rounds 5 -t1 -d500ms --events llm \
    --good 'first_token<80ms, time_per_token<8ms' --results tokens --quiet \
    --journal "$folder/journal" -o "$folder/reports/tokens.html" \
    "${url}?llm=openai&tokens=uniform:4,12&first=exp:20ms&gap=2ms&batch=4" >text 2>notes || {
    cat notes >&2
    exit 1
}

page() {
    output=$folder/reports/$1.html
    shift
    "$wrkbench" report -o "$output" "$@" 2>notes || { cat notes >&2; exit 1; }
}
page run first.json
page runs first.json second.json third.json
page sweep sweep
