#!/bin/sh
# Installs what making and checking packages needs, on Debian or Ubuntu; needs root.
set -eu

fail() {
    printf '%s\n' "install-package-tools: $*" >&2
    exit 1
}

command -v apt-get >/dev/null || fail "apt-get is missing: install the tools by hand"
[ "$(id -u)" -eq 0 ] || fail "needs root"
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    binutils buildah ca-certificates debootstrap dpkg-dev iproute2 jq lintian openssl podman \
    python3-venv qemu-user ruby shellcheck systemd-container
