#!/bin/sh
# Makes container images from the archives in target/dist/ (`make dist`) with buildah, podman or
# docker: target/dist/wrkbench-VERSION-ARCH.oci.tar, to be loaded with `podman load -i FILE`.
#
# WRKBENCH=FILE makes an image of this machine's architecture from another static binary.
set -eu

cd "$(dirname "$0")/.."
dist=${CARGO_TARGET_DIR:-target}/dist
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}

fail() {
    printf '%s\n' "make container: $*" >&2
    exit 1
}

of_manifest() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" Cargo.toml | head -n 1; }

version=$(of_manifest version)
source=$(of_manifest repository)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
[ -f "$certificates" ] ||
    fail "there are no certificates in $certificates; on Debian: apt-get install ca-certificates"
builder=
for name in buildah podman docker; do
    if command -v "$name" >/dev/null; then
        builder=$name
        break
    fi
done
[ -n "$builder" ] || fail "needs buildah, podman or docker; on Debian: apt-get install buildah"

mkdir -p "$dist"
work=$(mktemp -d)
context=$work/context
mkdir "$context"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp packaging/container/Containerfile "$context/"

# Puts the files of an image into a folder. $1: its architecture, $2: the binary, $3: the licences
# of what it contains.
fill() {
    root=$context/$1
    if readelf -l "$2" | grep -q INTERP; then
        fail "$2 is not a static binary: the image has no libraries"
    fi
    mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/usr/share/doc/wrkbench" "$root/work" \
        "$root/tmp"
    cp "$2" "$root/usr/bin/wrkbench"
    cp "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
    cp LICENSE-APACHE LICENSE-MIT "$3" "$root/usr/share/doc/wrkbench/"
    echo 'wrkbench:x:65532:65532::/work:/usr/bin/wrkbench' >"$root/etc/passwd"
    echo 'wrkbench:x:65532:' >"$root/etc/group"
    chmod -R u=rwX,go=rX "$root"
    chmod 755 "$root/usr/bin/wrkbench"
    chmod 1777 "$root/tmp" "$root/work"
    find "$root" -exec touch --no-dereference --date="@$epoch" {} +
}

# Images of the user are left alone: a storage of its own, removed at the end.
in_storage() {
    tool=$1
    shift
    "$tool" --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

# $1: the image's architecture, $2: its name in file names.
build() {
    tag=localhost/wrkbench:$version-$1
    file=$dist/wrkbench-$version-$2.oci.tar
    set -- --platform "linux/$1" --build-arg "TARGETARCH=$1" --build-arg "VERSION=$version" \
        --build-arg "REVISION=$revision" --build-arg "SOURCE=$source" --tag "$tag" \
        --file "$context/Containerfile" "$context"
    rm -f "$file"
    case $builder in
    buildah)
        in_storage buildah build --quiet --network none --timestamp "$epoch" "$@" >/dev/null
        in_storage buildah push --quiet "$tag" "oci-archive:$file:$tag" >/dev/null
        ;;
    podman)
        in_storage podman build --quiet --network none --timestamp "$epoch" "$@" >/dev/null
        in_storage podman save --quiet --format oci-archive --output "$file" "$tag"
        ;;
    docker)
        docker build --quiet --network none "$@" >/dev/null
        docker save --output "$file" "$tag"
        docker rmi "$tag" >/dev/null
        ;;
    esac
    printf '%s\n' "$file"
}

if [ -n "${WRKBENCH:-}" ]; then
    licences=$work/third-party.txt
    sh scripts/third-party.sh >"$licences"
    case $(uname -m) in
    x86_64) fill amd64 "$WRKBENCH" "$licences" && build amd64 x86_64 ;;
    aarch64) fill arm64 "$WRKBENCH" "$licences" && build arm64 aarch64 ;;
    *) fail "there is no image for $(uname -m)" ;;
    esac
    exit
fi
found=
for pair in x86_64:amd64 aarch64:arm64; do
    name=wrkbench-$version-${pair%:*}-linux-musl
    [ -f "$dist/$name.tar.gz" ] || continue
    found=yes
    licences=$name/share/doc/wrkbench/third-party.txt
    tar -xzf "$dist/$name.tar.gz" -C "$work" "$name/bin/wrkbench" "$licences"
    fill "${pair#*:}" "$work/$name/bin/wrkbench" "$work/$licences"
    build "${pair#*:}" "${pair%:*}"
done
[ -n "$found" ] || fail "there is no archive of $version in $dist: run make dist first"
