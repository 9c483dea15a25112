//! Tokens of language models: `--events llm`, `--good`.

use origin::Options;
use results::{ErrorKind, GoodRecording, LlmRecording};

use crate::harness::{Run, Site, load, site, site_with};

const MS: u64 = 1_000_000;

fn llm<'r>(run: &'r Run<'_>) -> &'r LlmRecording {
    let llm = run.result.recording.parts.llm.as_ref();
    llm.unwrap_or_else(|| panic!("{}", run.story()))
}

/// Expects the tokens that arrived in the window, of responses that each have so many: all of those
/// that ended in it, and a part of the others.
fn assert_output(run: &Run<'_>, tokens: u64) {
    let llm = llm(run);
    let ended = llm.responses - run.result.recording.counters.answered_in_drain;
    let expected = tokens * ended..=tokens * llm.responses;
    assert!(expected.contains(&llm.output_tokens), "{}", run.story());
}

/// A run of a model's server over each protocol.
fn over_each_protocol(recipe: &str, more: &[&str], check: impl Fn(&Run<'_>)) {
    for protocol in [&["--http2"][..], &[]] {
        let site = site();
        let run = load(&site).at(&format!("/v1/x?{recipe}")).connections(4);
        let run = run.for_ms(700).with(&["--events", "llm"]);
        check(&run.with(protocol).with(more).run());
    }
}

#[test]
fn tokens_of_each_format_are_counted_and_timed() {
    for (dialect, has_input) in [
        ("openai", true),
        ("completions", true),
        ("responses", true),
        ("anthropic", true),
        ("ollama", true),
    ] {
        let recipe = format!("llm={dialect}&tokens=6&first=60ms&gap=10ms&prompt=11");
        over_each_protocol(&recipe, &[], |run| {
            let (llm, story) = (llm(run), run.story());
            assert!(llm.responses > 0, "{story}");
            assert_eq!(llm.responses, run.answered(), "{story}");
            let of_response = &llm.output_per_response;
            let extremes = (of_response.min_ns(), of_response.max_ns());
            assert_eq!(extremes, (Some(6), Some(6)), "{story}");
            assert_output(run, 6);
            assert_eq!(llm.input_tokens > 0, has_input, "{story}");
            let drained = run.result.recording.counters.answered_in_drain;
            assert_eq!(llm.input_tokens, 11 * (llm.responses - drained), "{story}");
            assert_eq!(llm.counted_as_events, 0, "{story}");
            assert_eq!(
                (llm.without_tokens, llm.malformed_events),
                (0, 0),
                "{story}"
            );
            assert_eq!(llm.finish.stop, llm.responses, "{story}");
            // The prelude came at once. The server sends the last token no sooner than after 60 ms
            // and five gaps. Gaps say less: on a busy machine, tokens are read together.
            assert!(llm.first_token.min_ns() >= Some(60 * MS), "{story}");
            let latency = run.result.recording.latency();
            assert!(latency.min_ns() >= Some(109 * MS), "{story}");
            assert_eq!(llm.time_per_token.count(), llm.responses, "{story}");
            assert!(llm.token_gap.count() > 0, "{story}");
            let events = run.result.recording.parts.events.as_ref();
            assert_eq!(events.map(|it| it.unfinished), Some(0), "{story}");
            assert!(run.stdout.contains("\n  First token "), "{story}");
            assert!(run.stdout.contains("\nTokens/sec: "), "{story}");
            assert!(!run.stdout.contains("\n  First event "), "{story}");
            // Responses that arrive together are no stall of a server that streams.
            assert!(!run.stderr.contains("stalled"), "{story}");
        });
    }
}

#[test]
fn a_named_format_is_read_and_another_one_has_no_tokens() {
    let recipe = "llm=anthropic&tokens=3";
    over_each_protocol(recipe, &["--events-dialect", "anthropic"], |run| {
        assert_eq!(llm(run).without_tokens, 0, "{}", run.story());
    });
    over_each_protocol(recipe, &["--events-dialect", "openai"], |run| {
        let llm = llm(run);
        assert!(llm.responses > 0 && llm.without_tokens == llm.responses);
        let asked = "had a token: does the request ask for a stream (\"stream\": true)?";
        assert!(run.stderr.contains(asked), "{}", run.story());
    });
}

#[test]
fn reasoning_comes_before_text_and_several_tokens_in_an_event_are_counted_by_the_server() {
    let recipe = "llm=openai&tokens=12&reasoning=6&per-event=3&first=30ms&gap=30ms";
    over_each_protocol(recipe, &[], |run| {
        let (llm, story) = (llm(run), run.story());
        assert!(llm.responses > 0, "{story}");
        assert_output(run, 12);
        // The third event has the first text.
        assert!(llm.first_text.min_ns() >= Some(90 * MS), "{story}");
        assert!(run.stdout.contains("\n  First text "), "{story}");
        // Four events, three gaps, and 11 tokens behind the first one.
        let per_token_ns = llm.time_per_token.min_ns().unwrap_or_default();
        assert!(per_token_ns >= 90 * MS / 11 - MS, "{story}");
    });
}

#[test]
fn without_counts_of_the_server_the_report_says_that_events_were_counted() {
    over_each_protocol("llm=openai&tokens=4&usage=none", &[], |run| {
        let (llm, story) = (llm(run), run.story());
        assert_eq!(llm.counted_as_events, llm.responses, "{story}");
        assert_output(run, 4);
        assert!(
            run.stdout.contains(", tokens counted by events\n"),
            "{story}"
        );
    });
}

#[test]
fn an_error_within_a_stream_is_a_failed_request_whatever_its_status() {
    for dialect in ["openai", "responses", "anthropic", "ollama"] {
        let recipe = format!("llm={dialect}&tokens=4&llm-error=2");
        for protocol in [&["--http2"][..], &[]] {
            let site = site();
            let run = load(&site).at(&format!("/?{recipe}")).requests(20);
            let run = run
                .with(&["--events", "llm"])
                .with(protocol)
                .run_to_failure();
            let (llm, story) = (llm(&run), run.story());
            assert_eq!(run.failed(ErrorKind::StreamError), 20, "{story}");
            assert_eq!((llm.responses, llm.errors), (0, 20), "{story}");
        }
    }
}

/// What the server's log says about requests of which half have their first token late.
fn good_in_log(site: Site, limit_ns: u64) -> u64 {
    let log = site.stop().requests;
    let is_good = |first_ns: Option<u64>, arrival_ns: u64| {
        first_ns.is_some_and(|first_ns| first_ns - arrival_ns < limit_ns)
    };
    let generated = log.iter().filter_map(|request| {
        let generated = request.generated.as_ref()?;
        Some(is_good(generated.first_token_ns, request.arrival_ns))
    });
    generated.filter(|is_good| *is_good).count() as u64
}

#[test]
fn good_requests_are_those_of_the_servers_log() {
    let site = site_with(Options {
        log_requests: 1_000,
        ..Options::default()
    });
    // Late ones are far beyond the limit, and others far below it.
    let recipe = "llm=openai&tokens=3&first=bimodal:40%,2ms,700ms&gap=1ms";
    let run = load(&site)
        .at(&format!("/?{recipe}"))
        .connections(8)
        .requests(60)
        .with(&["--events", "llm", "--good", "first_token<350ms, latency<1h"])
        .run()
        .expect_answers(60);
    let story = run.story();
    let parts = &run.result.recording.parts;
    let good = parts.good.expect("requests are judged");
    drop(run);
    let truth = good_in_log(site, 350 * MS);
    let expected = GoodRecording {
        good: truth,
        bad: 60 - truth,
        ended: Some(truth),
        ..GoodRecording::default()
    };
    assert_eq!(good, expected, "{story}");
    assert!(truth > 0 && truth < 60, "{story}");
}

#[test]
fn answers_that_outlast_the_window_are_read_after_it_over_each_protocol() {
    for more in [&[][..], &["--http2"], &["-R8"], &["-t2"], &["--local", "2"]] {
        let site = site();
        // Each takes 1.5 s.
        let run = load(&site).at("/?llm=openai&tokens=16&gap=100ms");
        let run = run.connections(8).for_ms(1_000).timeout_ms(20_000);
        let run = run.with(&["--events", "llm", "--good", "latency<1h"]);
        let run = run.with(more).run();
        let (recording, story) = (&run.result.recording, run.story());
        let counters = &recording.counters;
        assert_eq!(counters.sent, 8, "{story}");
        assert_eq!((counters.answered, counters.in_flight), (8, 0), "{story}");
        assert_eq!(counters.answered_in_drain, 8, "{story}");
        let llm = llm(&run);
        assert_eq!(llm.output_per_response.min_ns(), Some(16), "{story}");
        // What came before the end of the window.
        assert!(llm.output_tokens > 0, "{story}");
        assert!(llm.output_tokens < 16 * 8, "{story}");
        let good = recording.good_requests().expect("requests are judged");
        assert_eq!((good.good, good.responses()), (8, 0), "{story}");
        assert!(run.result.window.drained_ns.is_some(), "{story}");
        assert!(
            run.stderr.contains("note: 8 responses read after"),
            "{story}"
        );
    }
}

#[test]
fn ctrl_c_ends_a_run_that_is_drained_with_its_report() {
    let site = site();
    let run = load(&site).at("/?delay=1m").connections(4);
    let run = run.for_ms(100).timeout_ms(3_600_000);
    let mut running = run.with(&["--drain", "1h", "-R40"]).start();
    running.await_banner();
    site.await_counts("all requests", |counts| counts.requests >= 4);
    running.process.signal("INT");
    let run = running.finish();
    let counters = &run.result.recording.counters;
    assert_eq!(counters.sent, 4, "{}", run.story());
    assert_eq!(counters.in_flight, 4, "{}", run.story());
}

#[test]
fn answers_that_are_cut_off_are_not_good_and_fail_the_conditions() {
    let site = site();
    let judged = |recipe: &str, more: &[&str]| {
        let load = load(&site).at(&format!("/?{recipe}")).connections(4);
        let load = load.with(&["--events", "llm", "--good", "latency<1h"]);
        load.with(more).output()
    };
    let cut = "llm=openai&tokens=16&llm-cut=8";
    let passes = ["-n", "40", "--fail-if", "goodput<95%"];
    let failed = judged(cut, &passes);
    assert_eq!(failed.code, Some(2), "{failed:?}");
    for wanted in [
        "\nGood:         0 % of 40 requests",
        "40 of 40 streams ended without",
    ] {
        let all = format!("{}{}", failed.stdout, failed.stderr);
        assert!(all.contains(wanted), "{wanted}: {all}");
    }
    let whole = judged("llm=openai&tokens=16&llm-cut=20", &passes);
    assert_eq!(whole.code, Some(0), "{whole:?}");
}

#[test]
fn goodput_is_a_condition_and_needs_limits() {
    let site = site();
    let output = |options: &[&str]| {
        let load = load(&site).at("/?delay=20ms").for_ms(300);
        load.with(options).output()
    };
    let passed = output(&["--good", "latency<1h", "--fail-if", "goodput<99%"]);
    assert_eq!(passed.code, Some(0), "{passed:?}");
    assert!(
        passed.stdout.contains("\nGood:         100 % of "),
        "{passed:?}"
    );
    let failed = output(&["--good", "latency<10ms", "--fail-if", "goodput<99%"]);
    assert_eq!(failed.code, Some(2), "{failed:?}");
    let unknown = output(&["--fail-if", "goodput<99%"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("no request was judged (--good)"),
        "{unknown:?}"
    );
    for (limits, expected) in [
        (
            "first_token<1s",
            "wrkbench: --good first_token: is only known of a language model's tokens",
        ),
        (
            "p99<1s",
            "wrkbench: --good: \"p99\" is not a time of a request",
        ),
    ] {
        let refused = output(&["--good", limits]);
        let line = refused.only_line();
        assert!(line.starts_with(expected), "{line}");
        assert_eq!(refused.code, Some(1));
    }
}

#[test]
fn tokens_of_a_fleet_are_those_of_all_agents() {
    let site = site();
    let run = load(&site)
        .at("/?llm=openai&tokens=5&prompt=7")
        .requests(40)
        .with(&[
            "--local",
            "2",
            "--events",
            "llm",
            "--good",
            "first_token<1h",
        ])
        .run()
        .expect_answers(40);
    let (llm, story) = (llm(&run), run.story());
    assert_eq!((llm.responses, llm.output_tokens), (40, 200), "{story}");
    assert_eq!(
        (llm.first_token.count(), llm.input_tokens),
        (40, 280),
        "{story}"
    );
    let parts = &run.result.recording.parts;
    let good = parts.good.expect("requests are judged");
    assert_eq!((good.good, good.bad), (40, 0), "{story}");
}

#[test]
fn a_request_gets_the_number_of_tokens_that_its_body_asks_for() {
    for (body, tokens) in [
        (r#"{"max_tokens":5}"#, 5),
        (r#"{"options":{"num_predict":7}}"#, 7),
        // What cannot be read asks for nothing.
        (r#"{"max_tokens":5"#, 64),
        ("max_tokens=5", 64),
    ] {
        let recipe = "llm=openai&tokens=asked&gap=1ms";
        over_each_protocol(recipe, &["--body", body], |run| {
            let of_response = &llm(run).output_per_response;
            let extremes = (of_response.min_ns(), of_response.max_ns());
            assert_eq!(extremes, (Some(tokens), Some(tokens)), "{}", run.story());
        });
    }
    // Without a body it is the default.
    over_each_protocol("llm=openai&tokens=asked&gap=1ms", &[], |run| {
        assert_eq!(
            llm(run).output_per_response.max_ns(),
            Some(64),
            "{}",
            run.story()
        );
    });
}
