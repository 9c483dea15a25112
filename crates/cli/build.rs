//! Exports the C interface of the LuaJIT that is linked in, so that Lua modules written in C
//! (`require "socket"`, `require "cjson"`) find it in the program, as they do in wrk.
#![allow(
    clippy::disallowed_methods,
    reason = "cargo tells build scripts about the target in variables"
)]

fn main() {
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/lua-symbols.txt");
    println!("cargo:rerun-if-changed={list}");
    // A static binary can load no module.
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if features.split(',').any(|feature| feature == "crt-static") {
        return;
    }
    // GNU ld, lld and mold all know dynamic lists. They also keep what one names from being
    // collected as unused.
    println!("cargo:rustc-link-arg-bins=-Wl,--dynamic-list={list}");
}
