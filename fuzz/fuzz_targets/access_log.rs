//! Any bytes as an access log, or examples with some pieces replaced, in a known format or any:
//! it is refused in one line, or its requests are in order and each is exactly one for a server.

#![no_main]

#[path = "../given.rs"]
mod given;

use libfuzzer_sys::fuzz_target;
use plan::Target;
use protocol::request::split;
use requests::{Defaults, LogOptions, load_log};

const EXAMPLES: [&[u8]; 2] = [
    br#"1.2.3.4 - - [23/Nov/2026:14:00:00 +0000] "GET /a?b=\x22 HTTP/1.1" 200 5 "-" "U \"x\""
h:80 ::1 - bob [23/Nov/2026:15:00:00 +0100] "HEAD http://h/b HTTP/2.0" 304 - "-" "-"
"#,
    b"1700000000.123 0.5 \"GET / HTTP/1.1\" 200 de\n# c\n1700000000 1 \"PUT /x HTTP/1.0\" 500 -\n",
];

const FORMATS: [Option<&str>; 3] = [
    None,
    Some(r#"$msec $request_time "$request" $status $http_accept_language"#),
    Some(r#"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""#),
];

fuzz_target!(|data: &[u8]| {
    let Some(([how, which], rest)) = data.split_first_chunk() else {
        return;
    };
    let text = match EXAMPLES.get(usize::from(*how) % (EXAMPLES.len() + 1)) {
        Some(example) => given::with_pieces_replaced(example, rest),
        None => rest.to_vec(),
    };
    let end = rest.len().min(usize::from(*how));
    let any = str::from_utf8(&rest[..end]).ok();
    let format = FORMATS.get(usize::from(*which) % (FORMATS.len() + 1));
    check(&text, format.copied().unwrap_or(any), *how);
});

fn check(text: &[u8], format: Option<&str>, speed: u8) {
    let target = Target::parse("http://h/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    let options = LogOptions {
        format,
        all_methods: true,
        speed: f64::from(speed) + 0.5,
    };
    let (set, summary) = match load_log("f", &mut &*text, &defaults, &options) {
        Ok(loaded) => loaded,
        Err(error) => return given::one_line(&error.to_string()),
    };
    let recorded = set.recorded().expect("it is of a log");
    assert_eq!(recorded.due_ns().len() as u64, summary.requests);
    assert!(recorded.due_ns().is_sorted());
    for number in 0..summary.requests {
        let (request, _) = recorded.nth(number);
        let range = set.fixed(request).expect("it has no templates");
        let mut parsed = split(&set.bytes()[range]);
        assert!(matches!(parsed.next(), Some(Ok(_))) && parsed.next().is_none());
    }
}
