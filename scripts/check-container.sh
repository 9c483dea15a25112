#!/bin/sh
# Checks the image of this machine's architecture in target/dist: runs it with podman, or where
# podman cannot run containers, its files in a chroot with the same user.
set -eu

cd "$(dirname "$0")/.."
dist=${CARGO_TARGET_DIR:-target}/dist

say() { printf '%s\n' "check-container: $*"; }

fail() {
    printf '%s\n' "check-container: $*" >&2
    exit 1
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
archive=$dist/wrkbench-$version-$(uname -m).oci.tar
[ -f "$archive" ] || fail "$archive is missing: run make container first"
[ "$(id -u)" -eq 0 ] || fail "needs root, for a chroot"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The layout of an OCI archive: an index names the manifest, that names configuration and layers.
mkdir "$work/oci" "$work/image"
tar -xf "$archive" -C "$work/oci"
blob() { printf '%s' "$work/oci/blobs/$(printf '%s' "$1" | tr : /)"; }
manifest=$(blob "$(jq -r '.manifests[0].digest' "$work/oci/index.json")")
config=$(blob "$(jq -r '.config.digest' "$manifest")")
[ "$(jq -r '.config.User' "$config")" = 65532:65532 ] || fail "the image runs as another user"
[ "$(jq -r '.config.Labels["org.opencontainers.image.version"]' "$config")" = "$version" ] ||
    fail "the image has no label with its version"
jq -r '.layers[].digest' "$manifest" | while read -r layer; do
    tar -xf "$(blob "$layer")" -C "$work/image"
done
writable=$(find "$work/image" -mindepth 1 -perm /022 ! -type l ! -perm -1000)
[ -z "$writable" ] || fail "everybody can write these files: $writable"

# The demo starts a server, loads it, and writes its result to the working folder.
say "running the demo in a chroot, as user 65532, without a network"
mkdir -p "$work/image/proc"
cat >"$work/run.sh" <<'RUN'
mount -t proc proc "$1/proc"
ip link set lo up
# In /work, as the image says.
exec unshare --root "$1" --wd /work --setgid 65532 --setuid 65532 /usr/bin/wrkbench demo
RUN
unshare --mount --net --pid --fork --kill-child sh -eu "$work/run.sh" "$work/image" \
    >"$work/demo.txt" 2>&1 || { cat "$work/demo.txt" >&2; fail "the demo failed"; }
grep -q 'Requests/sec' "$work/demo.txt" || fail "the demo printed no report"

storage="--root $work/storage --runroot $work/run --storage-driver vfs"
# shellcheck disable=SC2086 # several options
if ! command -v podman >/dev/null ||
    ! podman $storage load --quiet --input "$archive" >/dev/null; then
    say "SKIPPED: podman is missing, or cannot load images here"
    exit 0
fi
# shellcheck disable=SC2086
if podman $storage run --rm --network none --cgroups disabled --pull never \
    "localhost/wrkbench:$version-$(dpkg --print-architecture)" --version 2>"$work/podman.txt"; then
    say "podman runs the image"
else
    say "SKIPPED: podman cannot run containers here: $(tail -n 1 "$work/podman.txt")"
fi
# shellcheck disable=SC2086
podman $storage system reset --force >/dev/null 2>&1 || true
