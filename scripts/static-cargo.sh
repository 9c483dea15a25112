#!/bin/sh
# Runs cargo for a static binary: static-cargo.sh x86_64|aarch64 SUBCOMMAND [ARGUMENT...]
# The subcommand objcopy is the one of LLVM that comes with Rust. `notices` prints the names of the
# files with the licences of musl and of Rust's standard library, one on each line.
#
# C code is compiled by zig, of one version with a known hash, which brings the headers of musl for
# both processors; it is installed below target/tools. Rust's own lld links. Thus every machine has
# the same tools, and the same sources give the same bytes (docs/decisions/0016-static-binary.md).
# ZIG=program uses a zig that is installed already.
set -eu

zig_version=0.17.1
# The wheels of PyPI for x86_64 and aarch64.
zig_hashes="--hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
--hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e"

cd "$(dirname "$0")/.."
root=$(pwd)

fail() {
    printf '%s\n' "static-cargo: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

[ $# -ge 2 ] || fail "usage: static-cargo.sh x86_64|aarch64 SUBCOMMAND [ARGUMENT...]"
processor=$1
shift
case $processor in
x86_64 | aarch64) target=$processor-unknown-linux-musl ;;
*) fail "there is no static build for $processor, only for x86_64 and aarch64" ;;
esac

has cc || fail "cc is missing; install a C compiler (Debian: apt-get install build-essential)"
has make || fail "make is missing; install it (Debian: apt-get install build-essential)"
has cargo || fail "cargo is missing; install Rust: https://rustup.rs"

# One version of the compiler, as in .ci/run.
rust_version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
case $(rustc --version) in
"rustc $rust_version."*) ;;
*)
    rustup run "$rust_version" rustc --version >/dev/null 2>&1 ||
        fail "needs Rust $rust_version; run: rustup toolchain install $rust_version" \
            "--profile minimal --target $target"
    export RUSTUP_TOOLCHAIN="$rust_version"
    ;;
esac
sysroot=$(rustc --print sysroot)
[ -d "$sysroot/lib/rustlib/$target" ] ||
    fail "Rust cannot compile for $target; run: rustup target add $target"

subcommand=$1
shift

if [ "$subcommand" = objcopy ]; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    # It looks for LLVM's library in another folder than rustup's.
    LD_LIBRARY_PATH=$sysroot/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    exec "$sysroot/lib/rustlib/$host/bin/rust-objcopy" "$@"
fi

target_dir=${CARGO_TARGET_DIR:-target}
mkdir -p "$target_dir/tools"
target_dir=$(cd "$target_dir" && pwd)
tools=$target_dir/tools

# zig itself.
if [ -z "${ZIG:-}" ]; then
    venv=$tools/zig-$zig_version
    if [ ! -e "$venv/installed" ]; then
        has python3 || fail "python3 is missing; install it (Debian: apt-get install python3-venv)"
        rm -rf "$venv"
        python3 -m venv "$venv" >/dev/null 2>&1 ||
            fail "python3 has no venv; install it (Debian: apt-get install python3-venv)"
        printf '%s\n' "ziglang==$zig_version $(printf '%s' "$zig_hashes" | tr '\n' ' ')" \
            >"$venv/requirements.txt"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps \
            --requirement "$venv/requirements.txt" >&2 ||
            fail "pip could not install ziglang $zig_version; its message is above." \
                "Without a network set ZIG to the zig $zig_version of this machine"
        touch "$venv/installed"
    fi
    ZIG=$("$venv/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
fi
[ "$("$ZIG" version 2>/dev/null)" = "$zig_version" ] ||
    fail "$ZIG is not zig $zig_version, the version that the sums of a release depend on"

if [ "$subcommand" = notices ]; then
    printf '%s\n' "$(dirname "$(readlink -f "$ZIG")")/lib/libc/musl/COPYRIGHT" \
        "$sysroot/share/doc/rust/COPYRIGHT-library.html"
    exit
fi

# Sources in debug data and messages have the same names on every machine. Of several prefixes that
# match, both compilers take the last.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
cargo fetch --locked --quiet --target "$target"
prefixes=$(
    printf '%s=/wrkbench/target\n' "$target_dir"
    printf '%s=/wrkbench\n' "$root"
    printf '%s=/zig\n' "$(dirname "$(readlink -f "$ZIG")")"
    # The component rust-src would replace the name that the standard library has elsewhere.
    printf '%s=/rustc/%s\n' "$sysroot/lib/rustlib/src/rust" "$(
        rustc -vV | sed -n 's/^commit-hash: //p'
    )"
    for registry in "$cargo_home"/registry/src/*; do
        # rustc calls its working directory by the name without links.
        printf '%s=/cargo\n' "$registry" "$(readlink -f "$registry")"
    done
)

export ZIG ZIG_PREFIXES="$prefixes"
export ZIG_GLOBAL_CACHE_DIR="$tools/zig-cache" ZIG_LOCAL_CACHE_DIR="$tools/zig-cache"
compiler=$tools/$processor-linux-musl-cc
# LuaJIT's build makes and runs programs of its own.
compiler_here=$tools/$(uname -m)-linux-musl-cc
for tool in "$compiler" "$compiler_here" "$tools/ar"; do
    ln -sf "$root/scripts/zig-tool.sh" "$tool"
done

# What the environment says for ordinary builds must not change a static one.
unset CC CXX AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS RUSTFLAGS TARGET_CC TARGET_CFLAGS TARGET_AR
for_target=$(printf '%s' "$target" | tr - _)
export "CC_$for_target=$compiler" "AR_$for_target=$tools/ar"
# For LuaJIT's makefile. It would also link LuaJIT's own program, which nobody needs.
export HOST_CC="$compiler_here" TARGET_AR="$tools/ar rcus" TARGET_LD=true TARGET_STRIP=true

# rustc's flags, separated by the character that cargo wants: paths may contain spaces.
separator=$(printf '\037')
flags=
flag() { flags=$flags${flags:+$separator}$1; }
flag -Ctarget-feature=+crt-static
flag -Clinker=rust-lld
flag -Clinker-flavor=ld.lld
flag -Clink-arg=--build-id=sha1
# Relative relocations take 8 bytes for each 64 pointers, instead of 24 for each.
flag -Clink-arg=--pack-dyn-relocs=relr
# Also functions whose addresses are taken: nothing here tells two with the same code apart.
flag -Clink-arg=--icf=all
while read -r prefix; do
    flag "--remap-path-prefix=$prefix"
done <<END
$prefixes
END
export CARGO_ENCODED_RUSTFLAGS="$flags"
export CARGO_TARGET_DIR="$target_dir"

exec "${CARGO:-cargo}" "$subcommand" --target "$target" --locked "$@"
