#!/bin/sh
# Checks that a static binary works: check-static.sh BINARY [EMULATOR]
#
# Without an emulator it runs in a root folder that contains nothing but the binary and a script.
# With one (qemu-aarch64) it runs here, and without io_uring, which qemu does not emulate.
set -eu

fail() {
    printf '%s\n' "check-static: $*" >&2
    exit 1
}

skip() { printf '%s\n' "check-static: SKIPPED: $*"; }
passed() { printf '%s\n' "check-static: $*: works"; }

[ $# -ge 1 ] || fail "usage: check-static.sh BINARY [EMULATOR]"
binary=$1
emulator=${2:-}
[ -x "$binary" ] || fail "$binary is missing; run make dist"

folder=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cp "$binary" "$folder/wrkbench"
mkdir "$folder/lib"
cat >"$folder/numbers.lua" <<'END'
return { size = 100000 }
END
: >"$folder/lib/written_in_c.so"
cat >"$folder/check.lua" <<'END'
package.path = "./?.lua"
package.cpath = "./lib/?.so"
local size = require("numbers").size
local fine, message = pcall(require, "written_in_c")
assert(not fine and message:find("static build of wrkbench cannot load", 1, true), message)
-- Local time, without files of time zones.
assert(os.date("%H:%M", 0) == "05:30", os.date("%H:%M", 0))
local ffi = require("ffi")
ffi.cdef("int getpid(void);")
assert(ffi.C.getpid() > 0)

-- LuaJIT compiles the loop. The last string is too long.
local text, counts = string.rep("x", 10000), {}
for i = 1, 300 do
  counts[i] = i < 300 and 1 or 1000000
end
function fail_in_compiled_code()
  local sum = 0
  for i = 1, #counts do
    sum = sum + #string.rep(text, counts[i])
  end
  return sum
end

function request()
  return wrk.format("GET", "/?size=" .. size)
end

function response(status, headers, body)
  assert(status == 200 and #body == size)
  assert(not pcall(fail_in_compiled_code))
end

function done(summary)
  print("requests: " .. summary.requests)
end
END

export TZ=IST-5:30

# What starts the program, in the empty root or emulated. With exec, so that `$!` is the program.
program() {
    cd "$folder"
    if [ -n "$emulator" ]; then
        exec "$emulator" ./wrkbench "$@"
    elif [ "$(id -u)" -eq 0 ]; then
        exec chroot . /wrkbench "$@"
    else
        exec unshare --map-root-user chroot . /wrkbench "$@"
    fi
}

# Starts a server and sets `url`.
serve() {
    [ -z "$server" ] || kill "$server"
    : >"$folder/served"
    (program serve --listen 127.0.0.1:0 "$@" >"$folder/served") &
    server=$!
    for _ in $(seq 100); do
        url=$(sed -n 's/^serving //p' "$folder/served")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || fail "the server ended at once"
        sleep 0.1
    done
    fail "the server does not say where it listens"
}

# check WHAT ARGUMENT...: a run of 200 requests with the script, all of which are answered.
check() {
    what=$1
    shift
    output=$(program -t1 -c2 -n200 -s check.lua "$@" "$url" 2>&1) || fail "$what: $output"
    case $output in
    *"requests: 200"*) passed "$what" ;;
    *) fail "$what: not all requests were answered: $output" ;;
    esac
}

version=$(program --version) || fail "the program does not start"
passed "$version"

serve --io epoll
check "Lua on epoll" --io epoll
if [ -n "$emulator" ]; then
    skip "io_uring: $emulator does not emulate it"
elif (program -t1 -c1 -n1 --io uring "$url") >/dev/null 2>&1; then
    check "Lua on io_uring" --io uring
else
    skip "io_uring: this kernel does not allow it"
fi

serve --io epoll --tls
check "TLS" --io epoll
if (program -t1 -c1 -n1 --verify "$url") >/dev/null 2>&1; then
    fail "--verify accepts a certificate that nobody has signed"
fi
passed "--verify refuses the server's certificate"
if command -v openssl >/dev/null 2>&1; then
    (
        cd "$folder"
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
            -keyout authority.key -out authority.pem
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=server \
            -CA authority.pem -CAkey authority.key -addext basicConstraints=critical,CA:FALSE \
            -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem
    ) >"$folder/openssl" 2>&1 || fail "openssl makes no certificate: $(cat "$folder/openssl")"
    serve --io epoll --tls --cert "cert.pem" --key "key.pem"
    export SSL_CERT_FILE=authority.pem
    check "TLS with the system's certificates" --io epoll --verify
else
    skip "system certificates: openssl is missing"
fi
