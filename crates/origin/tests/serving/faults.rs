//! Faults, as a client sees them.

use std::io::ErrorKind;

use origin::Options;

use crate::client::{Client, on_each_backend, request};

/// What comes for a fault until FIN; fails when the connection is reset instead.
fn until_fin(fault: &str, check: impl Fn(&str)) {
    on_each_backend(&Options::default(), |server| {
        let (text, end) = Client::raw(&server, &format!("/?size=6&fault={fault}"));
        assert!(end.is_ok(), "{fault}: {end:?}");
        check(&text);
    });
}

/// What comes for a fault until RST; fails when there is none.
fn until_reset(fault: &str, check: impl Fn(&str)) {
    on_each_backend(&Options::default(), |server| {
        let (text, end) = Client::raw(&server, &format!("/?size=6&fault={fault}"));
        let error = end.expect_err(fault);
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{fault}");
        check(&text);
    });
}

/// What comes for a request with this recipe and one with `close` behind it.
fn with_successor(recipe: &str, check: impl Fn(&str)) {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.ask(&format!("/?size=6&{recipe}"));
        client.ask("/?size=1&close");
        client.read_to_end().unwrap();
        let text = String::from_utf8_lossy(&client.input);
        let end = "Connection: close\r\n\r\na";
        assert!(text.ends_with(end), "{recipe}: {text:?}");
        check(&text);
    });
}

#[test]
fn resets_come_without_a_byte_after_the_head_in_the_body_and_after_the_response() {
    until_reset("reset", |text| assert_eq!(text, ""));
    until_reset("reset-after-head", |text| {
        assert!(text.ends_with("Length: 6\r\n\r\n"))
    });
    until_reset("reset-mid-body", |text| {
        assert!(text.ends_with("\r\n\r\nabc"))
    });
    until_reset("reset-after-answer", |text| {
        assert!(text.ends_with("\r\n\r\nabcdef"))
    });
}

#[test]
fn ends_come_without_a_byte_within_the_body_and_after_the_response() {
    until_fin("fin-before", |text| assert_eq!(text, ""));
    until_fin("truncate", |text| {
        assert!(text.ends_with("Length: 6\r\n\r\nabc"))
    });
    until_fin("fin-after-answer", |text| {
        assert!(text.ends_with("Length: 6\r\n\r\nabcdef"))
    });
}

#[test]
fn a_truncated_long_body_has_half_its_bytes() {
    on_each_backend(&Options::default(), |server| {
        for framing in ["", "&chunked"] {
            let target = format!("/?size=4M&fault=truncate{framing}");
            let (text, end) = Client::raw(&server, &target);
            assert!(end.is_ok());
            assert!(
                (2_000_000..2_100_000).contains(&text.len()),
                "{}",
                text.len()
            );
        }
    });
}

#[test]
fn silence_is_kept_until_the_client_goes() {
    for (fault, last) in [
        ("hang", ""),
        ("hang-after-head", "\r\n\r\n"),
        ("hang-mid-body", "\r\n\r\nabc"),
    ] {
        on_each_backend(&Options::default(), |server| {
            let mut client = Client::connect(&server);
            client.ask(&format!("/?size=6&fault={fault}"));
            // Another connection is served, and by then the first has all it will ever get.
            assert_eq!(Client::get(&server, "/").status(), "200");
            client.stream.shutdown(std::net::Shutdown::Write).unwrap();
            client.read_to_end().unwrap();
            let text = String::from_utf8_lossy(&client.input);
            assert!(text.ends_with(last), "{text:?}");
            assert_eq!(text.is_empty(), last.is_empty());
        });
    }
}

#[test]
fn drips_and_splits_are_whole_responses() {
    for fault in ["drip:100us", "split"] {
        on_each_backend(&Options::default(), |server| {
            let mut client = Client::connect(&server);
            client.ask(&format!("/?size=6&fault={fault}"));
            assert_eq!(client.response().body, b"abcdef");
        });
    }
}

#[test]
fn odd_framings_are_sent() {
    with_successor("header=Transfer-Encoding:chunked", |text| {
        assert!(text.contains("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"));
    });
    with_successor("header=Content-Length:7", |text| {
        assert!(text.contains("Length: 6\r\nContent-Length: 7\r\n"))
    });
    with_successor("status=304&header=Content-Length:6", |text| {
        assert!(text.starts_with("HTTP/1.1 304 ") && text.contains("Length: 6\r\n\r\nHTTP/1.1"));
    });
}

#[test]
fn endless_responses_go_on_until_the_client_goes() {
    for recipe in ["size=1000G", "size=1000G&chunked"] {
        on_each_backend(&Options::default(), |server| {
            let mut client = Client::connect(&server);
            client.ask(&format!("/?{recipe}"));
            while client.input.len() < 3_000_000 {
                assert!(client.read_some().unwrap() > 0);
            }
            drop(client);
            assert_eq!(Client::get(&server, "/").status(), "200");
            assert_eq!(server.stop().counts.responses, 1);
        });
    }
}

#[test]
fn a_mix_goes_wrong_as_often_as_asked_and_the_same_way_for_a_seed() {
    let outcomes = |seed| {
        let server = origin::Server::start(Options {
            seed,
            ..Options::default()
        })
        .unwrap();
        let whole: Vec<bool> = (0..400)
            .map(|_| {
                let (text, _) = Client::raw(&server, "/?size=6&mix=25%:truncate&close");
                text.ends_with("abcdef")
            })
            .collect();
        whole
    };
    let first = outcomes(3);
    let whole = first.iter().filter(|&&whole| whole).count();
    assert!((260..=340).contains(&whole), "{whole} of 400");
    assert_eq!(first, outcomes(3));
    assert_ne!(first, outcomes(4));
}

#[test]
fn a_fault_does_not_reach_the_requests_before_it() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.send(&(request("/").repeat(5) + &request("/?fault=fin-before")));
        for _ in 0..5 {
            assert_eq!(client.response().status(), "200");
        }
        assert!(client.is_at_end());
    });
}
