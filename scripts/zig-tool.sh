#!/bin/sh
# zig under the names of ordinary tools: `ar`, and `x86_64-linux-musl-cc` for each target. Called
# by the links that static-cargo.sh makes, which also sets ZIG and ZIG_PREFIXES.
set -eu

tool=${0##*/}
if [ "$tool" = ar ]; then
    exec "$ZIG" ar "$@"
fi

# zig has its own names of targets and processors. Of debug data only line numbers are wanted.
for argument; do
    shift
    case $argument in
    --target=*) continue ;;
    -march=armv8.4-a+sha3) argument=-mcpu=generic+v8_4a+sha3 ;;
    -g | -gdwarf-*) argument=-gline-tables-only ;;
    esac
    set -- "$@" "$argument"
done
while read -r prefix; do
    set -- "$@" "-ffile-prefix-map=$prefix"
done <<END
$ZIG_PREFIXES
END
# Some sources name the time of the compilation, and zig takes older objects from its cache.
set -- -Wno-builtin-macro-redefined '-D__DATE__=""' '-D__TIME__=""' "$@"
# LuaJIT's two calls are redirected to crates/script/src/static_loader.rs, which says why.
exec "$ZIG" cc -target "${tool%-cc}" -fno-sanitize=all \
    -D__register_frame=wrkbench_register_frame \
    -D__deregister_frame=wrkbench_deregister_frame "$@"
