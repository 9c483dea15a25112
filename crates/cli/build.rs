//! Exports the C interface of the LuaJIT that is linked in, so that Lua modules written in C
//! (`require "socket"`, `require "cjson"`) find it in the program, as they do in wrk.

#[expect(
    clippy::print_stdout,
    reason = "cargo reads what a build script prints"
)]
fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let list = format!("{folder}/lua-symbols.txt");
    println!("cargo:rerun-if-changed={list}");
    // A dynamic list is what GNU ld, gold, lld and mold have in common. They also keep what it names from being collected
    // as unused.
    println!("cargo:rustc-link-arg-bins=-Wl,--dynamic-list={list}");
}
