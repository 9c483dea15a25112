//! Measures the CPU time of watching sockets: opens connections on loopback and samples them once a
//! second. Each sample is written as a line of JSON to /dev/null.
//!
//! `make telemetry-cost`, or `sampler_cost SOCKETS SECONDS` (300 and 20).
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use telemetry::{Sampler, SamplerOptions, Window};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| {
        let argument = arguments.next();
        argument.map_or(Ok(default), |argument| argument.parse())
    };
    let (sockets, seconds) = (number(300)?, number(20)?);

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut held = Vec::new();
    for _ in 0..sockets / 2 {
        let near = TcpStream::connect(address)?;
        let (far, _) = listener.accept()?;
        held.push((near, far));
    }

    let port = address.port();
    let sampler = Sampler::prepare(SamplerOptions {
        sockets: Some(format!("sport = :{port} or dport = :{port}").parse()?),
        interval: Duration::from_secs(1),
        counters: true,
    })?;
    let thrown_away = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    let sampling = sampler.start(Some(Box::new(thrown_away)))?;
    sampling.begin(Window {
        begin_ns: 0,
        end_ns: u64::MAX,
    });
    // Nothing is ever sent: this only waits.
    let (_sender, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_secs(u64::from(seconds)));
    let telemetry = sampling.finish();
    drop(held);

    let seen = telemetry.sockets.map_or(0, |sockets| sockets.sockets);
    let cpu_ns = telemetry
        .cpu_ns
        .ok_or("this system does not tell CPU time")?;
    let samples = telemetry.samples;
    let cpu_ms = cpu_ns as f64 / 1e6;
    let percent = cpu_ms / (f64::from(seconds) * 1e3) * 100.0;
    println!(
        "{seen} sockets, {samples} samples in {seconds} s: {cpu_ms:.1} ms of CPU time, \
         {percent:.3} % of a core"
    );
    for note in telemetry.notes {
        println!("{note}");
    }
    Ok(())
}
