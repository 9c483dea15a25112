//! Generations: the streams of a language model's server.

use std::collections::BTreeSet;

use origin::{Generated, LoggedRequest, Options};

use crate::client::{Client, on_each_backend, request};

const MS: u64 = 1_000_000;

fn logged() -> Options {
    Options {
        log_requests: 100,
        ..Options::default()
    }
}

fn generated(request: &LoggedRequest) -> &Generated {
    request.generated.as_deref().expect("a generation")
}

fn text(body: &[u8]) -> String {
    String::from_utf8(body.to_vec()).unwrap()
}

#[test]
fn each_dialect_has_its_media_type_and_its_last_event() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        for (dialect, media_type, end) in [
            ("openai", "text/event-stream", "\n\ndata: [DONE]\n\n"),
            ("completions", "text/event-stream", "\n\ndata: [DONE]\n\n"),
            ("responses", "text/event-stream", "}}}}\n\n"),
            (
                "anthropic",
                "text/event-stream",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            ),
            ("ollama", "application/x-ndjson", "\"eval_count\":64}\n"),
        ] {
            // A body like that of a client, and a connection for all.
            client.send(&format!(
                "POST /v1/chat/completions?llm={dialect} HTTP/1.1\r\nHost: test\r\n\
                 Content-Length: 15\r\n\r\n{{\"stream\":true}}"
            ));
            let response = client.response();
            assert_eq!(response.status(), "200", "{dialect}");
            assert_eq!(response.header("content-type"), Some(media_type));
            assert_eq!(response.header("transfer-encoding"), Some("chunked"));
            let body = text(&response.body);
            assert!(body.ends_with(end), "{dialect}: {body}");
        }
        let counts = server.stop().counts;
        assert_eq!((counts.responses, counts.tokens_sent), (5, 5 * 64));
    });
}

#[test]
fn models_are_listed_and_a_wrong_key_is_refused() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        let mut ask = |target: &str, field: &str| {
            client.send(&format!(
                "GET {target} HTTP/1.1\r\nHost: test\r\n{field}\r\n"
            ));
            let response = client.response();
            let is_json = response.header("content-type") == Some("application/json");
            (response.status().to_owned(), text(&response.body), is_json)
        };
        let (status, body, is_json) = ask("/v1/models?llm=openai&models=a/b,c", "");
        assert_eq!((status.as_str(), is_json), ("200", true));
        let list: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
        let names = ["/data/0/id", "/data/1/id", "/data/2/id"];
        let found = names.map(|at| list.pointer(at).and_then(|it| it.as_str()));
        assert_eq!(found, [Some("a/b"), Some("c"), None], "{body}");
        // An ordinary server has no models.
        assert!(!ask("/v1/models", "").2);
        let target = "/v1?llm=openai&tokens=1&api-key=k";
        for (field, expected) in [
            ("", "401"),
            ("Authorization: Bearer x\r\n", "401"),
            ("Authorization: Bearer k\r\n", "200"),
            ("x-api-key: k\r\n", "200"),
        ] {
            let (status, body, is_json) = ask(target, field);
            assert_eq!(status, expected, "{field}");
            assert_eq!(is_json, expected == "401", "{body}");
        }
    });
}

#[test]
fn the_log_has_the_first_and_the_last_token_of_each_stream() {
    on_each_backend(&logged(), |server| {
        let mut client = Client::connect(&server);
        let target = "/?llm=openai&tokens=5&first=30ms&gap=5ms";
        for target in [
            target,
            target,
            "/?llm=anthropic&tokens=9&per-event=4&delay=10ms&prelude=5ms",
            "/?llm=ollama&tokens=5&llm-error=2",
            "/",
        ] {
            client.ask(target);
            assert_eq!(client.response().status(), "200");
        }
        let requests = server.stop().requests;
        for request in &requests[..2] {
            let found = generated(request);
            let (first_ns, last_ns) = (found.first_token_ns.unwrap(), found.last_token_ns.unwrap());
            assert!(first_ns >= request.arrival_ns + 30 * MS, "{request:?}");
            assert!(last_ns >= first_ns + 4 * 5 * MS, "{request:?}");
            assert!(request.departure_ns.unwrap() >= last_ns, "{request:?}");
            assert_eq!((found.tokens, found.is_failed), (5, false));
        }
        let request = &requests[2];
        let first_ns = generated(request).first_token_ns.unwrap();
        assert!(first_ns >= request.arrival_ns + 15 * MS, "{request:?}");
        assert_eq!(generated(request).tokens, 9);
        let failed = generated(&requests[3]);
        assert_eq!((failed.tokens, failed.is_failed), (2, true));
        assert_eq!(requests[3].status, 200);
        assert_eq!(requests[4].generated, None);
    });
}

#[test]
fn a_stream_that_the_client_leaves_has_the_tokens_until_then() {
    on_each_backend(&logged(), |server| {
        let mut client = Client::connect(&server);
        client.ask("/?llm=openai&prelude=none&gap=1h");
        client.until(b" the\"}").unwrap();
        drop(client);
        let report = server.stop();
        assert_eq!(generated(&report.requests[0]).tokens, 1);
        assert_eq!(report.requests[0].departure_ns, None);
        assert_eq!(report.counts.tokens_sent, 1);
    });
}

#[test]
fn streams_of_all_threads_slow_each_other_down() {
    let options = Options {
        threads: 2,
        ..logged()
    };
    on_each_backend(&options, |server| {
        let mut others: Vec<_> = (0..4).map(|_| Client::connect(&server)).collect();
        for other in &mut others {
            other.ask("/?llm=openai&first=1h");
            // With its prelude it has begun.
            other.until(b"\"role\"").unwrap();
        }
        let target = "/?llm=openai&tokens=3&gap=5ms&batch=2";
        assert_eq!(Client::get(&server, target).status(), "200");
        let report = server.stop();
        let found = report.requests.iter().map(generated);
        let found = found.max_by_key(|one| one.tokens).unwrap();
        let took_ns = found.last_token_ns.unwrap() - found.first_token_ns.unwrap();
        // Two gaps of 5 ms * (1 + 4 / 2).
        assert!(took_ns >= 30 * MS, "{took_ns}");
    });
}

#[test]
fn numbers_of_tokens_are_drawn_for_each_request() {
    on_each_backend(&logged(), |server| {
        let mut client = Client::connect(&server);
        for _ in 0..50 {
            client.ask("/?llm=ollama&tokens=uniform:3,30");
            client.response();
        }
        let requests = server.stop().requests;
        let counts: BTreeSet<_> = requests.iter().map(|one| generated(one).tokens).collect();
        assert!(counts.len() > 5, "{counts:?}");
        assert!(counts.iter().all(|tokens| (3..=30).contains(tokens)));
    });
}

#[test]
fn a_stream_that_is_cut_ends_after_half_of_its_events_with_tokens() {
    on_each_backend(&logged(), |server| {
        for fault in ["reset-mid-body", "truncate"] {
            let target = format!("/?llm=completions&tokens=9&per-event=2&fault={fault}");
            let (seen, _) = Client::raw(&server, &target);
            assert!(!seen.contains("[DONE]"), "{fault}: {seen}");
        }
        let report = server.stop();
        // Two events of five.
        assert!(report.requests.iter().all(|one| generated(one).tokens == 4));
        assert_eq!(report.counts.responses, 0);
    });
}

#[test]
fn a_stream_in_single_bytes_is_the_same_stream() {
    on_each_backend(&logged(), |server| {
        for dialect in ["openai", "anthropic", "ollama"] {
            let target = format!("/?llm={dialect}&tokens=3&first=1ms&gap=1ms");
            let whole = Client::get(&server, &target);
            for fault in ["split", "drip:10us"] {
                let found = Client::get(&server, &format!("{target}&fault={fault}"));
                assert_eq!(text(&found.body), text(&whole.body), "{dialect} {fault}");
            }
        }
        let requests = server.stop().requests;
        assert!(requests.iter().all(|one| generated(one).tokens == 3));
    });
}

#[test]
fn http_1_0_and_head_get_what_they_can_read() {
    on_each_backend(&Options::default(), |server| {
        let mut old = Client::connect(&server);
        old.send("GET /?llm=ollama&tokens=2 HTTP/1.0\r\n\r\n");
        let response = old.response();
        assert_eq!(response.header("transfer-encoding"), None);
        assert_eq!(text(&response.body).lines().count(), 3);
        let mut client = Client::connect(&server);
        client.send(&request("/?llm=openai&tokens=2").replace("GET", "HEAD"));
        let head = client.response_to_head();
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        client.ask("/");
        assert_eq!(client.response().body.len(), 63);
    });
}

#[test]
fn a_generation_that_nobody_reads_waits_and_keeps_nobody_else_waiting() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.ask("/?llm=openai&tokens=50000");
        assert_eq!(Client::get(&server, "/").status(), "200");
        let body = text(&client.response().body);
        assert_eq!(body.matches("\"content\":\" ").count(), 50_000);
    });
}

#[test]
fn wrong_parameters_are_answered_with_a_reason() {
    on_each_backend(&Options::default(), |server| {
        for (options, reason) in [
            ("llm=gpt", "llm: `gpt` is not a dialect: expected openai"),
            ("llm=openai&tokens=many", "tokens: `many` is not a number"),
            ("llm=ollama&tool=3", "tool: needs llm=openai"),
            ("llm=openai&events=3", "llm cannot be used with events"),
        ] {
            let response = Client::get(&server, &format!("/?{options}"));
            assert_eq!(response.status(), "400", "{options}");
            let body = text(&response.body);
            assert!(body.starts_with(reason), "{options}: {body}");
            assert_eq!(body.lines().count(), 1, "{body}");
        }
    });
}
