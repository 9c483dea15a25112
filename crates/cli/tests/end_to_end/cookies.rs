//! Cookies that responses set, on later requests of the same connection.

use std::collections::BTreeSet;

use origin::Options;

use crate::harness::{Site, load, site_with};
use crate::proxies::with_tls;

fn recording() -> Options {
    Options {
        record_requests: 1_000,
        ..Options::default()
    }
}

/// The value of `Cookie` of each request, in the order of arrival.
fn cookies(site: Site) -> Vec<String> {
    let cookie = |request: Vec<u8>| {
        let text = String::from_utf8(request).unwrap();
        let mut lines = text.lines();
        let line = lines.find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("cookie").then_some(value)
        });
        line.unwrap_or_default().to_owned()
    };
    site.stop().recorded.into_iter().map(cookie).collect()
}

const LOGIN: &str = r#"{"path":"/login?header=Set-Cookie:sid={{seq}}","name":"login"}
{"path":"/cart","name":"cart","header":{"Cookie":"lang=en; sid=old"}}
"#;

#[test]
fn a_connection_sends_the_cookies_that_it_got() {
    for options in [
        &[][..],
        &["-R200"],
        &["--no-keepalive"],
        &["--http2"],
        &["--http2", "-R200"],
    ] {
        for site in [site_with(recording()), with_tls(recording())] {
            let file = site.folder.file_with("shop.jsonl", LOGIN);
            let options = [&["--cookies", "--by-name", "--requests", &file], options].concat();
            let run = load(&site).connections(1).requests(4).with(&options).run();
            let run = run.expect_answers(4);
            let names = &run.result.recording.parts.by_name;
            let answered: Vec<u64> = names.iter().map(|name| name.answered).collect();
            assert_eq!(answered, [2, 2], "{options:?}");
            let sent: Vec<u64> = names.iter().map(|name| name.sent).collect();
            assert_eq!(sent, [2, 2], "{options:?}");
            let expected = ["", "lang=en; sid=1", "sid=1", "lang=en; sid=2"];
            assert_eq!(cookies(site), expected, "{options:?}");
        }
    }
}

#[test]
fn connections_do_not_share_cookies() {
    for options in [&[][..], &["--http2"], &["--pipeline", "1", "-t2"]] {
        let site = site_with(recording());
        let line = r#"{"path":"/?header=Set-Cookie:sid={{uuid}}"}"#;
        let file = site.folder.file_with("one.jsonl", line);
        let options = [&["--cookies", "--requests", &file], options].concat();
        let run = load(&site).connections(4).requests(40).with(&options);
        run.run().expect_answers(40);
        let all = cookies(site);
        let without = all.iter().filter(|cookie| cookie.is_empty()).count();
        assert_eq!(without, 4, "{options:?}");
        let different: BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), 37, "{options:?}");
    }
}

#[test]
fn fixed_requests_streams_pipelines_and_scripts_send_cookies_too() {
    const SCRIPT: &str = "function request()\n\
                          return wrk.format('GET', '/?size=9&header=Set-Cookie:a=1')\n\
                          end\n\
                          function response(status, headers, body) assert(#body == 9) end\n";
    for options in [
        &["--pipeline", "3"][..],
        &["--http2", "-m3"],
        &["-s"],
        &["--http2", "-m2", "-s"],
    ] {
        let site = site_with(recording());
        let script = site.folder.file_with("a.lua", SCRIPT);
        let mut options = [&["--cookies"], options].concat();
        if options.contains(&"-s") {
            options.push(&script);
        }
        let run = load(&site).url(&site.url("/?size=9&header=Set-Cookie:a=1"));
        let run = run.connections(1).requests(12).with(&options).run();
        run.expect_answers(12);
        let all = cookies(site);
        assert!(
            all.iter()
                .all(|cookie| cookie.is_empty() || cookie == "a=1")
        );
        assert_eq!(all.last().map(String::as_str), Some("a=1"), "{options:?}");
    }
}

#[test]
fn without_the_option_no_cookie_is_kept() {
    let site = site_with(recording());
    let url = site.url("/?header=Set-Cookie:a=1");
    let run = load(&site).url(&url).connections(1).requests(3).run();
    run.expect_answers(3);
    assert_eq!(cookies(site), ["", "", ""]);
}
