//! Prints the cost of a call into a script: `cargo run --release -p script --example call_cost`.
#![expect(clippy::print_stdout, reason = "the output of this program")]
#![expect(
    clippy::unwrap_used,
    reason = "a failing measurement has nothing to say"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "it measures its own process, not a load"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use engine::source::{Address, Captured, RequestSource};
use script::{Network, Script, Settings};

const CALLS: u32 = 1_000_000;
const ROUNDS: usize = 7;

struct Loopback;

impl Network for Loopback {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, String> {
        Ok(vec![Address::Tcp(([127, 0, 0, 1], 80).into())])
    }

    fn connect(&self, _address: &Address) -> Result<(), String> {
        Ok(())
    }
}

fn main() {
    let mut output = Vec::new();
    for (name, text) in [
        (
            "request: nothing",
            "local r = 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' function request() return r end",
        ),
        (
            "request: wrk.request()",
            "function request() return wrk.request() end",
        ),
        (
            "request: concatenated counter",
            "local n = 0 function request() n = n + 1 \
             return 'GET /' .. n .. ' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' end",
        ),
        (
            "request: wrk.format, counter",
            "local n = 0 function request() n = n + 1 \
             wrk.headers['X-Counter'] = n return wrk.format(nil, '/' .. n) end",
        ),
        (
            "request: wrk.format, POST",
            "wrk.headers['Content-Type'] = 'application/json' \
             local b = ('x'):rep(50) local n = 0 \
             function request() n = n + 1 return wrk.format('POST', '/' .. n, nil, b) end",
        ),
    ] {
        let mut source = source(text);
        report(name, || {
            output.clear();
            source.next(0, &mut output).unwrap();
            black_box(&output);
        });
    }
    let mut delay = source("function delay() return 1 end");
    report("delay: number", || {
        black_box(delay.delay_ns().unwrap());
    });
    let answer = answer();
    for (name, text) in [
        (
            "response: empty function, 8 headers, 612 bytes",
            "function response() end",
        ),
        (
            "response: counts",
            "local n = 0 function response(status) if status == 200 then n = n + 1 end end",
        ),
        (
            "response: reads a header",
            "local n = 0 function response(_, h, b) if h['Server'] then n = n + #b end end",
        ),
    ] {
        let mut source = source(text);
        report(name, || source.response(&answer).unwrap());
    }
}

/// The shortest of several rounds, per call.
fn report(name: &str, mut call: impl FnMut()) {
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    let best_ns = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    println!("{best_ns:8.1} ns  {name}");
}

fn source(text: &str) -> Box<dyn RequestSource> {
    let path = std::env::temp_dir().join(format!("call-cost-{}.lua", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let settings = Settings {
        path: Some(&path),
        url: "http://localhost/",
        scheme: "http",
        host: "localhost",
        port: None,
        request_path: "/",
        method: "GET",
        headers: &[],
        body: None,
        args: &[],
        threads: 1,
        worker_base: 0,
        modules: None,
    };
    let mut script = Script::load(&settings, Arc::new(Loopback)).unwrap();
    let mut sources = script.start().unwrap();
    std::fs::remove_file(&path).unwrap();
    sources.remove(0)
}

fn answer() -> Captured {
    let headers = [
        ("Server", "nginx/1.22.1"),
        ("Date", "Thu, 20 Nov 2025 19:56:00 GMT"),
        ("Content-Type", "text/html"),
        ("Content-Length", "612"),
        ("Last-Modified", "Thu, 20 Nov 2025 10:00:00 GMT"),
        ("Connection", "keep-alive"),
        ("ETag", "\"691ee5f0-264\""),
        ("Accept-Ranges", "bytes"),
    ];
    let bytes = |text: &str| text.as_bytes().to_vec();
    Captured {
        status: 200,
        headers: headers
            .iter()
            .map(|(name, value)| (bytes(name), bytes(value)))
            .collect(),
        body: vec![b'x'; 612],
    }
}
