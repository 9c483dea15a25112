//! What is in memory of a log. A program of its own, whose memory nothing else uses.

use std::io::{self, BufReader, Read};

use plan::Target;
use requests::{Defaults, LogOptions, load_log};

/// Lines of 10 kB, which are made when they are read. Each request is in three of them.
struct Log {
    lines: u64,
    line: Vec<u8>,
    /// Bytes of the line that were read.
    read: usize,
    bytes: u64,
}

impl Read for Log {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            let Some(left) = self.lines.checked_sub(1) else {
                return Ok(0);
            };
            self.lines = left;
            let (moment, path) = (1_000_000 - left, left / 3);
            let rest = "x".repeat(10_000);
            self.line = format!("{moment}.000 \"GET /{path} HTTP/1.1\" {rest}\n").into_bytes();
            self.read = 0;
        }
        let count = (&self.line[self.read..]).read(buffer)?;
        self.read += count;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// The most memory that this process has had, bytes (proc(5)).
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = peak.and_then(|peak| peak.split_whitespace().next());
    kb.and_then(|kb| kb.parse::<u64>().ok()).expect("a number") * 1024
}

#[test]
fn a_log_of_100_mb_takes_memory_for_its_requests_only() {
    let target = Target::parse("http://h/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    let options = LogOptions {
        format: Some("$msec \"$request\" $rest"),
        all_methods: false,
        speed: 1.0,
    };
    let log = Log {
        lines: 10_000,
        line: Vec::new(),
        read: 0,
        bytes: 0,
    };
    let before = peak_bytes();
    let mut input = BufReader::new(log);
    let loaded = load_log("log", &mut input, &defaults, &options);
    let (set, summary) = loaded.expect("all lines have the format");
    let grown = peak_bytes() - before;
    assert!(input.get_ref().bytes > 100_000_000);
    assert_eq!((summary.requests, set.len()), (10_000, 3_334));
    // Requests and moments take half a megabyte.
    assert!(grown < 5_000_000, "{grown} bytes");
}
