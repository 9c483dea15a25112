#!/bin/sh
# Checks a dynamic binary: which libraries it needs, and that scripts can use Lua modules written in
# C: Debian's lua-socket and lua-cjson, and one that is compiled here.
#
# usage: scripts/check-dynamic.sh BINARY
#
# Modules that are not installed are taken out of Debian's packages (apt-get download), and nothing
# is installed.
set -eu

# The newest symbols of glibc that are allowed, those of Debian 12, Ubuntu 22.04 and RHEL 9.
newest_glibc=2.34

say() { printf '%s\n' "check-dynamic: $*"; }

fail() {
    say "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

[ $# -eq 1 ] || fail "usage: check-dynamic.sh BINARY"
binary=$(realpath "$1")
for tool in readelf cc; do
    has "$tool" || fail "$tool is missing: apt-get install build-essential"
done
folder=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$folder"

# Libraries that are on every system, and no others.
for library in $(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $library in
    libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux-*) ;;
    *) fail "the binary needs $library, which not every system has" ;;
    esac
done
newest=$(readelf --version-info "$binary" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' |
    sort -uV | tail -n 1)
[ -n "$newest" ] || fail "the binary is static"
[ "$(printf '%s\n' "$newest" "$newest_glibc" | sort -V | tail -n 1)" = "$newest_glibc" ] ||
    fail "the binary needs glibc $newest; build it on Debian 12 or Ubuntu 22.04 (glibc" \
        "$newest_glibc is allowed)"
say "needs glibc $newest"

# Modules: those of the system, or from packages.
if ! ls /usr/lib/*/lua/5.1/cjson.so /usr/lib/*/lua/5.1/socket/core.so >/dev/null 2>&1; then
    has apt-get && has dpkg || fail "lua-socket and lua-cjson are missing"
    (apt-get download -q lua-socket lua-cjson || {
        apt-get update -q && apt-get download -q lua-socket lua-cjson
    }) >apt.log 2>&1 || fail "apt-get has no lua-socket and lua-cjson: $(tail -n 1 apt.log)"
    for package in *.deb; do
        dpkg --extract "$package" packages
    done
    libraries=$(echo packages/usr/lib/*/lua/5.1)
    export LUA_CPATH="$folder/$libraries/?.so;$folder/?.so;;"
    export LUA_PATH="$folder/packages/usr/share/lua/5.1/?.lua;;"
else
    export LUA_CPATH="$folder/?.so;;"
fi

# A module of our own, which calls the interface of Lua that the program exports.
cat >own.c <<'END'
typedef struct lua_State lua_State;
extern double luaL_checknumber(lua_State *, int);
extern void lua_pushnumber(lua_State *, double);
extern void lua_pushcclosure(lua_State *, int (*)(lua_State *), int);
extern void lua_createtable(lua_State *, int, int);
extern void lua_setfield(lua_State *, int, const char *);
extern int luaL_error(lua_State *, const char *, ...);

static int half(lua_State *L) {
    double n = luaL_checknumber(L, 1);
    if (n < 0) return luaL_error(L, "negative: %d", (int)n);
    lua_pushnumber(L, n / 2);
    return 1;
}

int luaopen_own(lua_State *L) {
    lua_createtable(L, 0, 1);
    lua_pushcclosure(L, half, 0);
    lua_setfield(L, -2, "half");
    return 1;
}
END
cc -shared -fPIC -o own.so own.c || fail "the module cannot be compiled"

# A mixed workload: pages, searches, and orders whose bodies and answers are JSON.
cat >mixed.lua <<'END'
local cjson, socket, own = require("cjson"), require("socket"), require("own")
local url = require("socket.url")
local began = socket.gettime()
local n = 0

function setup(thread)
  thread:set("salt", 5)
end

function request()
  n = n + 1
  if n % 10 < 6 then
    return wrk.format("GET", "/?page=" .. n)
  elseif n % 10 < 9 then
    return wrk.format("GET", "/?q=" .. url.escape("a b&" .. n))
  end
  local order = cjson.encode({ id = n, at = socket.gettime(), items = { own.half(2 * n), salt } })
  assert(cjson.decode(order).items[1] == n)
  return wrk.format("POST", "/", { ["Content-Type"] = "application/json" }, order)
end

function response(status, headers, body)
  assert(status == 200, status)
  -- Errors of modules unwind through compiled code.
  local fine, message = pcall(own.half, -n)
  assert(not fine and message:find("negative: -", 1, true), message)
  fine, message = pcall(cjson.decode, "{broken")
  assert(not fine and message:find("Expected object key", 1, true), message)
end

function done(summary)
  assert(socket.gettime() > began)
  print("answered: " .. summary.requests)
end
END

"$binary" serve --listen 127.0.0.1:0 >served &
server=$!
for _ in $(seq 100); do
    site=$(sed -n 's/^serving //p' served)
    [ -z "$site" ] || break
    kill -0 "$server" 2>/dev/null || fail "the server ended at once"
    sleep 0.1
done
[ -n "$site" ] || fail "the server does not say where it listens"
for backend in epoll uring; do
    if ! "$binary" -t1 -c1 -n1 --io "$backend" "$site" >/dev/null 2>&1; then
        say "SKIPPED: $backend: this kernel does not allow it"
        continue
    fi
    output=$("$binary" -t2 -c4 -n3000 -s mixed.lua --io "$backend" "$site" 2>&1) ||
        fail "the mixed workload on $backend: $output"
    case $output in
    *"Non-2xx"* | *"Socket errors"*) fail "the mixed workload on $backend: $output" ;;
    *"answered: 3000"*) say "the mixed workload works on $backend" ;;
    *) fail "the mixed workload on $backend: not all requests were answered: $output" ;;
    esac
done
