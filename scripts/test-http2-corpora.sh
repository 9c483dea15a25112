#!/bin/sh
# Decodes the public collections of HPACK header blocks and HTTP/2 frames. Fetches nothing: give the
# folder that contains clones of github.com/http2jp/hpack-test-case and
# github.com/http2jp/http2-frame-test-case.
set -eu

folder=${1:-${WRKBENCH_HTTP2_CORPORA:-}}
if [ -z "$folder" ]; then
    echo "usage: $0 FOLDER   (or set WRKBENCH_HTTP2_CORPORA)" >&2
    exit 2
fi
for name in hpack-test-case http2-frame-test-case; do
    if [ ! -d "$folder/$name" ]; then
        echo "$0: $folder/$name is missing; clone https://github.com/http2jp/$name there" >&2
        exit 1
    fi
done
WRKBENCH_HTTP2_CORPORA=$(cd "$folder" && pwd)
export WRKBENCH_HTTP2_CORPORA

cd "$(dirname "$0")/.."
exec "${CARGO:-cargo}" test -p protocol --locked --test h2 corpora -- --ignored --nocapture
