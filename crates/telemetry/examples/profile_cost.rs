//! What a profile costs the profiler: `cargo run --release -p telemetry --example profile_cost --
//! SERVER SECONDS`, while the server works.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example prints, and waits for a while"
)]

use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let server = words.next().ok_or("which server?")?;
    let seconds: u64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or("for how many seconds?")?;
    let profiler = telemetry::Profiler::prepare(&server)?;
    let profiling = profiler.start()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let samples = profiling.finish();
    let cpu_us = samples.cpu_ns.unwrap_or_default() / 1_000;
    let count = samples.samples.len() as u64;
    println!(
        "{}: {count} samples, {} stacks, {} incomplete, {} lost; {cpu_us} us of CPU time, {} us \
         for each sample",
        samples.target,
        samples.stacks.len(),
        samples.incomplete,
        samples.lost,
        cpu_us / count.max(1)
    );
    for note in samples.notes {
        println!("{note}");
    }
    Ok(())
}
