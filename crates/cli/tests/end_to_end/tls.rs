//! https: versions, resumption, certificates.

use origin::{Identity, Options, TlsSettings, TlsVersions};
use results::ErrorKind;
use testkit::one_line;

use crate::harness::{Site, load, site, site_with};

pub(crate) fn identity() -> Identity {
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
fn sessions_are_resumed_unless_full_handshakes_are_asked_for() {
    let site = https();
    let resumed = |options: &[&str]| {
        let run = load(&site).connections(1).requests(20);
        let run = run.with(&["--no-keepalive"]).with(options).run();
        let run = run.expect_answers(20);
        let counters = &run.result.recording.counters;
        assert_eq!(counters.tls_full + counters.tls_resumed, 20);
        counters.tls_resumed
    };
    assert_eq!(resumed(&[]), 19);
    assert_eq!(resumed(&["--tls-resume", "on"]), 19);
    assert_eq!(resumed(&["--tls-resume=off"]), 0);
}

#[test]
fn both_tls_versions_work_with_one_handshake_for_each_connection() {
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
        // The first two connections have no ticket; nearly all others have one.
        assert!(counters.tls_full >= 1, "{}", run.story());
        assert!(counters.tls_resumed >= 40, "{versions:?} {}", run.story());
    }
}

#[test]
fn bodies_of_any_length_arrive() {
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
fn a_self_signed_certificate_is_refused_only_with_verification() {
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

    // With a number of requests, it is not tried again and again.
    let run = load(&site)
        .requests(20)
        .with(&["--cacert", &ca, "--json", "-"]);
    let output = run.output();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains(&reason), "{}", output.stderr);
    let said = "only 0 of 20 requests were sent (-n): the run gave up, since every connection was \
                refused, which another attempt does not change";
    assert!(output.stdout.contains(said), "{}", output.stdout);
}

#[test]
fn invalid_certificate_files_are_one_line_and_start_nothing() {
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
fn pipelined_requests_after_an_unannounced_end_are_lost_with_and_without_tls() {
    // The first ends without the closing alert of TLS, the second with it.
    for target in ["/?close=silent", "/?fault=fin-after-answer"] {
        for site in [https(), site()] {
            let run = load(&site).at(target).connections(2).requests(80);
            let run = run.with(&["--pipeline", "4"]).run();
            run.expect_ends_behind_answers(80, 8);
        }
    }
}

#[test]
fn an_address_and_a_name_work_as_host() {
    let site = https();
    let url = site.url("/").replace("127.0.0.1", "localhost");
    load(&site).url(&url).requests(20).run().expect_answers(20);
    load(&site).requests(20).run().expect_answers(20);
}

#[test]
fn a_wrong_scheme_is_reported_with_the_right_one() {
    let (plain, tls) = (site(), https());
    for (url, said) in [
        (plain.url("/").replace("http:", "https:"), "use http://"),
        (tls.url("/").replace("https:", "http:"), "use https://"),
    ] {
        let run = load(&plain).url(&url).connections(1).for_ms(300);
        let ended = run.output();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
    let refusing = site();
    let run = load(&refusing).at("/?status=400").requests(10).run();
    assert!(
        run.stderr
            .contains("every response was 400: if the port speaks TLS, use https://"),
        "{}",
        run.stderr
    );
}
