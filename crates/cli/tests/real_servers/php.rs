//! php-fpm behind nginx, by Unix socket and by TCP.

use std::path::PathBuf;
use std::process::Command;

use crate::daemon::{Daemon, free_port};
use crate::nginx::Nginx;
use crate::trial::{assert_clean, assert_logged, each_backend, sample};
use testkit::{Folder, is_root, require};

/// A page with a length, one in chunks, and one that checks what was sent.
const INDEX: &str = r#"<?php
$page = "<!doctype html><title>hello</title><p>" . str_repeat("php ", 50);
header("Content-Length: " . strlen($page));
echo $page;
"#;
const CHUNKED: &str = r#"<?php
for ($i = 0; $i < 5; $i++) {
    echo str_repeat("piece $i ", 200), "\n";
    flush();
}
"#;
const JUDGE: &str = r#"<?php
$body = file_get_contents("php://input");
$is_right = $_SERVER["REQUEST_METHOD"] === "POST"
    && $_SERVER["CONTENT_TYPE"] === "application/json"
    && json_decode($body) == json_decode('{"name": "wrkbench", "n": [1, 2]}');
http_response_code($is_right ? 201 : 400);
echo $is_right ? "as sent\n" : "not as sent: $body\n";
"#;
const POST: &str = r#"wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"name": "wrkbench", "n": [1, 2]}'
"#;

/// nginx in front of php-fpm.
struct Site {
    nginx: Nginx,
    _fpm: Daemon,
}

impl Site {
    fn start() -> Option<Self> {
        let fpm = installed_fpm()?;
        let place = Folder::for_all_users();
        place.folder("www");
        place.file_with("www/index.php", INDEX);
        place.file_with("www/chunked.php", CHUNKED);
        place.file_with("www/judge.php", JUDGE);
        let (daemon, port) = Daemon::start("ready to handle connections", || {
            let port = free_port();
            let file = place.file_with("fpm.conf", configuration(&place, port));
            let mut command = Command::new(&fpm);
            command.args(["-n", "-F", "-y", &file]);
            if is_root() {
                command.arg("--allow-to-run-as-root");
            }
            (command, port)
        });
        let at = place.file("");
        let locations = format!(
            "    index index.php;\n\
             location /tcp/ {{ {} fastcgi_pass 127.0.0.1:{port}; }}\n\
             location ~ \\.php$ {{ {} fastcgi_pass unix:{at}/fpm.sock; }}\n",
            parameters(&format!("{at}/www/index.php")),
            parameters("$document_root$fastcgi_script_name"),
        );
        Some(Self {
            nginx: Nginx::start_in(place, "", &locations)?,
            _fpm: daemon,
        })
    }
}

/// The parameters of a request that php needs.
fn parameters(script: &str) -> String {
    let fields = [
        ("SCRIPT_FILENAME", script),
        ("REQUEST_METHOD", "$request_method"),
        ("QUERY_STRING", "$query_string"),
        ("CONTENT_TYPE", "$content_type"),
        ("CONTENT_LENGTH", "$content_length"),
        ("REQUEST_URI", "$request_uri"),
        ("SERVER_PROTOCOL", "$server_protocol"),
    ];
    fields
        .map(|(name, value)| format!("fastcgi_param {name} {value};"))
        .join(" ")
}

fn configuration(place: &Folder, port: u16) -> String {
    let at = place.file("");
    let user = if is_root() { "user = root" } else { "" };
    let pool = |name, listen: &str| {
        format!("[{name}]\n{user}\nlisten = {listen}\npm = static\npm.max_children = 2\n")
    };
    format!(
        "[global]\nerror_log = /dev/stderr\ndaemonize = no\n{}{}",
        pool("unix", &format!("{at}/fpm.sock")),
        pool("tcp", &format!("127.0.0.1:{port}"))
    )
}

/// Debian names the program after PHP's version: php-fpm8.2.
fn installed_fpm() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/sbin").ok()?.find_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.starts_with("php-fpm").then_some(name)
    });
    require(found.as_deref().unwrap_or("php-fpm"))
}

/// Loads one page and compares the result with a response that curl gets and with the log of nginx.
fn load(path: &str, is_chunked: bool) {
    let Some(site) = Site::start() else {
        return;
    };
    let url = site.nginx.url(path);
    let of_one = sample(&[], &url);
    let chunked = of_one.head.contains("Transfer-Encoding: chunked");
    assert_eq!((of_one.status, chunked), (200, is_chunked), "{of_one:?}");
    let results = each_backend(&[], &url);
    for result in &results {
        assert_clean(result, 200);
        // The sizes of chunks vary, so only the content is compared.
        let least = of_one.bytes * 9 / 10 * result.recording.counters.answered;
        assert!(result.recording.counters.bytes >= least);
    }
    assert_logged(&results, 1, site.nginx.logged(path));
}

#[test]
fn a_page_by_unix_socket() {
    load("/index.php", false);
}

#[test]
fn a_page_by_tcp() {
    load("/tcp/", false);
}

#[test]
fn a_page_in_chunks() {
    load("/chunked.php", true);
}

#[test]
fn a_post_with_json_from_a_script_arrives_unchanged() {
    let Some(site) = Site::start() else {
        return;
    };
    let script = site.nginx.place.file_with("post.lua", POST);
    let url = site.nginx.url("/judge.php");
    let results = each_backend(&["-s", &script], &url);
    for result in &results {
        assert_clean(result, 201);
    }
    let options = ["-H", "Content-Type: application/json", "--body"];
    let body = r#"{"name": "wrkbench", "n": [1, 2]}"#;
    let of_options = each_backend(&[&options[..], &[body]].concat(), &url);
    for result in &of_options {
        assert_clean(result, 201);
    }
    let all: Vec<_> = results.into_iter().chain(of_options).collect();
    assert_logged(&all, 0, site.nginx.logged("/judge.php"));
}
