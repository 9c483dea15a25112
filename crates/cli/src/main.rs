//! The program `wrkbench`: see `lib.rs`.

use std::process::ExitCode;

// musl's allocator gives memory back to the kernel too soon: docs/decisions/0016-static-binary.md
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    wrkbench::run(&wrkbench::Console::of_process())
}
