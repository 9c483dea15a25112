//! `--once`: one exchange as text, and the exit code by its status.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use origin::{Http2Settings, Http3Settings, Identity, Options, TlsSettings};
use protocol::h2::heads::Heads;
use protocol::h2::hpack::Limits;
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::{self, Received, ServerSettings, writer};
use testkit::{Output, Process, TestServer};

use crate::harness::{Site, call, io_arguments, program, site, site_with};

fn once(arguments: &[&str]) -> Output {
    let call = call(&["--once"]).with(&io_arguments());
    call.with(arguments).finish()
}

fn over_tls() -> Site {
    let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    site_with(Options {
        tls: Some(TlsSettings::new(identity).config().unwrap()),
        record_requests: 10,
        ..Options::default()
    })
}

#[track_caller]
fn expect_lines(output: &Output, code: i32, lines: &[&str]) {
    assert_eq!(output.code, Some(code), "{output:?}");
    let mut rest = output.stdout.lines();
    for line in lines {
        let is_it = |it: &str| {
            it == *line
                || line
                    .strip_suffix("...")
                    .is_some_and(|begin| it.starts_with(begin))
        };
        assert!(
            rest.any(is_it),
            "{line:?} is missing, or not there:\n{}",
            output.stdout
        );
    }
}

#[test]
fn a_request_and_its_response_are_printed_with_their_times() {
    let site = site_with(Options {
        record_requests: 10,
        ..Options::default()
    });
    let address = format!("* connected to {}", site.authority());
    let host = format!("> Host: {}", site.authority());
    let url = site.url("/?size=5&header=X-Note:a");
    let output = once(&[
        "-H", "X-Id: 7", "--body", "hello", &url, "-c100", "-d30s", "-R1k",
    ]);
    expect_lines(
        &output,
        0,
        &[
            &address,
            "> POST /?size=5&header=X-Note:a HTTP/1.1",
            &host,
            "> X-Id: 7",
            ">",
            "hello",
            "< HTTP/1.1 200 OK",
            "< X-Note: a",
            "<",
            "connect ...",
            "send ...",
            "first byte ...",
            "whole ...",
        ],
    );
    assert_eq!(output.stderr, "");
    let recorded = site.stop().recorded;
    assert_eq!(recorded.len(), 1, "only one request is sent");
}

#[test]
fn the_exit_code_says_whether_the_status_is_an_error() {
    let site = site();
    expect_lines(
        &once(&[&site.url("/?status=404")]),
        7,
        &["< HTTP/1.1 404 Not Found"],
    );
    expect_lines(
        &once(&[&site.url("/?status=503")]),
        7,
        &["< HTTP/1.1 503 ..."],
    );
    expect_lines(
        &once(&[&site.url("/?status=204")]),
        0,
        &["< HTTP/1.1 204 No Content"],
    );
    let redirect = once(&[&site.url("/?status=301&header=Location:/new")]);
    expect_lines(&redirect, 0, &["< HTTP/1.1 301 Moved Permanently"]);
    assert_eq!(
        redirect.stderr,
        "wrkbench: note: a redirect: measure /new\n"
    );
}

#[test]
fn what_goes_wrong_is_named() {
    let site = site();
    let url = site.url("/?fault=fin-before");
    let broken = once(&[&url]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    assert_eq!(
        broken.stderr.trim_end(),
        "wrkbench: closed before the response began"
    );
    let truncated = once(&[&site.url("/?fault=truncate&size=10")]);
    for line in ["< HTTP/1.1 200 OK\n", "< Content-Length: 10\n"] {
        assert!(truncated.stdout.contains(line), "{truncated:?}");
    }
    let slow = once(&["-T50ms", &site.url("/?delay=5s")]);
    assert_eq!(slow.code, Some(1), "{slow:?}");
    assert_eq!(
        slow.stderr.trim_end(),
        "wrkbench: no response within the timeout (--timeout)"
    );
    let plain = once(&[&site.url("/").replace("http:", "https:")]);
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert!(plain.stdout.contains("* connected to "), "{plain:?}");
    assert!(
        plain.stderr.trim_end().ends_with(": use http://?"),
        "{plain:?}"
    );
    let address = site.authority().to_owned();
    site.go_down();
    let refused = once(&[&format!("http://{address}/")]);
    assert_eq!(
        refused.stderr.trim_end(),
        "wrkbench: unable to connect: Connection refused"
    );
    let expected = format!("* {address}: Connection refused");
    expect_lines(&refused, 1, &[&expected, "whole ..."]);
}

#[test]
fn over_quic_a_closed_port_and_a_silent_server_are_named() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let output = once(&["--http3", "-T200ms", &url]);
    assert_eq!(
        output.stderr.trim_end(),
        "wrkbench: the server completed no QUIC handshake within the timeout (--timeout)"
    );
    expect_lines(&output, 1, &["* connected to ...", "> GET / HTTP/3"]);
    drop(silent);
    let output = once(&["--http3", "-T200ms", &url]);
    assert_eq!(
        output.stderr.trim_end(),
        "wrkbench: unable to connect: Connection refused"
    );
    expect_lines(&output, 1, &["* 127.0.0.1:..."]);
    assert!(!output.stdout.contains("> GET"), "{output:?}");
}

#[test]
fn a_server_that_allows_no_streams_is_named() {
    let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    let site = site_with(Options {
        http2: Some(Http2Settings {
            streams_max: 0,
            window_bytes: 65_535,
        }),
        http3: Some(Http3Settings::default()),
        tls: Some(TlsSettings::new(identity).config().unwrap()),
        ..Options::default()
    });
    for (option, limit) in [
        ("--http2", "SETTINGS_MAX_CONCURRENT_STREAMS of 0"),
        ("--http3", "initial_max_streams_bidi or MAX_STREAMS of QUIC"),
    ] {
        let output = once(&[option, "-T200ms", &site.url("/")]);
        let expected = format!(
            "wrkbench: the server allowed no streams ({limit}) within the timeout (--timeout)"
        );
        assert_eq!(output.stderr.trim_end(), expected);
        assert_eq!(output.code, Some(1), "{output:?}");
    }
}

#[test]
fn tls_is_printed_with_version_cipher_protocol_and_certificate() {
    let site = over_tls();
    for (options, alpn, version) in [
        (vec![], "http/1.1", "HTTP/1.1"),
        (vec!["--http2"], "h2", "HTTP/2"),
        (vec!["--alpn", "h2,http/1.1"], "h2", "HTTP/2"),
    ] {
        let url = site.url("/?size=3");
        let output = once(&[&options[..], &[&url]].concat());
        let request = format!("> GET /?size=3 {version}");
        let status = format!("< {version} 200 OK");
        expect_lines(
            &output,
            0,
            &[
                "* TLS 1.3, TLS_...",
                "* certificate: ...",
                "*   for localhost, 127.0.0.1",
                "*   issued by ...",
                "*   valid from ...",
                &request,
                &status,
                "TLS handshake ...",
            ],
        );
        assert!(
            output.stdout.contains(&format!(", ALPN {alpn}\n")),
            "{output:?}"
        );
        assert!(
            output.stdout.contains(", not verified (--verify)\n"),
            "{output:?}"
        );
    }
    let refused = once(&["--verify", &site.url("/")]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("not signed by a trusted authority"),
        "{refused:?}"
    );
    let lines = ["* certificate: ...", "*   for localhost, 127.0.0.1"];
    expect_lines(&refused, 1, &lines);
    assert!(refused.stdout.contains(", refused\n"), "{refused:?}");
}

/// The time of a step in the output of `--once`, milliseconds.
#[track_caller]
fn step_ms(output: &Output, step: &str) -> f64 {
    let rest = output.stdout.lines().find_map(|it| it.strip_prefix(step));
    let rest = rest.unwrap_or_else(|| panic!("no {step:?}: {output:?}"));
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number: f64 = words[0].parse().unwrap();
    match words[1] {
        "us" => number / 1e3,
        "ms" => number,
        "s" => number * 1e3,
        unit => panic!("{unit} in {output:?}"),
    }
}

#[test]
fn the_first_byte_is_one_of_the_response_and_none_of_a_session_ticket() {
    let site = over_tls();
    for protocol in [&[][..], &["--http2"]] {
        let url = site.url("/?delay=400ms");
        let output = once(&[protocol, &[url.as_str()]].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(step_ms(&output, "first byte") >= WORK_SEEN_MS, "{output:?}");
    }
}

/// How long a server takes for its response, after other bytes. The client notices at least
/// [`WORK_SEEN_MS`] of it, also on a busy machine, on which it may read the other bytes late.
const WORK: Duration = Duration::from_millis(400);
const WORK_SEEN_MS: f64 = 60.0;

/// A server of HTTP/2 that answers each request of a stream with `answer`, which appends frames.
fn http2_server(
    answer: impl Fn(u32, &mut TcpStream, &mut Vec<u8>) -> io::Result<()> + Send + Sync + 'static,
) -> TestServer {
    TestServer::start(move |mut stream| {
        let mut heads = Heads::new(Limits::default());
        let mut session = h2::Server::new(&heads);
        let (mut input, mut output) = ([0; 4096], Vec::new());
        let settings = ServerSettings {
            streams_max: 1,
            window_bytes: 65_535,
        };
        session.begin(&settings, &mut output);
        loop {
            stream.write_all(&std::mem::take(&mut output))?;
            let length = stream.read(&mut input)?;
            if length == 0 {
                return Ok(());
            }
            let mut rest = &input[..length];
            while let Ok(Some(received)) = session.next(&mut heads, &mut rest, &mut output) {
                if let Received::Request { stream: id, .. } = received {
                    answer(id, &mut stream, &mut output)?;
                }
            }
        }
    })
}

/// Appends a whole response with these fields and no body.
fn respond(id: u32, fields: &[(&[u8], &[u8])], output: &mut Vec<u8>) {
    let mut block = Vec::new();
    for (name, value) in fields {
        field(name, value, Literal::Unindexed, &mut block);
    }
    writer::headers(id, &block, true, 16_384, output);
}

#[test]
fn late_settings_are_no_byte_of_the_response() {
    let server = http2_server(|id, stream, output| {
        writer::settings([], output);
        stream.write_all(&std::mem::take(output))?;
        std::thread::sleep(WORK);
        respond(id, &[(b":status", b"200")], output);
        Ok(())
    });
    let output = once(&["--http2", &format!("http://{}/", server.address())]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(step_ms(&output, "first byte") >= WORK_SEEN_MS, "{output:?}");
}

#[test]
fn the_response_to_a_grpc_call_is_printed_although_the_call_has_failed() {
    let server = http2_server(|id, _, output| {
        let fields: [(&[u8], &[u8]); 5] = [
            (b":status", b"200"),
            (b"content-type", b"application/grpc"),
            (b"x-node", b"a7"),
            (b"grpc-status", b"5"),
            (b"grpc-message", b"no such user"),
        ];
        respond(id, &fields, output);
        Ok(())
    });
    let url = format!("http://{}/users.Users/Get", server.address());
    let output = once(&["--grpc", &url]);
    expect_lines(
        &output,
        1,
        &[
            "> POST /users.Users/Get HTTP/2",
            "< HTTP/2 200 OK",
            "< x-node: a7",
            "< grpc-status: 5",
            "< grpc-message: no such user",
            "first byte ...",
        ],
    );
    assert!(output.stderr.contains("no such user"), "{output:?}");
}

#[test]
fn the_exchange_is_a_document_with_json() {
    let site = site();
    let url = site
        .url("/?size=5&token=hush")
        .replace("://", "://me:hush@");
    let file = site.folder.file("once.json");
    let printed = once(&["--json", "-", "-d", "30s", &url]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let also = once(&["--json", &file, &url]);
    expect_lines(&also, 0, &["< HTTP/1.1 200 OK"]);
    let written = std::fs::read_to_string(&file).unwrap();
    for text in [&printed.stdout, &written] {
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(document["protocol"], "HTTP/1.1", "{document}");
        assert_eq!(document["request"]["method"], "GET", "{document}");
        assert_eq!(document["response"]["status"], 200, "{document}");
        let body = document["response"]["body"].as_str().unwrap();
        assert_eq!(body.len(), 5, "{document}");
        assert!(
            document["phases"]["first_byte_ns"].as_u64() > Some(0),
            "{document}"
        );
        assert_eq!(document.get("error"), None, "{document}");
        assert!(!text.contains("hush"), "{text}");
    }
    let address = site.authority().to_owned();
    site.go_down();
    let refused = once(&["--json", "-", &format!("http://{address}/")]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let document: serde_json::Value = serde_json::from_str(&refused.stdout).unwrap();
    let said = "unable to connect: Connection refused";
    assert_eq!(document["error"], said, "{document}");
    assert_eq!(document.get("response"), None, "{document}");
}

#[test]
fn an_interim_response_is_the_first_byte_as_in_a_run() {
    let server = TestServer::start(|mut stream| {
        let mut request = [0; 4096];
        while stream.read(&mut request)? > 0 {
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")?;
            std::thread::sleep(WORK);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
        Ok(())
    });
    let output = once(&[&format!("http://{}/", server.address())]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(step_ms(&output, "rest") >= WORK_SEEN_MS, "{output:?}");
}

#[test]
fn http2_without_tls_large_bodies_and_responses_in_pieces_work() {
    let site = site();
    let body = "x".repeat(100_000);
    let output = once(&["--http2", "--body", &body, &site.url("/?size=2M")]);
    expect_lines(&output, 0, &["> POST /?size=2M HTTP/2", "< HTTP/2 200 OK"]);
    assert!(
        output.stdout.contains("bytes more)\n"),
        "{}",
        output.stdout.len()
    );
    let output = once(&[&site.url("/?size=3k&chunked=100&trailers")]);
    expect_lines(&output, 0, &["< HTTP/1.1 200 OK"]);
    let output = once(&[&site.url("/?until-close&size=5")]);
    expect_lines(&output, 0, &["< HTTP/1.1 200 OK"]);
}

#[test]
fn the_first_request_of_a_script_is_sent() {
    let site = site();
    let script = site.folder.file_with(
        "s.lua",
        "local n = 0\nfunction request() n = n + 1 return wrk.format('PUT', '/?n=' .. n) end\n",
    );
    // As in wrk, one request is made and checked before the run.
    let output = once(&["-s", &script, &site.url("/")]);
    expect_lines(&output, 0, &["> PUT /?n=2 HTTP/1.1", "< HTTP/1.1 200 OK"]);
}

#[test]
fn no_secret_is_printed_unless_asked_for() {
    let server = TestServer::start(|mut stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer)?;
        let body = "{\"access_token\": \"hush-5\"}";
        stream.write_all(
            format!(
                "HTTP/1.1 200 OK\r\nSet-Cookie: id=hush-4\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        )
    });
    let url = format!("http://me:hush-1@{}/?token=hush-2", server.address());
    let arguments = ["-H", "Cookie: a=hush-3", "--body", "password=hush", &url];
    let hidden = once(&arguments);
    expect_lines(
        &hidden,
        0,
        &["> Cookie: ***", "password=***", "< Set-Cookie: ***"],
    );
    assert!(!hidden.stdout.contains("hush"), "{hidden:?}");
    let shown = once(&[&["--keep-secrets"], &arguments[..]].concat());
    expect_lines(
        &shown,
        0,
        &[
            "> Cookie: a=hush-3",
            "password=hush",
            "< Set-Cookie: id=hush-4",
        ],
    );
}

#[test]
fn a_grpc_call_and_a_unix_socket_work() {
    let site = site();
    let output = once(&["--grpc", &site.url("/a.B/C")]);
    assert!(
        output.stdout.contains("> POST /a.B/C HTTP/2\n"),
        "{output:?}"
    );
    let folder = testkit::Folder::new();
    let socket = folder.file("s");
    let listen = format!("unix:{socket}");
    let mut server = Process::start(program(&["serve", "--listen", &listen]));
    server.next_line().unwrap();
    let output = once(&["--unix-socket", &socket, "http://localhost/"]);
    let connected = format!("* connected to {socket}");
    expect_lines(
        &output,
        0,
        &[&connected, "> Host: localhost", "< HTTP/1.1 200 OK"],
    );
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
}
