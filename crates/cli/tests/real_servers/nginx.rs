//! nginx: static files, unusual but valid responses, limits of keep-alive, https.

use std::path::Path;
use std::process::Command;

use plan::{Alpn, Protocol};
use results::file::load_trial;
use results::{ErrorKind, RunResult};

use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::trial::{
    CONNECTIONS, SEEN_BEYOND, assert_bytes, assert_clean, assert_logged, backends, each_backend,
    run, sample,
};
use testkit::{Folder, Process, eventually, is_root, require};

/// The locations in the configuration of nginx for all tests.
const LOCATIONS: &str = r#"
    location = /return { return 200 "hello\n"; }
    location = /none { return 204; }
    location = /moved { return 301 /return; }
    location = /absent { return 404 "nothing here\n"; }
    location = /ten { keepalive_requests 10; return 200 "hello\n"; }
    location = /close { keepalive_timeout 0; return 200 "hello\n"; }
    location = /limited.html {
        limit_req zone=all burst=60 nodelay;
        limit_req_log_level info;
        try_files /page.html =404;
    }
    location = /packed.html { gzip on; gzip_min_length 1; }
"#;

/// A running nginx, which is killed on drop.
pub(crate) struct Nginx {
    daemon: Daemon,
    pub(crate) place: Folder,
    pub(crate) port: u16,
}

impl Nginx {
    /// `None` if it is not installed. `extra` are more lines of the `server` block.
    pub(crate) fn start(extra: &str) -> Option<Self> {
        Self::start_in(Folder::for_all_users(), "", extra)
    }

    /// The same in an existing folder, with options of the listener such as ` ssl`.
    pub(crate) fn start_in(place: Folder, listener: &str, extra: &str) -> Option<Self> {
        let program = require("nginx")?;
        place.folder("www");
        place.file_with("www/page.html", "x".repeat(10_000));
        place.file_with("www/packed.html", "pack me, ".repeat(3_000));
        let (daemon, port) = Daemon::start("start worker process", || {
            let port = free_port();
            let text = configuration(&place, port, listener, extra);
            let file = place.file_with("nginx.conf", text);
            (command(&program, &place, &file), port)
        });
        Some(Self {
            daemon,
            place,
            port,
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Ends it, so that its log is complete.
    pub(crate) fn end(self) -> Folder {
        self.daemon.end("QUIT");
        self.place
    }

    /// Ends it and counts the lines of its log.
    pub(crate) fn logged(self, target: &str) -> u64 {
        completed(&self.end().read("access.log"), target)
    }
}

/// The lines of a log with complete responses for this target.
fn completed(log: &str, target: &str) -> u64 {
    let begin = format!("{target} OK ");
    log.lines().filter(|line| line.starts_with(&begin)).count() as u64
}

fn command(program: &Path, place: &Folder, file: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p", &place.file(""), "-c", file]);
    command
}

fn configuration(place: &Folder, port: u16, listener: &str, extra: &str) -> String {
    let at = place.file("");
    let user = if is_root() { "user root;" } else { "" };
    format!(
        "daemon off;\n{user}\nworker_processes 1;\npid {at}/nginx.pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           log_format seen '$request_uri $request_completion $status $ssl_protocol \
           $ssl_session_reused';\n\
           log_format times '$msec $request_time $status $request';\n\
           access_log {at}/access.log seen;\n\
           client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n\
           fastcgi_temp_path {at}/fastcgi;\n  uwsgi_temp_path {at}/uwsgi;\n\
           scgi_temp_path {at}/scgi;\n\
           types {{ text/html html; }}\n  default_type text/plain;\n\
           keepalive_requests 100000000;\n\
           limit_req_zone $server_port zone=all:1m rate=200r/s;\n\
           server {{\n    listen 127.0.0.1:{port}{listener};\n    listen unix:{at}/nginx.sock;\n\
             root {at}/www;\n{LOCATIONS}{extra}\n  }}\n}}\n"
    )
}

/// Loads one path and compares the result with a response that curl gets and with the log of nginx.
/// `of_ours` and `of_curl` are the same options for wrkbench and curl.
fn load(path: &str, status: u16, of_ours: &[&str], of_curl: &[&str]) -> Vec<RunResult> {
    let Some(nginx) = Nginx::start("") else {
        return Vec::new();
    };
    let url = nginx.url(path);
    let of_one = sample(of_curl, &url);
    assert_eq!(of_one.status, status, "{of_one:?}");
    let results = each_backend(of_ours, &url);
    for result in &results {
        assert_clean(result, status);
        assert_bytes(result, of_one.bytes);
    }
    assert_logged(&results, 1, nginx.logged(path));
    results
}

#[test]
fn a_static_file() {
    load("/page.html", 200, &[], &[]);
}

#[test]
fn a_response_without_a_file() {
    load("/return", 200, &[], &[]);
}

#[test]
fn a_response_without_a_body_a_redirect_and_a_missing_page() {
    load("/none", 204, &[], &[]);
    load("/moved", 301, &[], &[]);
    load("/absent", 404, &[], &[]);
}

#[test]
fn head_of_a_static_file_announces_a_body_and_sends_none() {
    // wrk waits for the body forever.
    for result in load("/page.html", 200, &["-X", "HEAD"], &["--head"]) {
        assert!(result.recording.counters.bytes < result.recording.counters.answered * 1000);
    }
}

#[test]
fn a_file_that_is_not_modified() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let url = nginx.url("/page.html");
    let head = sample(&["--head"], &url).head;
    let etag = head.lines().find_map(|line| line.strip_prefix("ETag: "));
    let header = format!("If-None-Match: {}", etag.expect("nginx gives one"));
    let of_one = sample(&["-H", &header], &url);
    assert_eq!(of_one.status, 304);
    for result in each_backend(&["-H", &header], &url) {
        assert_clean(&result, 304);
        assert_bytes(&result, of_one.bytes);
    }
}

#[test]
fn a_compressed_response_in_chunks() {
    let header = ["-H", "Accept-Encoding: gzip"];
    for result in load("/packed.html", 200, &header, &header) {
        // 27 kB before compression.
        assert!(result.recording.counters.bytes < result.recording.counters.answered * 2000);
    }
}

#[test]
fn a_request_body_that_the_server_drops() {
    let extra = "location = /post { return 200 'hello'; }";
    let Some(nginx) = Nginx::start(extra) else {
        return;
    };
    let body = nginx.place.file_with("upload", "y".repeat(100_000));
    let results = each_backend(&["--body-file", &body], &nginx.url("/post"));
    for result in &results {
        assert_clean(result, 200);
    }
    assert_logged(&results, 0, nginx.logged("/post"));
}

#[test]
fn connections_closed_after_ten_responses_as_announced_are_no_errors() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let results = each_backend(&[], &nginx.url("/ten"));
    for result in &results {
        assert_clean(result, 200);
        let counters = &result.recording.counters;
        let (least, most) = (counters.answered / 10, counters.sent / 10 + CONNECTIONS);
        assert!(
            (least..=most).contains(&counters.connections_opened),
            "{counters:?}"
        );
        assert!(counters.reconnects >= counters.answered / 10 - CONNECTIONS);
    }
    assert_logged(&results, 0, nginx.logged("/ten"));
}

#[test]
fn connections_closed_after_each_response_are_no_errors() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let results = each_backend(&[], &nginx.url("/close"));
    for result in &results {
        assert_clean(result, 200);
        let counters = &result.recording.counters;
        assert!(
            counters.connections_opened >= counters.answered,
            "{counters:?}"
        );
    }
    assert_logged(&results, 0, nginx.logged("/close"));
}

#[test]
fn connections_that_wrkbench_closes_after_each_request() {
    let of_curl = ["-H", "Connection: close"];
    for result in load("/return", 200, &["--no-keepalive"], &of_curl) {
        let counters = &result.recording.counters;
        assert!(
            counters.connections_opened >= counters.answered,
            "{counters:?}"
        );
    }
}

#[test]
fn several_requests_in_flight() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let url = nginx.url("/page.html");
    let of_one = sample(&[], &url);
    for result in each_backend(&["--pipeline", "16"], &url) {
        let recording = &result.recording;
        assert_eq!(recording.errors.iter().count(), 0, "{:?}", recording.errors);
        assert_eq!(recording.statuses.count(200), recording.counters.answered);
        assert!(recording.counters.bytes >= recording.counters.answered * of_one.bytes);
        assert!(recording.counters.answered > 0);
        assert!(recording.counters.in_flight <= 16 * CONNECTIONS);
    }
}

#[test]
fn a_unix_socket() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let socket = nginx.place.file("nginx.sock");
    let options = ["--unix-socket", &socket];
    let results = each_backend(&options, "http://localhost/page.html");
    for result in &results {
        assert_clean(result, 200);
    }
    assert_logged(&results, 0, nginx.logged("/page.html"));
}

#[test]
fn a_number_of_requests_is_exactly_that() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let results = each_backend(&["-n2000", "-d1m"], &nginx.url("/return"));
    for result in &results {
        assert_clean(result, 200);
        assert_eq!(result.recording.counters.answered, 2000);
    }
    assert_logged(&results, 0, nginx.logged("/return"));
}

/// nginx with TLS of one version, and a certificate for a key on P-256.
fn start_tls(version: &str, listener: &str) -> Option<Nginx> {
    start_tls_with_key(version, listener, "P-256")
}

/// nginx with TLS of one version, and a certificate that openssl makes for a key on this curve.
fn start_tls_with_key(version: &str, listener: &str, curve: &str) -> Option<Nginx> {
    let place = Folder::for_all_users();
    let Certificate { key, chain } = Certificate::on_curve(&place, curve)?;
    let extra = format!(
        "    ssl_certificate {chain};\n    ssl_certificate_key {key};\n    ssl_protocols \
         {version};\n\
             ssl_session_cache shared:tls:1m;\n"
    );
    Nginx::start_in(place, &format!(" ssl{listener}"), &extra)
}

/// Loads nginx over HTTP/2, with 32 requests in flight. Every request that is logged as complete
/// has a response, and there are no errors.
fn http2(nginx: Option<Nginx>, scheme: &str) {
    let Some(nginx) = nginx else { return };
    let url = nginx.url("/page.html").replace("http:", scheme);
    let results = each_backend(&["--http2", "-m4"], &url);
    let mut answered = 0;
    for result in &results {
        let recording = &result.recording;
        let counters = &recording.counters;
        assert_eq!(recording.errors.iter().collect::<Vec<_>>(), []);
        assert_eq!(
            recording.statuses.iter().collect::<Vec<_>>(),
            [(200, counters.answered)]
        );
        assert!(counters.answered > 0);
        // The body of 10,000 bytes, and at least two frames.
        assert!(counters.bytes >= counters.answered * (10_000 + 2 * 9));
        answered += counters.answered;
    }
    // Requests in flight at the end of a run may be in the log.
    let most = answered + results.len() as u64 * (4 * CONNECTIONS + 1);
    let logged = nginx.logged("/page.html");
    assert!(
        (answered..=most).contains(&logged),
        "{answered}..={most}: {logged}"
    );
}

#[test]
fn http2_with_prior_knowledge() {
    http2(
        Nginx::start_in(Folder::for_all_users(), " http2", ""),
        "http:",
    );
}

#[test]
fn http2_over_tls() {
    http2(start_tls("TLSv1.3", " http2"), "https:");
}

#[test]
fn the_server_chooses_among_the_offered_protocols() {
    for (listener, protocol, version) in [
        (" http2", Protocol::Http2, "HTTP/2"),
        ("", Protocol::Http1, "HTTP/1.1"),
    ] {
        let Some(nginx) = start_tls("TLSv1.3", listener) else {
            return;
        };
        let url = nginx.url("/return").replace("http:", "https:");
        let results = each_backend(&["--alpn", "h2,http/1.1", "-n200", "-d1m"], &url);
        for result in &results {
            assert_clean(result, 200);
            assert_eq!(result.plan.load.protocol, protocol, "{version}");
            assert_eq!(result.plan.tls.alpn, [Alpn::Http2, Alpn::Http1]);
        }
        assert_logged(&results, 0, nginx.logged("/return"));
    }
}

#[test]
fn a_server_without_http2_is_refused_where_it_is_required() {
    let Some(nginx) = start_tls("TLSv1.3", "") else {
        return;
    };
    let url = nginx.url("/return").replace("http:", "https:");
    for (arguments, said) in [
        (
            &["--alpn", "h2,http/1.1", "-m4"][..],
            "--alpn h2,http/1.1: the server chose http/1.1, which has no streams (--streams)",
        ),
        (
            &["--http2", "--alpn", "h2,http/1.1", "-d1s"],
            "no request succeeded: the server chose another protocol over TLS (ALPN)",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
            .args(arguments)
            .arg(&url)
            .output()
            .expect("the program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
}

/// A server that replaces connections loses no request but those that it did not process.
#[test]
fn http2_with_a_limit_of_requests_per_connection() {
    let place = Folder::for_all_users();
    // With HTTP/2 the limit of a location has no effect.
    let extra = "    keepalive_requests 10;\n";
    let Some(nginx) = Nginx::start_in(place, " http2", extra) else {
        return;
    };
    let results = each_backend(&["--http2", "-m4", "-n500", "-d1m"], &nginx.url("/return"));
    for result in &results {
        let recording = &result.recording;
        let failed = recording
            .errors
            .count(ErrorKind::GoawayUnprocessed)
            .exchanges;
        assert_eq!(recording.errors.exchanges(), failed);
        assert_eq!(recording.counters.answered + failed, 500);
        assert!(
            recording.counters.reconnects >= 30,
            "{:?}",
            recording.counters
        );
    }
    let answered = results
        .iter()
        .map(|result| result.recording.counters.answered);
    let answered = answered.sum::<u64>();
    assert_eq!(nginx.logged("/return"), answered);
}

/// A reload in the middle of a run loses no request but those that the server refused.
#[test]
fn http2_with_reloads_in_the_middle_of_a_run() {
    const REQUESTS: u64 = 6000;
    let arguments = ["--http2", "-m4", "-n6000", "--rate=3000", "-d1m"];
    let Some(mut nginx) = Nginx::start_in(Folder::for_all_users(), " http2", "") else {
        return;
    };
    let url = nginx.url("/return");
    let mut answered = 0;
    for io in backends() {
        let result = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(io, &arguments, &url));
            for reload in 1..=3 {
                eventually(|| {
                    let logged = completed(&nginx.place.read("access.log"), "/return");
                    if logged > answered + reload * 1000 {
                        Ok(())
                    } else {
                        Err(format!("{logged} requests"))
                    }
                });
                nginx.daemon.signal("HUP");
                let has_stopped = nginx.daemon.wait_for("gracefully shutting down");
                has_stopped.expect("the old worker process ends");
            }
            running.join().expect("the run ends")
        });
        let recording = &result.recording;
        let refused = recording
            .errors
            .count(ErrorKind::GoawayUnprocessed)
            .exchanges;
        assert_eq!(recording.errors.exchanges(), refused);
        assert_eq!(recording.counters.answered + refused, REQUESTS);
        assert!(recording.counters.reconnects >= CONNECTIONS);
        answered += recording.counters.answered;
    }
    assert_eq!(nginx.logged("/return"), answered);
}

fn https(version: &str) {
    let Some(nginx) = start_tls(version, "") else {
        return;
    };
    let url = nginx.url("/page.html").replace("http:", "https:");
    let of_one = sample(&[], &url);
    let cert = nginx.place.file("cert.pem");
    // With verification too: the certificate is made for this address.
    let keeping = each_backend(&["--cacert", &cert], &url);
    for result in &keeping {
        assert_clean(result, 200);
        assert_bytes(result, of_one.bytes);
        let counters = &result.recording.counters;
        assert_eq!(counters.connections_opened, CONNECTIONS);
        assert_eq!(counters.tls_full + counters.tls_resumed, CONNECTIONS);
    }
    // With one connection for each request, the later ones resume the session.
    let url = url.replace("/page.html", "/return");
    let resuming = each_backend(&["--no-keepalive"], &url);
    for result in &resuming {
        assert_clean(result, 200);
        let counters = &result.recording.counters;
        let handshakes = counters.tls_full + counters.tls_resumed;
        // A handshake may be unfinished at the end.
        let open = counters.connections_opened - handshakes;
        assert!(open <= CONNECTIONS, "{counters:?}");
        assert!(counters.tls_full <= 4 * CONNECTIONS, "{counters:?}");
        assert!(counters.tls_resumed > 0, "{counters:?}");
    }
    let place = nginx.end();
    let log = place.read("access.log");
    assert_logged(&keeping, 1, completed(&log, "/page.html"));
    assert_logged(&resuming, 0, completed(&log, "/return"));
    assert_handshakes(&log, version, &resuming);
}

/// nginx saw only this version, and as many resumed sessions on `/return` as wrkbench, since each
/// of these requests had its own connection.
fn assert_handshakes(log: &str, version: &str, results: &[RunResult]) {
    let (resumed, full) = (format!(" {version} r"), format!(" {version} ."));
    for line in log.lines() {
        assert!(line.ends_with(&resumed) || line.ends_with(&full), "{line}");
    }
    let of_each = results
        .iter()
        .map(|result| result.recording.counters.tls_resumed);
    let of_ours: u64 = of_each.sum();
    let of_nginx = log
        .lines()
        .filter(|line| line.starts_with("/return ") && line.ends_with(&resumed))
        .count() as u64;
    // wrkbench counts a handshake at its end, nginx writes its line after the response.
    let open = SEEN_BEYOND * results.len() as u64;
    assert!(of_nginx.abs_diff(of_ours) <= open, "{of_nginx}, {of_ours}");
}

#[test]
fn https_with_tls_1_2() {
    https("TLSv1.2");
}

#[test]
fn https_with_tls_1_3() {
    https("TLSv1.3");
}

/// The TLS library cannot verify such a signature, and without `--verify` nobody has to.
#[test]
fn https_with_a_certificate_for_a_key_on_p_521() {
    let Some(nginx) = start_tls_with_key("TLSv1.3", "", "P-521") else {
        return;
    };
    let url = nginx.url("/return").replace("http:", "https:");
    for result in &each_backend(&["-n100", "-d1m"], &url) {
        assert_clean(result, 200);
    }
}

#[test]
fn a_search_finds_the_rate_that_limit_req_lets_pass() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let folder = Folder::new();
    let [results, journal] = ["results", "journal"].map(|name| folder.file(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    command
        .args(["search", "--slo", "status<2%", "--precision=20%"])
        .args(["-t1", "-c8", "-d2s", "--warmup=0s", "--budget=70s"])
        .args(["--results", &results, "--journal", &journal])
        .arg(nginx.url("/limited.html"));
    let output = Process::start(command).finish();
    let outcome = std::fs::read_dir(folder.file("results/trials"))
        .expect("trials were saved")
        .map(|file| std::fs::read(file.expect("it is there").path()).expect("it is readable"))
        .map(|trial| load_trial(&trial).expect("it is a trial"))
        .find_map(|trial| trial.search?.outcome);
    // 200/s for ever, and once in a run up to 60 more.
    let is_true = |rate: f64| (150.0..260.0).contains(&rate);
    if let Some(rate) = outcome.and_then(|outcome| outcome.rate_per_sec) {
        assert!(is_true(rate), "{rate}: {output:?}");
        return;
    }
    // On a busy machine the budget may end before there is an interval: then what is said so far
    // must be true, whose one or two rates are the first numbers of the answer.
    let answer = output.stdout.lines().next().unwrap_or_default();
    let rates = match answer.strip_prefix("undecided, so far ") {
        Some(range) if range.starts_with("between ") => 2,
        Some(bound) if bound.starts_with("at least ") => 1,
        _ => panic!("{output:?}"),
    };
    let numbers = answer
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let said: Vec<f64> = numbers.take(rates).collect();
    assert!(
        said.len() == rates && said.into_iter().all(is_true),
        "{output:?}"
    );
}

#[test]
fn http_to_an_https_port_gets_status_400() {
    let Some(nginx) = start_tls("TLSv1.3", "") else {
        return;
    };
    for result in each_backend(&[], &nginx.url("/page.html")) {
        assert_clean(&result, 400);
    }
}

/// The line of docs/slowest.md.
const SERVER_TIMING: &str = concat!(
    r#"add_header Server-Timing 'total;dur="${request_time}e3", "#,
    r#"upstream;dur="${upstream_header_time}e3"' always;"#
);

#[test]
fn the_times_that_nginx_states_are_read_from_the_line_in_the_documents() {
    let documents = include_str!("../../../../docs/slowest.md");
    assert!(documents.contains(SERVER_TIMING), "{SERVER_TIMING}");
    let Some(behind) = Nginx::start("") else {
        return;
    };
    let proxied = format!(
        "{SERVER_TIMING}\nlocation = /behind {{ proxy_pass http://127.0.0.1:{}/return; }}",
        behind.port
    );
    let nginx = Nginx::start(&proxied).expect("it was there before");
    for (path, expected) in [
        ("/return", &["total"][..]),
        ("/absent", &["total"][..]),
        ("/behind", &["total", "upstream"][..]),
    ] {
        let result = run("epoll", &["--server-timing"], &nginx.url(path));
        let answered = result.recording.counters.answered;
        let breakdown = result.recording.parts.breakdown.expect("it was asked for");
        let names: Vec<&str> = breakdown
            .server_timing
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        assert_eq!(names, expected, "{path}");
        assert_eq!(breakdown.with_server_timing, answered, "{path}");
        let counts = breakdown.server_timing.iter().map(|it| it.times.count());
        assert_eq!(counts.min(), Some(answered), "{path}");
    }
}
