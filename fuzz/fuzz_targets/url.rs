//! Any text as a URL: an accepted URL can be run, sent and put together again; a refusal is one
//! line.

#![no_main]

#[path = "../given.rs"]
mod given;

use libfuzzer_sys::fuzz_target;
use plan::{RunPlan, Scheme, Target};
use protocol::RequestKind;
use protocol::request::{Request, encode, scan};

fuzz_target!(|text: &str| {
    check(text);
    // Most texts have no valid scheme. With one, parsing gets further.
    check(&format!("http://{text}"));
    check(&format!("https://h{text}"));
});

fn check(url: &str) {
    match Target::parse(url) {
        Ok(target) => accepted(url, target),
        Err(error) => given::one_line(&error.to_string()),
    }
}

fn accepted(url: &str, target: Target) {
    assert_eq!(target.url, url);
    assert_ne!(target.port_number(), 0);
    let (host, port) = (target.host.as_str(), target.port.as_deref());
    assert_eq!(target.service, port.unwrap_or(target.scheme.name()));
    assert!(url.len() >= host.len() + port.map_or(0, str::len));

    let mut bytes = Vec::new();
    let request = Request::<&str> {
        method: b"GET",
        target: target.path.as_bytes(),
        host: target.host_header.as_bytes(),
        headers: &[],
        body: None,
    };
    encode(&request, &mut bytes);
    let mut kinds = Vec::new();
    assert_eq!(scan(&bytes, &mut kinds), Ok(()));
    assert_eq!(kinds, [RequestKind::Plain]);

    let scheme = match target.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let name = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let place = port.map_or(name.clone(), |port| format!("{name}:{port}"));
    let again = format!("{scheme}://{place}{}", target.path);
    let rebuilt = Target {
        url: again.clone(),
        ..target.clone()
    };
    assert_eq!(Target::parse(&again), Ok(rebuilt));

    let plan = RunPlan {
        target,
        ..given::plan()
    };
    assert_eq!(plan.check(), Ok(()));
}
