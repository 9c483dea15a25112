#!/bin/sh
# Installs the Debian packages that tests need: other servers, wrk itself, tools.
#
# Does nothing if everything is installed. Starts no service and enables none: the tests start the
# servers themselves, with their own configuration and ports.
set -eu

PATH="$PATH:/usr/sbin:/sbin"

say() { printf '%s\n' "install-test-packages: $*"; }

fail() {
    printf '%s\n' "install-test-packages: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Debian names the binary after PHP's version: php-fpm8.2.
has_php_fpm() {
    has php-fpm && return 0
    for path in /usr/sbin/php-fpm[0-9]*; do
        [ -x "$path" ] && return 0
    done
    return 1
}

# Whether a Lua 5.1 module written in C is installed. Debian has a folder for each architecture.
has_lua_module() {
    for path in /usr/lib/lua/5.1/"$1" /usr/lib64/lua/5.1/"$1" /usr/lib/*/lua/5.1/"$1"; do
        [ -e "$path" ] && return 0
    done
    return 1
}

# Whether a Python that the tests try has a module. The first one may not be the distribution's.
has_python_module() {
    python3 -c "import $1" 2>/dev/null || /usr/bin/python3 -c "import $1" 2>/dev/null
}

# Prints the packages of programs that are missing.
missing_packages() {
    has nginx || echo nginx-light
    has_php_fpm || echo php-fpm
    has squid || echo squid
    has tinyproxy || echo tinyproxy
    has microsocks || echo microsocks
    has apache2 || echo apache2
    has nghttpd || echo nghttp2-server
    has haproxy || echo haproxy
    has caddy || echo caddy
    has h2o || echo h2o
    has gtlsserver || echo ngtcp2-server
    has nats-server || echo nats-server
    has prometheus || echo prometheus
    has gtlsclient || echo ngtcp2-client
    has wrk || echo wrk
    has openssl || echo openssl
    has curl || echo curl
    has jq || echo jq
    has strace || echo strace
    has valgrind || echo valgrind
    has taskset && has nsenter || echo util-linux
    has ip || echo iproute2
    has faketime || echo faketime
    has shellcheck || echo shellcheck
    has mandoc || echo mandoc
    has zsh || echo zsh
    has fish || echo fish
    has_lua_module socket/core.so || echo lua-socket
    has_lua_module cjson.so || echo lua-cjson
    has_python_module grpc || echo python3-grpcio
}

has_chromium() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        has "$name" && return 0
    done
    return 1
}

# Prints the packages that the browser tests would like: without them those are skipped. Of several
# names for one thing the first that can be had; nothing where none can.
browser_packages() {
    has apt-cache || return 0
    has node || available nodejs
    has npm || available npm
    has_chromium || available chromium-headless-shell chromium
}

available() {
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            echo "$package"
            return 0
        fi
    done
}

# Prints the systemd units of these servers.
server_units() {
    [ -d /run/systemd/system ] || return 0
    systemctl list-unit-files --no-legend --no-pager --plain \
        nginx.service apache2.service squid.service haproxy.service \
        tinyproxy.service microsocks.service \
        caddy.service h2o.service nats-server.service 'php*-fpm.service' 2>/dev/null |
        cut -d' ' -f1
}

# Runs a command as root; without a terminal sudo must not ask for a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# invoke-rc.d asks policy-rc.d whether a package may start its service; 101 means no. A policy of
# the machine stays if it forbids that too. Otherwise it is replaced, and restored afterwards.
POLICY=/usr/sbin/policy-rc.d
forbid_services() {
    if [ -x "$POLICY" ]; then
        answer=0
        "$POLICY" nginx start >/dev/null 2>&1 || answer=$?
        [ "$answer" -ne 101 ] || return 0
        as_root mv "$POLICY" "$POLICY.before-wrkbench"
    fi
    printf '#!/bin/sh\nexit 101\n' >"$workdir/policy-rc.d"
    as_root install -m 755 "$workdir/policy-rc.d" "$POLICY"
    policy_placed=yes
}

restore_policy() {
    if [ "$policy_placed" = yes ]; then
        policy_placed=no
        as_root rm -f "$POLICY"
        if [ -e "$POLICY.before-wrkbench" ]; then
            as_root mv "$POLICY.before-wrkbench" "$POLICY"
        fi
    fi
    rm -rf "$workdir"
}

# The package lists may be missing or old: tries once as they are, and again after an update.
install_packages() {
    # shellcheck disable=SC2086 # one word per package
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends $packages </dev/null && return 0
    say "trying again after apt-get update"
    as_root apt-get update -q </dev/null || return 1
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends $packages </dev/null
}

# The new servers must not take port 80 when the machine starts again.
disable_new_units() {
    for unit in $(server_units); do
        case " $units_before " in
        *" $unit "*) ;;
        *)
            as_root systemctl disable --quiet "$unit"
            say "$unit is installed but not enabled"
            ;;
        esac
    done
}

# The packages of the browser tests. Failing to install them is no error here.
install_for_browser() {
    packages=$(browser_packages | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    say "installing for the browser tests: $packages"
    install_packages || say "apt-get could not install $packages: browser tests cannot run"
}

may_install() {
    has apt-get && { [ "$(id -u)" -eq 0 ] || { has sudo && as_root true 2>/dev/null; }; }
}

packages=$(missing_packages | tr '\n' ' ')
if [ -z "$packages" ]; then
    if may_install; then
        install_for_browser
    fi
    say "everything is installed"
    exit 0
fi
if ! has apt-get; then
    fail "missing: $packages (names of Debian packages). Use the package manager of this system"
fi

if [ "$(id -u)" -ne 0 ] && ! has sudo; then
    fail "missing: $packages. Run this as root: apt-get install $packages"
fi
as_root true || fail "sudo refused. Install as root: apt-get install $packages"

say "installing: $packages"
policy_placed=no
workdir=$(mktemp -d)
trap restore_policy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
units_before=$(server_units | tr '\n' ' ')
forbid_services
install_packages || fail "apt-get could not install: $packages. See its message above"
disable_new_units

packages=$(missing_packages | tr '\n' ' ')
[ -z "$packages" ] || fail "still missing after the installation: $packages"
install_for_browser
say "done"
