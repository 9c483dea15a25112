#!/bin/sh
# Takes the pictures of the documents from real runs on loopback: docs/pictures/*.png.
# Needs tmux, node and Chromium; takes three minutes. `make pictures` builds the program first.
set -eu

cd "$(dirname "$0")/.."
wrkbench=$(realpath "${WRKBENCH:-target/release/wrkbench}")
pictures=$PWD/docs/pictures
scripts=$PWD/scripts

for program in tmux node; do
    command -v "$program" >/dev/null || { echo "pictures: $program is missing" >&2; exit 1; }
done
for name in chromium-headless-shell chromium chromium-browser; do
    chromium=$(command -v "$name") && break
done
[ -n "$chromium" ] || { echo "pictures: Chromium is missing" >&2; exit 1; }

work=$(mktemp -d)
mkdir -p "$pictures"
server=
tmux_socket=$work/tmux
finish() {
    tmux -S "$tmux_socket" kill-server 2>/dev/null || :
    [ -z "$server" ] || kill $server 2>/dev/null || :
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"

# Arguments: the page, the picture, its width and height in CSS pixels, the scale.
photograph() {
    "$chromium" --no-sandbox --headless --disable-gpu --hide-scrollbars --virtual-time-budget=4000 \
        --force-device-scale-factor="$5" --window-size="$3,$4" --screenshot="$2" "file://$1" \
        2>"$work/chromium" || { cat "$work/chromium" >&2; exit 1; }
}

# Takes a picture of the text of a terminal, with its colours.
photograph_terminal() {
    size=$(node "$scripts/terminal-to-html.mjs" "$1" "$1.html")
    photograph "$work/$1.html" "$2" "${size% *}" "${size#* }" 1.5
}

# Starts a server with these options; sets `url`.
serve() {
    rm -f said
    mkfifo said
    "$wrkbench" serve --listen 127.0.0.1:0 "$@" >said 2>"$work/serve" &
    server="$server $!"
    read -r line <said
    url=${line#serving }
}
# Pictures show a usual address.
shown() { sed "s|${url%/}|http://127.0.0.1:8080|g"; }

# 1. The page of a sweep. The server handles one request at a time, so more connections only wait.
serve --queue --answer 'size=2k&delay=exp:1ms'
cat >plan.toml <<END
name = "How many connections?"
rounds = 5
seed = 1
results = "results"
threshold = "2%"
[load]
threads = 1
duration = "2s"
warmup = "1s"
[[target]]
name = "built-in server"
url = "$url"
[[factor]]
connections = [4, 8, 16, 32]
[telemetry]
sockets = "sport = :${url##*:}"
interval = "200ms"
END
sed -i 's|/"$|"|; s|:\([0-9]*\)/"|:\1"|' plan.toml
"$wrkbench" sweep plan.toml --journal "$work/journal" >sweep.txt 2>sweep.err || {
    cat sweep.err >&2
    exit 1
}
"$wrkbench" report results -o page.html
photograph "$work/page.html" "$pictures/page.png" 1200 1640 0.75

# 2. The live view after 18 seconds of a growing load.
serve --answer 'size=2k&delay=lognormal:3ms,0.5'
load="-t1 -c64 --stages 1k:4s,1k-6k:10s,6k:6s --tui '$url?mix=0.0001:reset'"
tmux -S "$tmux_socket" -f /dev/null new-session -d -x 110 -y 34 \
    "env LANG=C.UTF-8 TERM=tmux-256color COLORTERM=truecolor '$wrkbench' $load"
sleep 18
tmux -S "$tmux_socket" capture-pane -p -e | shown >live
photograph_terminal live "$pictures/live.png"

# 3. The verdict and the capacity of a sweep over the users of a language model's server, whose gaps
# grow with them.
serve --answer 'llm=openai&tokens=uniform:8,32&first=50ms&gap=5ms&batch=8'
"$wrkbench" sweep -L connections 1,2,4,8,16,32 --rounds 3 -t1 -d4s --warmup 1s --events llm \
    --good 'first_token<300ms, time_per_token<8ms' -o capacity.html --journal "$work/journal" \
    "$url" >capacity.txt 2>capacity.err || {
    cat capacity.err >&2
    exit 1
}
photograph "$work/capacity.html" "$pictures/capacity.png" 1200 1620 0.75

# 4. Why the slowest requests of a run were slow: 2 % of them wait before the server and in it.
serve
header='header=Server-Timing:total;dur='
cat >requests.jsonl <<END
{"path": "/?size=2k&delay=lognormal:2ms,0.3&${header}1.5,db;dur=1", "weight": 98}
{"path": "/?size=2k&delay=lognormal:30ms,0.3&${header}24,db;dur=22", "weight": 2}
END
"$wrkbench" -t1 -c32 -R1000 -d10s --request-file requests.jsonl --server-timing \
    --traceparent 1/10 --trace-url 'http://jaeger:16686/trace/{id}' --json slow.json "$url" \
    >slow.txt
"$wrkbench" report slow.json -o slow.html
# Headless Chromium draws the top of a page only.
node -e '
    const page = require("fs").readFileSync("slow.html", "utf8");
    const section = /<section id="([^"]*)"[^]*?<\/section>/g;
    process.stdout.write(page.replace(section, (text, id) => (id === "slowest" ? text : "")));
' >why.html
photograph "$work/why.html" "$pictures/why.png" 1200 900 0.75

ls -l "$pictures"
