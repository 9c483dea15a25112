#!/bin/sh
# The part of scripts/check-deb.sh that runs in the chroot: up to a power cut, and after the boot.
set -eu

phase=${1:?usage: check-deb-inside.sh before-boot|after-boot}

# Fails with what a command has written to a file.
fail_with() {
    cat "$1" >&2
    shift
    fail "$@"
}

step() { printf '%s\n' "check-deb: $*"; }

fail() {
    printf '%s\n' "check-deb: $*" >&2
    exit 1
}

# All files but those that dpkg, man-db and systemd keep for themselves: name, mode, owner, and a
# sum of contents.
state() {
    find / -xdev \( -path /proc -o -path /dev -o -path /check -o -path /run -o -path /tmp \
        -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg \
        -o -path /var/lib/systemd/timers \) -prune -o -printf '%p %M %u:%g %l\n' | sort
    find /etc /usr /var/lib -xdev \( -path /var/lib/dpkg -o -path /var/lib/systemd/catalog \
        -o -path /var/lib/systemd/timers \) -prune -o -type f -print |
        sort | xargs -d '\n' sha256sum
}

cd /check
journal=/var/lib/wrkbench/restore/journal
unit=wrkbench-restore.service
enabled=/etc/systemd/system/multi-user.target.wants/$unit

# Starts the built-in server, and waits until it serves.
serve() {
    : >served.txt
    wrkbench serve --listen 127.0.0.1:8080 >served.txt &
    server=$!
    for _ in $(seq 100); do
        grep -q serving served.txt && return
        sleep 0.1
    done
    fail "the server does not start"
}

before_boot() {
    state >before

    step "installing"
    dpkg --install wrkbench.deb >dpkg.log 2>&1 || fail_with dpkg.log "dpkg --install failed"
    [ -z "$(dpkg --audit)" ] || fail "dpkg --audit complains: $(dpkg --audit)"
    [ -z "$(dpkg --verify wrkbench)" ] || fail "files differ from the package"

    step "running the program"
    wrkbench --version
    serve
    wrkbench -t1 -c2 -n100 http://127.0.0.1:8080/ >run.txt 2>&1 || fail_with run.txt "no run"
    grep -q '100 requests in' run.txt || fail_with run.txt "the report does not name the requests"

    step "loading Lua modules written in C"
    cat >modules.lua <<'LUA'
local cjson, socket = require("cjson"), require("socket")
local n = 0

function request()
  n = n + 1
  if n % 3 > 0 then
    return wrk.format("GET", "/?page=" .. n)
  end
  return wrk.format("POST", "/", nil, cjson.encode({ id = n, at = socket.gettime() }))
end

function response(status)
  assert(status == 200 and not pcall(cjson.decode, "{broken"))
end

function done(summary)
  print("answered: " .. summary.requests)
end
LUA
    wrkbench -t1 -c2 -n300 -s modules.lua http://127.0.0.1:8080/ >run.txt 2>&1 ||
        fail_with run.txt "no run with lua-cjson and lua-socket"
    grep -q '^answered: 300$' run.txt || fail_with run.txt "requests of the script are missing"

    step "reading the manual"
    for page in $(find /usr/share/man -name 'wrkbench*' | sed 's|.*/||; s|\.1\.gz$||' | sort); do
        man --warnings "$page" >page.txt 2>warnings.txt || fail "man $page failed"
        [ -s page.txt ] || fail "man $page is empty"
        [ ! -s warnings.txt ] || fail "man $page: $(cat warnings.txt)"
        # Pages that a page refers to are there too.
        grep -o 'wrkbench-[a-z-]*(1)' page.txt | sed 's/(1)//' | sort -u >cited.txt
        while read -r other; do
            man --where "$other" >/dev/null 2>&1 ||
                fail "man $page cites $other(1), which is missing"
        done <cited.txt
    done
    man --where wrkbench-sweep wrkbench-restore

    step "completing commands"
    bash -c '. /usr/share/bash-completion/bash_completion
        # The second name is that of bash-completion before 2.12.
        _comp_load wrkbench 2>/dev/null || _completion_loader wrkbench || true
        complete -p wrkbench' || fail "bash knows no completion"
    zsh -f -c 'autoload -Uz compinit && compinit -D && [[ -n ${_comps[wrkbench]} ]]' ||
        fail "zsh knows no completion"

    step "verifying the units"
    systemd-analyze verify --man=no /usr/lib/systemd/system/$unit \
        /usr/lib/systemd/system/wrkbench-restore@var-tmp.service
    [ -L "$enabled" ] || fail "$unit is not enabled"
    systemctl disable "$unit" 2>/dev/null
    dpkg --install wrkbench.deb >dpkg.log 2>&1
    [ ! -e "$enabled" ] || fail "installing again enabled $unit, which was disabled"
    systemctl enable "$unit" 2>/dev/null

    step "losing power during a sweep"
    echo 'workers = 1' >/etc/server.conf
    echo 'workers = {{level}}' >template
    cat >sweep.toml <<'SWEEP'
name = "a file"
rounds = 1
results = "sweep-results"
[load]
threads = 1
connections = 1
duration = "60s"
[[target]]
name = "local"
url = "http://127.0.0.1:8080/"
[[factor]]
name = "workers"
file = "/etc/server.conf"
template = "template"
levels = [2, 3]
[[factor]]
sysctl = "net.ipv4.tcp_fin_timeout"
levels = [31, 32]
[hooks]
restart = "systemctl restart server.service || true"
SWEEP
    # A service that reads the file when it starts, and a unit that ends the boot.
    cat >/etc/systemd/system/server.service <<'UNIT'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'cat /etc/server.conf >>/etc/server.log'
[Install]
WantedBy=multi-user.target
UNIT
    cat >/etc/systemd/system/shutdown-after-boot.service <<'UNIT'
[Unit]
After=wrkbench-restore.service multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'journalctl -o cat -u wrkbench-restore >/check/booted.txt'
ExecStart=/bin/systemctl poweroff --no-block
[Install]
WantedBy=multi-user.target
UNIT
    systemctl enable server.service shutdown-after-boot.service 2>/dev/null
    wrkbench sweep sweep.toml >sweep.txt 2>&1 &
    sweep=$!
    for _ in $(seq 100); do
        grep -q 'workers = [23]' /etc/server.conf && break
        kill -0 "$sweep" 2>/dev/null || fail_with sweep.txt "the sweep has ended"
        sleep 0.1
    done
    # All processes at once, the guardian too, as when power fails. No others are in this namespace.
    all=$(find /proc -maxdepth 2 -name exe -lname "/usr/bin/wrkbench*" | cut -d/ -f3)
    # shellcheck disable=SC2086 # one word for each process
    kill -STOP $all
    # shellcheck disable=SC2086
    kill -KILL $all
    wait "$server" "$sweep" 2>/dev/null || true
    [ -e "$journal" ] || fail_with sweep.txt "the sweep left no journal"
    grep -q 'workers = [23]' /etc/server.conf ||
        fail "the file is restored although all were killed"

    step "removing is refused, because of the journal"
    if dpkg --purge wrkbench >dpkg.log 2>&1; then
        fail "the package was removed, and nothing can restore now"
    fi
    grep -q 'wrkbench restore' dpkg.log || 
        fail_with dpkg.log "dpkg does not say what to do"
}

after_boot() {
    systemctl disable server.service shutdown-after-boot.service 2>/dev/null
    if [ -e booted.txt ]; then
        cat booted.txt
    else
        # What the unit would have started.
        sh -eu -c "$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/$unit)"
    fi
    [ "$(cat /etc/server.conf)" = 'workers = 1' ] || fail "the file is not restored"
    [ ! -e "$journal" ] || fail "the journal is still there"
    if [ -e booted.txt ]; then
        printf 'workers = %s\n' LEVEL 1 >started.txt
    # It starts with the file as it was left, and again when that is restored.
        sed 's/[23]/LEVEL/' /etc/server.log | diff started.txt - ||
            fail "the restart hook did not run"
    fi
    rm -f /etc/server.conf /etc/server.log /etc/systemd/system/server.service \
        /etc/systemd/system/shutdown-after-boot.service

    step "purging"
    dpkg --purge wrkbench >dpkg.log 2>&1 || fail_with dpkg.log "dpkg --purge failed"
    ! grep -i 'warning' dpkg.log || fail "dpkg --purge warns"
    state >after
    diff before after || fail "these files differ before the installation (<) and after removal (>)"
}

case $phase in
before-boot) before_boot ;;
after-boot) after_boot ;;
esac
