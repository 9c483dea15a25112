//! HTTP/2 in clear text and over TLS: Apache httpd, HAProxy, Caddy and H2O. What they log is what
//! wrkbench counts.

use std::path::Path;
use std::process::Command;

use results::RunResult;

use crate::apache;
use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::trial::each_backend;
use testkit::{Folder, is_root, require, require_any};

/// Does not divide evenly into connections and streams.
pub(crate) const REQUESTS: u64 = 1003;
pub(crate) const LOAD: [&str; 4] = ["--http2", "-m4", "-n1003", "-d1m"];

pub(crate) const PAGE: &str = "page.html";
const PAGE_BYTES: u64 = 20_000;

/// Puts the page that is loaded into a folder.
pub(crate) fn page(place: &Folder) {
    place.folder("www");
    let file = format!("www/{PAGE}");
    place.file_with(&file, "p".repeat(PAGE_BYTES as usize));
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const BOTH: [Self; 2] = [Self::Http, Self::Https];

    pub(crate) fn url(self, port: u16, path: &str) -> String {
        let scheme = match self {
            Self::Http => "http",
            Self::Https => "https",
        };
        format!("{scheme}://127.0.0.1:{port}/{path}")
    }
}

/// Every request is answered with 200.
pub(crate) fn assert_all_answered(results: &[RunResult]) {
    for result in results {
        let recording = &result.recording;
        assert_eq!(recording.errors.iter().collect::<Vec<_>>(), []);
        let statuses: Vec<_> = recording.statuses.iter().collect();
        assert_eq!(statuses, [(200, REQUESTS)]);
        assert_eq!(recording.counters.in_flight, 0);
    }
}

pub(crate) fn bytes_of(results: &[RunResult]) -> u64 {
    let bytes = results.iter().map(|result| result.recording.counters.bytes);
    bytes.sum()
}

/// Loads a server, over each scheme. It is given a folder and a port, and logs to stderr when it is
/// ready. `logged` gets the folder and the rest of stderr, and returns the bytes of each response
/// as the server has counted them.
fn load(
    ready: &str,
    start: impl Fn(Scheme, &Folder, u16) -> Option<Command>,
    logged: impl Fn(&Folder, &[String]) -> Vec<u64>,
    check: impl Fn(&[RunResult], &[u64]),
) {
    for scheme in Scheme::BOTH {
        let place = Folder::for_all_users();
        page(&place);
        if start(scheme, &place, 0).is_none() {
            return;
        }
        let (daemon, port) = Daemon::start(ready, || {
            let port = free_port();
            let command = start(scheme, &place, port);
            (command.expect("it was there before"), port)
        });
        let results = each_backend(&LOAD, &scheme.url(port, PAGE));
        let log = daemon.end("TERM");
        assert_all_answered(&results);
        let logged = logged(&place, &log);
        assert_eq!(logged.len() as u64, REQUESTS * results.len() as u64);
        check(&results, &logged);
    }
}

/// The numbers at the end of the lines that begin like this.
fn numbers<'a>(lines: impl Iterator<Item = &'a str>, begin: &str) -> Vec<u64> {
    let numbers = lines.filter_map(|line| line.strip_prefix(begin));
    numbers
        .map(|number| number.parse().expect("it is a number"))
        .collect()
}

/// The server has counted bodies. In addition there are a HEADERS frame, DATA frames and fields.
fn assert_bodies(results: &[RunResult], logged: &[u64]) {
    assert!(logged.iter().all(|bytes| *bytes == PAGE_BYTES));
    let responses = REQUESTS * results.len() as u64;
    let least = responses * (PAGE_BYTES + 2 * 9);
    let most = least + responses * 300;
    let bytes = bytes_of(results);
    assert!((least..=most).contains(&bytes), "{least}..={most}: {bytes}");
}

/// httpd counts the bytes of frames, as wrkbench does.
#[test]
fn apache_httpd() {
    let start = |scheme, place: &Folder, port| {
        let program = require_any(&["apache2", "httpd"])?;
        let tls = tls_of(scheme, place)?;
        let file = place.file_with("httpd.conf", httpd_configuration(place, port, tls.as_ref()));
        Some(apache::command(&program, &file))
    };
    let logged = |place: &Folder, _: &[String]| {
        numbers(place.read("access.log").lines(), &format!("/{PAGE} 200 "))
    };
    load(
        "resuming normal operations",
        start,
        logged,
        |results, logged| {
            assert_eq!(bytes_of(results), logged.iter().sum::<u64>());
        },
    );
}

fn httpd_configuration(place: &Folder, port: u16, tls: Option<&Certificate>) -> String {
    let at = place.file("");
    let tls = tls.map_or(String::new(), |Certificate { key, chain }| {
        format!("SSLEngine on\nSSLCertificateFile {chain}\nSSLCertificateKeyFile {key}\n")
    });
    let modules = apache::modules(&["authz_core", "mime", "mpm_event", "http2", "ssl"]);
    format!(
        "ServerRoot {at}\nServerName localhost\nDefaultRuntimeDir {at}\nPidFile {at}/httpd.pid\n\
         {modules}{}\nListen 127.0.0.1:{port}\nProtocols h2 h2c http/1.1\nErrorLog /dev/stderr\n\
         LogFormat \"%U %>s %O\" seen\nCustomLog {at}/access.log seen\nTypesConfig /dev/null\n\
         SSLSessionCache none\n{tls}DocumentRoot {at}/www\nH2MaxSessionStreams 100\n\
         <Directory {at}>\n  Require all granted\n</Directory>\n",
        apache::user()
    )
}

/// A proxy with a response of its own.
#[test]
fn haproxy() {
    let start = |scheme, place: &Folder, port| {
        let program = require("haproxy")?;
        let listener = match tls_of(scheme, place)? {
            None => "proto h2".to_owned(),
            Some(Certificate { key, chain }) => {
                let both = [key, chain].map(|file| read(&file)).concat();
                format!("ssl crt {} alpn h2", place.file_with("both.pem", both))
            }
        };
        let file = place.file_with("haproxy.cfg", haproxy_configuration(place, port, &listener));
        // It drops lines of its log that a pipe has no room for, and those of threads that would
        // have to wait for each other.
        let mut command = Command::new("sh");
        let log = place.file("access.log");
        command.args(["-c", "log=$1; shift; exec \"$@\" >>\"$log\"", "sh", &log]);
        command.arg(program).args(["-W", "-db", "-f", &file]);
        Some(command)
    };
    let logged =
        |place: &Folder, _: &[String]| numbers(place.read("access.log").lines(), "seen 200 ");
    // It counts the bytes of a head of HTTP/1.1, too.
    load("Loading success", start, logged, |results, logged| {
        let heads: u64 = logged.iter().map(|bytes| bytes - PAGE_BYTES).sum();
        assert!(heads < 200 * logged.len() as u64);
        assert_bodies(results, &vec![PAGE_BYTES; logged.len()]);
    });
}

fn haproxy_configuration(place: &Folder, port: u16, listener: &str) -> String {
    let page = place.file(&format!("www/{PAGE}"));
    format!(
        "global\n  nbthread 1\n  log stdout format raw local0\n  tune.bufsize 65536\n\
         defaults\n  mode http\n  log global\n  \
         log-format \"seen %ST %B\"\n  timeout client 60s\n  timeout server 60s\n  \
         timeout connect 60s\nfrontend all\n  bind 127.0.0.1:{port} {listener}\n  \
         http-request return status 200 content-type text/plain file {page}\n"
    )
}

#[test]
fn caddy() {
    let start = |scheme, place: &Folder, port| {
        let program = require("caddy")?;
        let tls = tls_of(scheme, place)?;
        let url = scheme.url(port, "");
        let file = place.file_with("Caddyfile", caddy_configuration(place, &url, tls.as_ref()));
        let mut command = Command::new(program);
        command.args(["run", "--adapter", "caddyfile", "--config", &file]);
        command.env("HOME", place.path());
        Some(command)
    };
    let logged = |place: &Folder, _: &[String]| {
        let log = place.read("access.log");
        let size = |line: &str| -> Option<u64> {
            let (_, rest) = line.split_once("\"size\":")?;
            rest.split_once(',')?.0.parse().ok()
        };
        log.lines().filter_map(size).collect()
    };
    load(
        "serving initial configuration",
        start,
        logged,
        assert_bodies,
    );
}

fn caddy_configuration(place: &Folder, url: &str, tls: Option<&Certificate>) -> String {
    let at = place.file("");
    let tls = tls.map_or(String::new(), |Certificate { key, chain }| {
        format!("  tls {chain} {key}\n")
    });
    let url = url.trim_end_matches('/');
    format!(
        "{{\n  admin off\n  auto_https off\n  storage file_system {at}/storage\n  \
         servers {{\n    protocols h1 h2 h2c\n  }}\n}}\n\
         {url} {{\n  bind 127.0.0.1\n{tls}  log {{\n    output file {at}/access.log\n  }}\n  \
         root * {at}/www\n  file_server\n}}\n"
    )
}

#[test]
fn h2o() {
    let start = |scheme, place: &Folder, port| {
        let program = require("h2o")?;
        let tls = tls_of(scheme, place)?;
        let file = place.file_with("h2o.conf", h2o_configuration(place, port, tls.as_ref()));
        let mut command = Command::new(program);
        command.args(["--mode", "worker", "--conf", &file]);
        Some(command)
    };
    let logged = |place: &Folder, _: &[String]| {
        numbers(place.read("access.log").lines(), &format!("/{PAGE} 200 "))
    };
    load("is ready to serve requests", start, logged, assert_bodies);
}

fn h2o_configuration(place: &Folder, port: u16, tls: Option<&Certificate>) -> String {
    let at = place.file("");
    let user = if is_root() { "user: root\n" } else { "" };
    let tls = tls.map_or(String::new(), |Certificate { key, chain }| {
        format!(
            "  ssl:\n    key-file: {key}\n    certificate-file: {chain}\n    \
             ocsp-update-interval: 0\n"
        )
    });
    format!(
        "{user}num-threads: 1\nlisten:\n  host: 127.0.0.1\n  port: {port}\n{tls}\
         access-log:\n  path: {at}/access.log\n  format: \"%U %s %b\"\n\
         hosts:\n  default:\n    paths:\n      /:\n        file.dir: {at}/www\n"
    )
}

/// The certificate that a scheme needs. The outer `None` means that there is no openssl.
#[expect(clippy::option_option, reason = "they mean different things")]
pub(crate) fn tls_of(scheme: Scheme, place: &Folder) -> Option<Option<Certificate>> {
    match scheme {
        Scheme::Http => Some(None),
        Scheme::Https => Certificate::make(place).map(Some),
    }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(file)).expect("openssl has made it")
}
