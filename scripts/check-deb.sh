#!/bin/sh
# Checks a Debian package: lintian, then installs it in a chroot of Debian, uses it there, cuts the
# power of a sweep, boots (with systemd-nspawn, if that works here), removes the package, and
# compares the files before and after. Nothing is installed on this machine.
#
# usage: scripts/check-deb.sh [FILE.deb]     needs root, debootstrap and lintian
#
# The chroot is made below target/chroot and kept for the next check; ROOT=FOLDER names another.
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
suite=${SUITE:-bookworm}
base=${ROOT:-$target/chroot/$suite}

say() { printf '%s\n' "check-deb: $*"; }

fail() {
    printf '%s\n' "check-deb: $*" >&2
    exit 1
}

deb=${1:-}
if [ -z "$deb" ]; then
    set -- "$target"/dist/wrkbench_*_"$(dpkg --print-architecture)".deb
    [ -f "$1" ] || fail "there is no package in $target/dist: run make deb first"
    deb=$1
fi
for tool in debootstrap lintian unshare; do
    command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install debootstrap lintian"
done
[ "$(id -u)" -eq 0 ] || fail "needs root, for a chroot"

say "lintian $deb"
# lintian refuses to run as root otherwise.
lintian --allow-root --fail-on error "$deb"

if ! grep -q '^Package: lua-socket$' "$base/var/lib/dpkg/status" 2>/dev/null; then
    say "making a chroot of $suite in $base"
    rm -rf "$base"
    mkdir -p "$base"
    packages=man-db,bash-completion,systemd,zsh,ca-certificates,libgcc-s1,lua-cjson,lua-socket
    debootstrap --variant=minbase --include="$packages" "$suite" "$base" >"$base.log" 2>&1 ||
        fail "debootstrap failed; see $base.log"
fi
base=$(cd "$base" && pwd)

# Everything happens on a copy-on-write copy, in its own mount, process and network namespaces, so
# nothing can be left behind.
work=$(mktemp -d "${TMPDIR:-/var/tmp}/check-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp "$deb" "$work/wrkbench.deb"
cp scripts/check-deb-inside.sh "$work/inside.sh"
# Runs in namespaces of its own. The root of the chroot is not there for others.
cat >"$work/stage.sh" <<'STAGE'
base=$1 work=$2
root=$work/mnt/root
mount --make-rprivate /
mkdir "$work/mnt"
mount -t tmpfs tmpfs "$work/mnt"
mkdir "$work/mnt/upper" "$work/mnt/work" "$root"
mount -t overlay overlay \
    -o "lowerdir=$base,upperdir=$work/mnt/upper,workdir=$work/mnt/work" "$root"
mkdir "$root/check"
cp "$work/wrkbench.deb" "$work/inside.sh" "$root/check/"
# The boot takes the name from the file.
hostname checked
echo checked >"$root/etc/hostname"
phase() {
    unshare --mount --pid --fork --kill-child --net sh -eu "$work/phase.sh" "$root" "$1"
}
phase before-boot
if command -v systemd-nspawn >/dev/null; then
    # Where the machine has version 1 of control groups, so has the container.
    [ -e /sys/fs/cgroup/cgroup.controllers ] || export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=0
    timeout 120 systemd-nspawn --directory "$root" --boot --register=no --keep-unit \
        --private-network --hostname=checked --console=pipe \
        </dev/null >"$work/boot.txt" 2>&1 || true
fi
if [ -e "$root/check/booted.txt" ]; then
    echo "check-deb: systemd-nspawn has booted"
else
    echo "check-deb: SKIPPED: booting: systemd-nspawn is missing or cannot boot here:" \
        "$(tail -n 1 "$work/boot.txt" 2>/dev/null)"
fi
phase after-boot
STAGE
cat >"$work/phase.sh" <<'PHASE'
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
# Each phase is a boot, by which wrkbench tells settings that are lost from those to restore.
cat "$1/proc/sys/kernel/random/uuid" >"$1/check/boot-id"
mount --bind "$1/check/boot-id" "$1/proc/sys/kernel/random/boot_id"
ip link set lo up
exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/check LC_ALL=C.UTF-8 TERM=dumb \
    sh -eu /check/inside.sh "$2"
PHASE
unshare --mount --mount-proc --pid --fork --kill-child --net --uts --cgroup \
    sh -eu "$work/stage.sh" "$base" "$work"
say "$deb passed"
