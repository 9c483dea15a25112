#!/bin/sh
# Makes an archive with everything that is installed: archive.sh NAME BINARY RUNNABLE [PROCESSOR]
# writes NAME.tar.gz, which has a folder of the name's last part, from a stripped binary. RUNNABLE
# is the same version for this machine. PROCESSOR is for static binaries (scripts/third-party.sh).
# Files have the time SOURCE_DATE_EPOCH. Called by scripts/dist.sh and scripts/dist-gnu.sh.
set -eu

cd "$(dirname "$0")/.."
[ $# -ge 3 ] || {
    echo "usage: archive.sh NAME BINARY RUNNABLE [PROCESSOR]" >&2
    exit 1
}
archive=$1 binary=$2 runnable=$3
shift 3
make --no-print-directory --silent install PREFIX="$archive" DESTDIR= LINKS= \
    WRKBENCH="$binary" RUNNABLE="$runnable"
sh scripts/third-party.sh "$@" >"$archive/share/doc/wrkbench/third-party.txt"
tar --create --directory "$(dirname "$archive")" --sort=name --format=ustar --owner=0 --group=0 \
    --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$(basename "$archive")" |
    gzip -9n >"$archive.tar.gz"
rm -r "${archive:?}"
