//! Values of responses that later requests of the same connection send.

use std::collections::{BTreeMap, BTreeSet};

use origin::Options;
use results::ErrorKind;
use testkit::{Folder, one_line};

use crate::harness::{Call, Site, io_arguments, load, program, site, site_with};
use crate::judge;
use crate::proxies::with_tls;

const SHOP: &str = r####"# @name login
# @capture token $.data.token
POST /login?echo

{"data":{"token":"{{uuid}}"}}
### list
GET /list?size=9
### buy
GET /buy?size=9
Authorization: Bearer {{token}}
"####;

fn recording() -> Options {
    Options {
        record_requests: 10_000,
        ..Options::default()
    }
}

/// What a server received: the path's first part, and the token in the body or in the header.
fn received(site: Site) -> Vec<(String, String)> {
    let one = |request: Vec<u8>| {
        let text = String::from_utf8(request).unwrap();
        let known = ["/login", "/list", "/buy"];
        let path = known.into_iter().find(|path| text.contains(path));
        let behind = |mark: &str| text.split_once(mark).map(|(_, rest)| rest.to_owned());
        let token = behind("\"token\":\"").or_else(|| behind("Bearer "));
        let token = token.map(|token| token.chars().take(36).collect());
        (path.unwrap().to_owned(), token.unwrap_or_default())
    };
    site.stop().recorded.into_iter().map(one).collect()
}

#[test]
fn a_connection_sends_the_values_that_it_captured() {
    for options in [
        &[][..],
        &["-R200"],
        &["--no-keepalive"],
        &["--cookies"],
        &["--http2"],
        &["--http2", "-R200"],
    ] {
        for site in [site_with(recording()), with_tls(recording())] {
            let file = site.folder.file_with("shop.jsonl", SHOP);
            let options = [&["--by-name", "--requests", &file], options].concat();
            let run = load(&site).connections(1).requests(6).with(&options).run();
            let run = run.expect_answers(6);
            let names = &run.result.recording.parts.by_name;
            let answered: Vec<u64> = names.iter().map(|name| name.answered).collect();
            assert_eq!(answered, [2, 2, 2], "{options:?}");
            let all = received(site);
            let paths: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).collect();
            let expected = ["/login", "/list", "/buy", "/login", "/list", "/buy"];
            assert_eq!(paths, expected, "{options:?}");
            assert_eq!(all[0].1.len(), 36, "{options:?}");
            assert_eq!(
                (&all[2].1, &all[5].1),
                (&all[0].1, &all[3].1),
                "{options:?}"
            );
            assert_ne!(all[0].1, all[3].1, "{options:?}");
        }
    }
}

#[test]
fn each_connection_is_a_client_of_its_own() {
    for options in [&["-t2"][..], &["-t2", "-R600"], &["--http2"]] {
        let site = site_with(recording());
        let file = site.folder.file_with("shop.jsonl", SHOP);
        let options = [&["--requests", &file], options].concat();
        let run = load(&site).connections(8).requests(240).with(&options);
        run.run().expect_answers(240);
        let mut tokens: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut purchases = 0;
        for (path, token) in received(site) {
            let path = if path == "/buy" { "buy" } else { "login" };
            purchases += u32::from(path == "buy");
            if !token.is_empty() {
                tokens.entry(path).or_default().insert(token);
            }
        }
        // A token is used once, by the connection that has it.
        assert_eq!(tokens["buy"].len(), purchases as usize, "{options:?}");
        assert!(tokens["buy"].is_subset(&tokens["login"]), "{options:?}");
        assert!(purchases > 40, "{options:?}: {purchases}");
    }
}

#[test]
fn a_missing_value_is_an_error_of_the_request_that_captures_it() {
    for options in [&[][..], &["--http2"], &["-R200"]] {
        let site = site_with(recording());
        let shop = SHOP.replace("?echo", "?size=20");
        let file = site.folder.file_with("shop.jsonl", &shop);
        let options = [&["--by-name", "--requests", &file], options].concat();
        let run = load(&site).connections(2).requests(20).with(&options);
        let run = run.run_to_failure().expect_only(ErrorKind::MissingValue);
        assert_eq!(run.failed(ErrorKind::MissingValue), 20, "{options:?}");
        let login = &run.result.recording.parts.by_name[0];
        assert_eq!((login.name.as_str(), login.answered), ("login", 0));
        let errors = login.errors.count(ErrorKind::MissingValue).exchanges;
        assert_eq!(errors, 20, "{options:?}");
        // What needs the value is not sent, and neither is what comes between.
        assert!(received(site).iter().all(|(path, _)| path == "/login"));
    }
}

#[test]
fn a_response_with_an_error_status_counts_by_its_status() {
    let site = site_with(recording());
    let shop = SHOP.replace("?echo", "?status=503");
    let file = site.folder.file_with("shop.jsonl", &shop);
    let run = load(&site)
        .connections(1)
        .requests(5)
        .with(&["--requests", &file]);
    run.run().expect_answered_only().expect_status(503);
    assert!(received(site).iter().all(|(path, _)| path == "/login"));
}

#[test]
fn clients_begin_again_after_a_failed_login() {
    let site = site_with(Options {
        record_requests: 10_000,
        seed: 7,
        ..Options::default()
    });
    let shop = SHOP.replace("?echo", "?echo&mix=0.5:reset");
    let file = site.folder.file_with("shop.jsonl", &shop);
    let run = load(&site)
        .connections(2)
        .requests(200)
        .with(&["--requests", &file]);
    let run = run.run();
    assert!(run.failed(ErrorKind::Reset) > 10, "{}", run.story());
    drop(run);
    let all = received(site);
    let sent = |path: &str| all.iter().filter(|it| it.0 == path).count();
    assert!(sent("/login") > sent("/list") + 10, "{all:?}");
    let bought = all.iter().filter(|(path, _)| path == "/buy");
    assert!(bought.clone().count() > 20, "{all:?}");
    assert!(
        bought.clone().all(|(_, token)| token.len() == 36),
        "{all:?}"
    );
}

#[test]
fn a_client_takes_its_values_from_host_to_host() {
    for options in [&[][..], &["-R300"]] {
        let sites = [site_with(recording()), site_with(recording())];
        let [a, b] = sites
            .each_ref()
            .map(|site| format!("http://{}", site.authority()));
        let shop = SHOP.replace("GET /buy", &format!("GET {b}/buy"));
        let shop = shop.replace("POST /login", &format!("POST {a}/login"));
        let folder = Folder::new();
        let file = folder.file_with("shop.jsonl", &shop);
        let json = folder.file("result.json");
        let mut command = program(&["-t1", "-c2", "-n60", "-T2s", "--requests", &file]);
        command
            .args(io_arguments())
            .args(["--json", &json])
            .args(options);
        let output = Call::of(&command).finish();
        assert_eq!(output.code, Some(0), "{options:?} {output:?}");
        let result = judge::document(&std::fs::read(&json).unwrap());
        assert_eq!(result.recording.counters.answered, 60, "{options:?}");
        let [a, b] = sites.map(received);
        let tokens = |all: Vec<(String, String)>| -> BTreeSet<String> {
            let known = all.into_iter().map(|(_, token)| token);
            known.filter(|token| !token.is_empty()).collect()
        };
        let (logins, bought) = (tokens(a), tokens(b));
        assert!(
            bought.len() >= 19 && bought.is_subset(&logins),
            "{options:?}"
        );
    }
}

#[test]
fn what_keeps_clients_from_waiting_is_refused() {
    let site = site();
    let file = site.folder.file_with("shop.jsonl", SHOP);
    for (options, message) in [
        (
            &["--pipeline", "4"][..],
            "--pipeline 4: requests of the file capture values",
        ),
        (
            &["--http2", "-m4"],
            "--streams 4: requests of the file capture values",
        ),
        (
            &["--order", "random"],
            "captured values need requests in sequence (remove --order)",
        ),
    ] {
        let options = [&["--requests", &file], options].concat();
        let output = load(&site).with(&options).output();
        assert_eq!(output.code, Some(1), "{options:?} {output:?}");
        assert!(
            one_line(&output.stderr).contains(message),
            "{options:?} {output:?}"
        );
    }
}
