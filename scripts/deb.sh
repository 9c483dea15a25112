#!/bin/sh
# Makes a Debian package from each archive with a dynamic binary in target/dist/ (`make dist-gnu`):
# target/dist/wrkbench_VERSION_amd64.deb and wrkbench_VERSION_arm64.deb.
#
# WRKBENCH=FILE makes the package of this machine's architecture from another binary.
# SOURCE_DATE_EPOCH is the time of all files [default: the last commit].
set -eu

cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
dist=$target/dist
maintainer=${MAINTAINER:-wrkbench contributors <wrkbench@users.noreply.github.com>}

fail() {
    printf '%s\n' "make deb: $*" >&2
    exit 1
}

# The value of a line `name = "value"` of Cargo.toml.
of_manifest() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" Cargo.toml | head -n 1; }

command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing; on Debian: apt-get install dpkg"
version=$(of_manifest version)
home=$(of_manifest repository)
# 0.2.0-rc.1 precedes 0.2.0.
deb_version=$(printf '%s' "$version" | sed 's/-/~/')
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH="$epoch"
umask 022
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The line of what the binary depends on; none if it is static. dpkg-shlibdeps would need the
# libraries of the other architecture.
depends_of() {
    glibc=$(readelf --version-info "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV |
        tail -n 1)
    [ -z "$glibc" ] || printf '%s\n' "Depends: libc6 (>= $glibc), libgcc-s1"
}

# Writes the package of an architecture. $1: Debian's name of it, $2: folder with bin/ and share/.
package() {
    root=$work/$1
    doc=$root/usr/share/doc/wrkbench
    mkdir -p "$root/DEBIAN" "$root/usr/lib/systemd/system"
    cp -R "$2/bin" "$2/share" "$root/usr/"
    depends=$(depends_of "$root/usr/bin/wrkbench")
    if readelf -S "$root/usr/bin/wrkbench" | grep -q '\.symtab'; then
        strip "$root/usr/bin/wrkbench" || fail "the binary cannot be stripped"
    fi

    # Debian's zsh looks in another folder, and manual pages are compressed.
    if [ -d "$root/usr/share/zsh/site-functions" ]; then
        mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    fi
    find "$root/usr/share/man" -type f ! -name '*.gz' -exec gzip -9n {} +

    # The licences are in the file copyright.
    rm -f "$doc/LICENSE-APACHE" "$doc/LICENSE-MIT"
    sed -n '/^Permission is hereby/,$p' LICENSE-MIT | sed 's/^$/./; s/^/ /' >"$work/mit"
    sed -e "s|@REPOSITORY@|$home|" -e "/^@MIT@\$/{
        r $work/mit
        d
    }" packaging/debian/copyright >"$doc/copyright"
    gzip -9n "$doc/third-party.txt"
    printf 'wrkbench (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$deb_version" \
        "See CHANGELOG.md in this folder for what has changed." "$maintainer" \
        "$(date --utc --date="@$epoch" --rfc-email)" | gzip -9n >"$doc/changelog.gz"

    cp packaging/systemd/*.service "$root/usr/lib/systemd/system/"
    for script in postinst prerm postrm; do
        cp "packaging/debian/$script" "$root/DEBIAN/$script"
    done

    find "$root" -exec touch --no-dereference --date="@$epoch" {} +
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -type f -exec chmod 644 {} +
    chmod 755 "$root/usr/bin/wrkbench" "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" \
        "$root/DEBIAN/postrm"
    (cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$root/DEBIAN/md5sums"
    size_kb=$(du -k -s --apparent-size "$root/usr" | cut -f1)
    cat >"$root/DEBIAN/control" <<CONTROL
Package: wrkbench
Version: $deb_version
Architecture: $1
Maintainer: $maintainer
Installed-Size: $size_kb
${depends:+$depends
}Recommends: ca-certificates
Suggests: lua-cjson, lua-socket
Section: web
Priority: optional
Homepage: $home
Description: HTTP load generator, a drop-in for wrk and wrk2
 wrkbench loads an HTTP/1.1 server and measures what it does. It takes the
 options and Lua scripts of wrk, wrk2 and wrk-cmm and prints their reports, uses
 less CPU per request, counts the errors and stalls that wrk misses, and warns
 when a number is unreliable.
 .
 It also runs experiments: the same load under several settings of kernel and
 servers, which are restored afterwards, with a verdict on whether they differ.
CONTROL
    deb=$dist/wrkbench_${version}_$1.deb
    dpkg-deb --root-owner-group -Zxz --build "$root" "$deb" >/dev/null
    printf '%s\n' "$deb"
}

if [ -n "${WRKBENCH:-}" ]; then
    make --silent install PREFIX="$work/installed" WRKBENCH="$WRKBENCH" >/dev/null
    sh scripts/third-party.sh >"$work/installed/share/doc/wrkbench/third-party.txt"
    package "$(dpkg --print-architecture)" "$work/installed"
    exit
fi
found=
for pair in x86_64:amd64 aarch64:arm64; do
    name=wrkbench-$version-${pair%:*}-linux-gnu
    [ -f "$dist/$name.tar.gz" ] || continue
    found=yes
    tar -xzf "$dist/$name.tar.gz" -C "$work"
    package "${pair#*:}" "$work/$name"
done
[ -n "$found" ] || fail "there is no archive of $version in $dist: run make dist-gnu first"
