//! https: versions, resumption, verification, client certificates, faults.

use origin::{Greeting, Identity, Options, TlsSettings, TlsVersions};
use results::ErrorKind;

use crate::harness::{ENDS_BEHIND_AN_ANSWER, Site, load, one_line, site, site_with};

fn identity() -> Identity {
    Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap()
}

fn site_with_tls(settings: &TlsSettings, options: Options) -> Site {
    site_with(Options {
        tls: Some(settings.config().unwrap()),
        ..options
    })
}

fn https() -> Site {
    site_with_tls(&TlsSettings::new(identity()), Options::default())
}

#[test]
fn both_versions_are_spoken_and_each_connection_has_one_handshake() {
    for versions in [TlsVersions::Only12, TlsVersions::Only13, TlsVersions::Both] {
        let settings = TlsSettings {
            versions,
            ..TlsSettings::new(identity())
        };
        let site = site_with_tls(&settings, Options::default());
        let run = load(&site)
            .threads(2)
            .requests(200)
            .run()
            .expect_answers(200);
        let counters = &run.result.recording.counters;
        assert_eq!(counters.tls_full + counters.tls_resumed, run.opened());
        assert!(counters.tls_full >= 1, "{}", run.story());
        assert!(run.result.recording.phases.tls.min_ns().unwrap() > 0);
    }
}

#[test]
fn a_reconnect_resumes_the_session() {
    for versions in [TlsVersions::Only12, TlsVersions::Only13] {
        let settings = TlsSettings {
            versions,
            ..TlsSettings::new(identity())
        };
        let site = site_with_tls(&settings, Options::default());
        let run = load(&site).connections(2).requests(60);
        let run = run.with(&["--no-keepalive"]).run().expect_answers(60);
        let counters = &run.result.recording.counters;
        assert_eq!(run.opened(), 60);
        // Both first connections can have no ticket; nearly all others have one.
        assert!(counters.tls_full >= 1, "{}", run.story());
        assert!(counters.tls_resumed >= 40, "{versions:?} {}", run.story());
    }
}

#[test]
fn bodies_of_any_length_come_through() {
    for target in [
        "/?size=0",
        "/?size=100k",
        "/?size=3M",
        "/?size=1M&chunked",
        "/?size=100k&until-close",
    ] {
        let site = https();
        load(&site).at(target).requests(20).run().expect_answers(20);
    }
    let site = https();
    let path = site.folder.file_with("body", vec![b'x'; 1_000_000]);
    let run = load(&site).at("/?echo").connections(2).requests(8);
    run.with(&["--body-file", &path]).run().expect_answers(8);
}

#[test]
fn pipelining_and_scripts_work_inside_tls() {
    let site = https();
    let run = load(&site).requests(160).with(&["--pipeline", "8"]).run();
    run.expect_answers(160);
    let run = load(&site).requests(100);
    let run = run.script(
        "local n = 0
         function request() n = n + 1; return wrk.format('GET', '/?n=' .. n) end
         function response(status, headers, body) assert(status == 200 and #body == 63) end",
    );
    run.run().expect_answers(100);
}

#[test]
fn a_certificate_signed_by_itself_is_refused_only_when_it_is_looked_at() {
    let identity = identity();
    let site = site_with_tls(&TlsSettings::new(identity.clone()), Options::default());
    load(&site).requests(20).run().expect_answers(20);

    let ca = site.folder.file_with("ca.pem", &identity.certificate_pem);
    let run = load(&site).requests(20).with(&["--cacert", &ca]).run();
    run.expect_answers(20);

    let other = Identity::self_signed(&["localhost"]).unwrap();
    let ca = site.folder.file_with("other.pem", &other.certificate_pem);
    let run = load(&site).for_ms(200).with(&["--cacert", &ca]).run();
    let run = run.expect_only(ErrorKind::TlsCertificate);
    assert_eq!((run.sent(), run.answered()), (0, 0), "{}", run.story());
    let reason = format!(
        "{}: its signature is wrong",
        ErrorKind::TlsCertificate.describe()
    );
    assert!(one_line(&run.stderr).contains(&reason), "{}", run.stderr);
}

#[test]
fn verify_refuses_a_certificate_that_no_authority_of_the_system_has_signed() {
    let site = https();
    let run = load(&site).for_ms(200).with(&["--verify"]);
    let run = run.run().expect_only(ErrorKind::TlsCertificate);
    assert_eq!((run.code, run.answered()), (Some(1), 0));
    assert!(run.events(ErrorKind::TlsCertificate) > 0);
    assert_eq!(run.failed(ErrorKind::TlsCertificate), 0);
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let other = Identity::self_signed(&["example.test"]).unwrap();
    let site = site_with_tls(&TlsSettings::new(other.clone()), Options::default());
    let ca = site.folder.file_with("ca.pem", &other.certificate_pem);
    let run = load(&site).for_ms(200).with(&["--cacert", &ca]).run();
    run.expect_only(ErrorKind::TlsCertificate);
}

#[test]
fn a_client_certificate_is_shown_where_the_server_demands_one() {
    let own = Identity::self_signed(&["client"]).unwrap();
    for versions in [TlsVersions::Only12, TlsVersions::Only13] {
        let settings = TlsSettings {
            client_roots_pem: Some(own.certificate_pem.clone()),
            versions,
            ..TlsSettings::new(identity())
        };
        let site = site_with_tls(&settings, Options::default());
        let cert = site.folder.file_with("cert.pem", &own.certificate_pem);
        let key = site.folder.file_with("key.pem", &own.key_pem);
        let run = load(&site).requests(40);
        let run = run.with(&["--cert", &cert, "--key", &key]).run();
        run.expect_answers(40);

        let site = site_with_tls(&settings, Options::default());
        let run = load(&site).for_ms(200).run();
        // With 1.3 the refusal comes after the handshake, as the answer to a request (RFC 8446
        // section 4.4.2.4 and appendix C.5).
        let run = run.expect_only(ErrorKind::TlsAlert);
        assert_eq!(run.answered(), 0);
    }
}

#[test]
fn files_that_are_no_certificates_are_one_line_and_nothing_is_started() {
    let site = https();
    let text = site.folder.file_with("text", "no certificate");
    let own = identity();
    let cert = site.folder.file_with("cert.pem", &own.certificate_pem);
    let key = site.folder.file_with("key.pem", &own.key_pem);
    let other_key = site.folder.file_with("other.pem", identity().key_pem);
    for (options, option) in [
        (&["--cacert", "/no/such/file"][..], "--cacert "),
        (&["--cacert", &text], "--cacert: "),
        (&["--cert", &text, "--key", &key], "--cert: "),
        (&["--cert", &cert, "--key", &text], "--key: "),
        (&["--cert", &cert, "--key", &other_key], "--cert, --key: "),
        (&["--cert", &cert], "--cert "),
    ] {
        let output = load(&site).requests(1).with(options).output();
        let line = output.only_line();
        let expected = format!("wrkbench: {option}");
        assert!(line.starts_with(&expected), "{line}");
    }
    assert_eq!(site.counts().connections, 0);
}

#[test]
fn a_port_without_tls_is_called_so() {
    let site = site();
    let url = site.url("/").replace("http://", "https://");
    let run = load(&site).url(&url).for_ms(200).run();
    // A server that waits for the end of the head says nothing; ours answers 400 at once.
    let run = run.expect_only(ErrorKind::NotTls);
    assert_eq!(run.answered(), 0);
}

#[test]
fn a_port_with_tls_is_called_so() {
    let site = https();
    let url = site.url("/").replace("https://", "http://");
    let run = load(&site).url(&url).for_ms(200).run();
    let run = run.expect_only(ErrorKind::TlsOnPlain);
    assert_eq!(run.answered(), 0);
    assert!(site.counts().tls_failures > 0);
}

#[test]
fn what_a_server_does_during_the_handshake_is_counted_as_what_it_is() {
    for (greeting, kinds) in [
        (
            Greeting::Reset,
            &[ErrorKind::TlsClosed, ErrorKind::ConnectReset][..],
        ),
        (Greeting::Fin, &[ErrorKind::TlsClosed]),
        (Greeting::Stall, &[ErrorKind::ConnectTimeout]),
        (Greeting::Alert, &[ErrorKind::TlsAlert]),
        (Greeting::Garbage, &[ErrorKind::NotTls]),
    ] {
        let options = Options {
            greeting,
            ..Options::default()
        };
        let site = site_with_tls(&TlsSettings::new(identity()), options);
        let timeout_ms = if greeting == Greeting::Stall {
            60
        } else {
            30_000
        };
        let run = load(&site).for_ms(200).timeout_ms(timeout_ms).run();
        let found = run.kinds();
        assert!(!found.is_empty(), "{greeting:?}\n{}", run.story());
        assert!(
            found.iter().all(|kind| kinds.contains(kind)),
            "{greeting:?}\n{}",
            run.story()
        );
        assert_eq!((run.sent(), run.answered()), (0, 0), "{}", run.story());
    }
}

#[test]
fn faults_inside_tls_are_the_same_kinds() {
    for (fault, kind) in [
        ("reset", ErrorKind::Reset),
        ("reset-after-head", ErrorKind::Reset),
        ("fin-before", ErrorKind::ClosedEarly),
        ("truncate", ErrorKind::Truncated),
        ("garbage", ErrorKind::BadStatusLine),
        ("bad-chunk", ErrorKind::BadChunk),
        ("hang-mid-body", ErrorKind::Timeout),
        ("endless-head", ErrorKind::HeaderTooLarge),
    ] {
        let timeout_ms = if kind == ErrorKind::Timeout {
            300
        } else {
            30_000
        };
        let site = https();
        let run = load(&site).at(&format!("/?fault={fault}")).requests(6);
        let run = run.timeout_ms(timeout_ms).run().expect_only(kind);
        assert_eq!(
            (run.events(kind), run.failed(kind)),
            (6, 6),
            "{}",
            run.story()
        );

        let site = https();
        let run = load(&site).at(&format!("/?mix=30%:{fault}")).requests(40);
        let run = run.timeout_ms(timeout_ms).with(&["--no-keepalive"]).run();
        let run = run.expect_only(kind);
        assert_eq!(run.answered() + run.failed(kind), 40, "{}", run.story());
        assert!(run.answered() > 0, "{}", run.story());
    }
}

#[test]
fn a_missing_closing_alert_does_not_matter_between_answers_and_behind_a_body() {
    for target in [
        "/?until-close",
        "/?until-close&fault=no-close-notify",
        "/?close&fault=no-close-notify",
    ] {
        let site = https();
        load(&site).at(target).requests(20).run().expect_answers(20);
    }
}

#[test]
fn a_connection_that_ends_unannounced_costs_at_most_the_request_on_its_way() {
    for target in ENDS_BEHIND_AN_ANSWER {
        let site = https();
        let run = load(&site).at(target).requests(60).run();
        run.expect_ends_behind_answers(60, 30);
    }
}

#[test]
fn pipelined_requests_behind_an_unannounced_end_are_lost_with_and_without_tls() {
    // The first ends without TLS's closing alert, the second with it.
    for target in ["/?close=silent", "/?fault=half-close"] {
        for site in [https(), site()] {
            let run = load(&site).at(target).connections(2).requests(80);
            let run = run.with(&["--pipeline", "4"]).run();
            run.expect_ends_behind_answers(80, 8);
        }
    }
}

#[test]
fn an_idle_connection_that_the_server_closes_is_replaced_without_an_error() {
    let site = https();
    let run = load(&site).at("/?fault=idle-close:2ms").requests(8);
    let run = run.script("function delay() return 200 end").run();
    let run = run.expect_answers(8);
    assert!(
        run.result.recording.counters.reconnects > 0,
        "{}",
        run.story()
    );
}

#[test]
fn records_of_a_single_byte_are_put_together() {
    let site = https();
    load(&site)
        .at("/?fault=split&size=50")
        .requests(8)
        .run()
        .expect_answers(8);
}

#[test]
fn an_address_as_host_works_and_so_does_a_name() {
    let site = https();
    let url = site.url("/").replace("127.0.0.1", "localhost");
    load(&site).url(&url).requests(20).run().expect_answers(20);
    load(&site).requests(20).run().expect_answers(20);
}
