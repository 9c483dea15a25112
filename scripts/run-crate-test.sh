#!/bin/sh
# Runs a test program of a crate, as cargo's runner; does nothing for those of the package wrkbench.
# `cargo test --exclude wrkbench` would compile dependencies again, with fewer features.
[ "$CARGO_PKG_NAME" = wrkbench ] || exec "$@"
