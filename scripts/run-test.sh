#!/bin/sh
# Runs a test program, as cargo's runner, if it is in the group of tests that WRKBENCH_TESTS names:
# `program` (of the package wrkbench), `crates` (of all others), `slow` or `fleet` (of both; of
# end_to_end, one module is in `fleet`). `cargo test --exclude wrkbench` would compile dependencies
# again, with fewer features.
case $CARGO_PKG_NAME:$(basename "$1") in
cluster:* | fleet:* | wrkbench:fleet-*) group=fleet ;;
wrkbench:end_to_end-*)
    case $WRKBENCH_TESTS in
    program) exec "$@" --skip fleet:: ;;
    fleet) exec "$@" fleet:: ;;
    esac
    ;;
*:conformance-* | *:documents-* | *:faults-* | *:kill-* | *:profile-* | *:readers-* | *:real_servers-*)
    # crates/telemetry has a test of the same name: its threads need a CPU, too.
    group=slow
    ;;
wrkbench:*) group=program ;;
*) group=crates ;;
esac
[ "$group" != "$WRKBENCH_TESTS" ] || exec "$@"
