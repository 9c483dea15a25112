//! nginx: static files, odd but right answers, limits of keep-alive, https.

use std::path::Path;
use std::process::{Command, Stdio};

use results::RunResult;

use crate::daemon::{Daemon, installed};
use crate::place::{Place, free_port, is_root};
use crate::trial::{
    CONNECTIONS, SEEN_BEYOND, assert_bytes, assert_clean, assert_logged, each_backend, sample,
};

/// A line of nginx's configuration for all addresses, whatever a test asks for.
const LOCATIONS: &str = r#"
    location = /return { return 200 "hello\n"; }
    location = /none { return 204; }
    location = /moved { return 301 /return; }
    location = /absent { return 404 "nothing here\n"; }
    location = /ten { keepalive_requests 10; return 200 "hello\n"; }
    location = /close { keepalive_timeout 0; return 200 "hello\n"; }
    location = /packed.html { gzip on; gzip_min_length 1; }
"#;

/// A running nginx.
pub(crate) struct Nginx {
    daemon: Daemon,
    pub(crate) place: Place,
    pub(crate) port: u16,
}

impl Nginx {
    /// `None` if it is not installed. `extra` are more lines of the `server` block.
    pub(crate) fn start(test: &str, extra: &str) -> Option<Self> {
        Self::start_in(Place::new(test), "", extra)
    }

    /// With a listener such as ` ssl`, and files that are already there.
    pub(crate) fn start_in(place: Place, listener: &str, extra: &str) -> Option<Self> {
        let program = installed(&["nginx"])?;
        place.folder("www");
        place.file("www/page.html", "x".repeat(10_000));
        place.file("www/packed.html", "pack me, ".repeat(3_000));
        let (daemon, port) = Daemon::start("start worker process", || {
            let port = free_port();
            let text = configuration(&place, port, listener, extra);
            let file = place.file("nginx.conf", text);
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
    pub(crate) fn end(self) -> Place {
        self.daemon.end("QUIT");
        self.place
    }

    /// Ends it, and counts what it logged.
    pub(crate) fn logged(self, target: &str) -> u64 {
        completed(&self.end().read("access.log"), target)
    }
}

/// Lines of a log that are requests for this target, answered to the end.
fn completed(log: &str, target: &str) -> u64 {
    let begin = format!("{target} OK ");
    log.lines().filter(|line| line.starts_with(&begin)).count() as u64
}

fn command(program: &Path, place: &Place, file: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p", &place.path(""), "-c", file]);
    command
}

fn configuration(place: &Place, port: u16, listener: &str, extra: &str) -> String {
    let at = place.path("");
    let user = if is_root() { "user root;" } else { "" };
    format!(
        "daemon off;\n{user}\nworker_processes 1;\npid {at}/nginx.pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           log_format seen '$request_uri $request_completion $status $ssl_protocol $ssl_session_reused';\n\
           access_log {at}/access.log seen;\n\
           client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n\
           fastcgi_temp_path {at}/fastcgi;\n  uwsgi_temp_path {at}/uwsgi;\n\
           scgi_temp_path {at}/scgi;\n\
           types {{ text/html html; }}\n  default_type text/plain;\n\
           keepalive_requests 100000000;\n\
           server {{\n    listen 127.0.0.1:{port}{listener};\n    listen unix:{at}/nginx.sock;\n\
             root {at}/www;\n{LOCATIONS}{extra}\n  }}\n}}\n"
    )
}

/// Loads one path; compares with curl's answer and with nginx's log. `of_curl` asks curl for the
/// same as `of_ours` asks us.
fn load(test: &str, path: &str, status: u16, of_ours: &[&str], of_curl: &[&str]) -> Vec<RunResult> {
    let Some(nginx) = Nginx::start(test, "") else {
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
    load("nginx-static", "/page.html", 200, &[], &[]);
}

#[test]
fn an_answer_without_a_file() {
    load("nginx-return", "/return", 200, &[], &[]);
}

#[test]
fn an_answer_without_a_body_a_redirect_and_a_missing_page() {
    load("nginx-none", "/none", 204, &[], &[]);
    load("nginx-moved", "/moved", 301, &[], &[]);
    load("nginx-absent", "/absent", 404, &[], &[]);
}

#[test]
fn head_of_a_static_file_announces_a_body_that_does_not_come() {
    // wrk waits for it for ever.
    for result in load(
        "nginx-head",
        "/page.html",
        200,
        &["-X", "HEAD"],
        &["--head"],
    ) {
        assert!(result.recording.counters.bytes < result.recording.counters.answered * 1000);
    }
}

#[test]
fn a_file_that_has_not_changed_since() {
    let Some(nginx) = Nginx::start("nginx-304", "") else {
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
fn a_compressed_answer_in_chunks() {
    let header = ["-H", "Accept-Encoding: gzip"];
    for result in load("nginx-gzip", "/packed.html", 200, &header, &header) {
        // 27 kB, packed.
        assert!(result.recording.counters.bytes < result.recording.counters.answered * 2000);
    }
}

#[test]
fn a_body_that_is_sent_with_each_request_and_dropped() {
    let extra = "location = /post { return 200 'hello'; }";
    let Some(nginx) = Nginx::start("nginx-body", extra) else {
        return;
    };
    let body = nginx.place.file("upload", "y".repeat(100_000));
    let results = each_backend(&["--body-file", &body], &nginx.url("/post"));
    for result in &results {
        assert_clean(result, 200);
    }
    assert_logged(&results, 0, nginx.logged("/post"));
}

#[test]
fn connections_that_end_after_ten_requests_as_announced_are_no_errors() {
    let Some(nginx) = Nginx::start("nginx-ten", "") else {
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
fn connections_that_the_server_ends_after_each_request_are_no_errors() {
    let Some(nginx) = Nginx::start("nginx-close", "") else {
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
fn connections_that_we_end_after_each_request() {
    let of_curl = ["-H", "Connection: close"];
    for result in load(
        "nginx-no-keepalive",
        "/return",
        200,
        &["--no-keepalive"],
        &of_curl,
    ) {
        let counters = &result.recording.counters;
        assert!(
            counters.connections_opened >= counters.answered,
            "{counters:?}"
        );
    }
}

#[test]
fn several_requests_on_the_way_at_once() {
    let Some(nginx) = Nginx::start("nginx-pipeline", "") else {
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
    let Some(nginx) = Nginx::start("nginx-unix", "") else {
        return;
    };
    let socket = nginx.place.path("nginx.sock");
    let options = ["--unix-socket", &socket];
    let results = each_backend(&options, "http://localhost/page.html");
    for result in &results {
        assert_clean(result, 200);
    }
    assert_logged(&results, 0, nginx.logged("/page.html"));
}

#[test]
fn a_number_of_requests_is_exactly_that() {
    let Some(nginx) = Nginx::start("nginx-number", "") else {
        return;
    };
    let results = each_backend(&["-n2000", "-d1m"], &nginx.url("/return"));
    for result in &results {
        assert_clean(result, 200);
        assert_eq!(result.recording.counters.answered, 2000);
    }
    assert_logged(&results, 0, nginx.logged("/return"));
}

/// nginx with TLS of one version, and a certificate that openssl makes.
fn start_tls(test: &str, version: &str) -> Option<Nginx> {
    let openssl = installed(&["openssl"])?;
    let place = Place::new(test);
    let (key, cert) = (place.path("key.pem"), place.path("cert.pem"));
    let status = Command::new(openssl)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        // Without this openssl makes an authority, which may not be a server as well.
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &cert])
        .stderr(Stdio::null())
        .status()
        .expect("openssl starts");
    assert!(status.success());
    let extra = format!(
        "    ssl_certificate {cert};\n    ssl_certificate_key {key};\n    ssl_protocols {version};\n\
             ssl_session_cache shared:tls:1m;\n"
    );
    Nginx::start_in(place, " ssl", &extra)
}

fn https(test: &str, version: &str) {
    let Some(nginx) = start_tls(test, version) else {
        return;
    };
    let url = nginx.url("/page.html").replace("http:", "https:");
    let of_one = sample(&[], &url);
    let cert = nginx.place.path("cert.pem");
    // With verification too: the certificate is made for this address.
    let keeping = each_backend(&["--cacert", &cert], &url);
    for result in &keeping {
        assert_clean(result, 200);
        assert_bytes(result, of_one.bytes);
        let counters = &result.recording.counters;
        assert_eq!(counters.connections_opened, CONNECTIONS);
        assert_eq!(counters.tls_full + counters.tls_resumed, CONNECTIONS);
    }
    // A connection for each request: the later ones resume the session.
    let url = url.replace("/page.html", "/return");
    let resuming = each_backend(&["--no-keepalive"], &url);
    for result in &resuming {
        assert_clean(result, 200);
        let counters = &result.recording.counters;
        let handshakes = counters.tls_full + counters.tls_resumed;
        // A handshake may be on its way at the end.
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

/// nginx saw this version only, and on `/return` as many resumed sessions as we did: each of these
/// requests had a connection of its own.
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
    // We count a handshake as it ends, nginx writes its line with the answer.
    let open = SEEN_BEYOND * results.len() as u64;
    assert!(of_nginx.abs_diff(of_ours) <= open, "{of_nginx}, {of_ours}");
}

#[test]
fn https_with_tls_1_2() {
    https("nginx-tls12", "TLSv1.2");
}

#[test]
fn https_with_tls_1_3() {
    https("nginx-tls13", "TLSv1.3");
}

#[test]
fn http_to_the_port_of_https_is_an_answer_with_status_400() {
    let Some(nginx) = start_tls("nginx-plain", "TLSv1.3") else {
        return;
    };
    for result in each_backend(&[], &nginx.url("/page.html")) {
        assert_clean(&result, 400);
    }
}
