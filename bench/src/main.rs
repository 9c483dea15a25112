//! Measures wrkbench beside wrk.
fn main() {}
