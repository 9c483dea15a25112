#!/bin/sh
# Runs a test program, as cargo's runner, if it is in the group of tests that WRKBENCH_TESTS names:
# `program` (of the package wrkbench), `crates` (of all others) or `slow` (of both). `cargo test
# --exclude wrkbench` would compile dependencies again, with fewer features.
case $(basename "$1") in
conformance-* | documents-* | faults-* | kill-* | profile-* | readers-* | real_servers-*)
    # crates/telemetry has a test of the same name: its threads need a CPU, too.
    group=slow
    ;;
*) group=crates && [ "$CARGO_PKG_NAME" != wrkbench ] || group=program ;;
esac
[ "$group" != "$WRKBENCH_TESTS" ] || exec "$@"
