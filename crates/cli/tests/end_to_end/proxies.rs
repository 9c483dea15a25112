//! Runs through proxies: what the server and the proxy get, and proxies that fail.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use origin::{Identity, Options, TlsSettings};
use results::ErrorKind;
use testkit::{Refusing, TestServer, one_line};

use crate::harness::{Call, Site, load, program, site, site_with};

fn recording() -> Options {
    Options {
        record_requests: 1000,
        ..Options::default()
    }
}

fn identity() -> Identity {
    Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap()
}

pub(crate) fn with_tls(options: Options) -> Site {
    site_with(Options {
        tls: Some(TlsSettings::new(identity()).config().unwrap()),
        ..options
    })
}

/// A proxy that opens every tunnel to this site, once `open` has talked with the client.
fn relay(
    site: &Site,
    open: impl Fn(&mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> TestServer {
    let target = site.authority().to_owned();
    TestServer::start(move |mut client| {
        // Even for a client that says nothing, so that both have the same number of connections.
        let server = TcpStream::connect(&target)?;
        open(&mut client)?;
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        let upwards = std::thread::spawn(move || {
            let copied = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
            copied
        });
        let (mut from, mut to) = (server, client);
        let copied = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = upwards.join();
        copied.map(drop)
    })
}

/// Reads up to the end of a head.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

fn expect(stream: &mut TcpStream, expected: &[u8]) -> io::Result<()> {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes)?;
    if bytes == expected {
        Ok(())
    } else {
        Err(io::Error::other("the client said something else"))
    }
}

const CONNECT: &str = "CONNECT a.test:81 HTTP/1.1\r\nHost: a.test:81\r\n\
    Proxy-Authorization: Basic dTpwOnE=\r\n\r\n";

/// Opens a tunnel for user `u` with password `p:q`.
fn by_connect(stream: &mut TcpStream) -> io::Result<()> {
    if head(stream)? == CONNECT {
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n")
    } else {
        stream.write_all(b"HTTP/1.1 400 Other Request\r\n\r\n")
    }
}

/// The same with SOCKS5, to a name.
fn by_socks(stream: &mut TcpStream) -> io::Result<()> {
    expect(stream, b"\x05\x02\x00\x02")?;
    stream.write_all(b"\x05\x02")?;
    expect(stream, b"\x01\x01u\x03p:q")?;
    stream.write_all(b"\x01\x00")?;
    expect(stream, b"\x05\x01\x00\x03\x06a.test\x00\x51")?;
    stream.write_all(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
}

/// The same, to an address that was resolved here.
fn by_socks_to_address(stream: &mut TcpStream) -> io::Result<()> {
    expect(stream, b"\x05\x01\x00")?;
    stream.write_all(b"\x05\x00")?;
    expect(stream, b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x51")?;
    stream.write_all(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
}

#[test]
fn a_forwarding_proxy_gets_the_whole_url_from_options_and_scripts() {
    for options in [recording(), Options::default()] {
        // Any server is such a proxy to itself.
        let is_recording = options.record_requests > 0;
        let site = site_with(options);
        let proxy = format!("u:p%3Aq@{}", site.authority());
        let run = load(&site).url("http://a.test:81/x?y").requests(40);
        let run = run.with(&["-x", &proxy]).run().expect_answers(40);
        assert!(run.result.recording.phases.proxy.is_empty());
        let run = load(&site).url("http://a.test:81/x?y").requests(40);
        let run = run.with(&["-x", &proxy, "--pipeline", "4"]);
        let run = run.script("function request() return wrk.format('POST', '/s', nil, 'b') end");
        run.run().expect_answers(40);
        if !is_recording {
            continue;
        }
        let authorization = "Proxy-Authorization: Basic dTpwOnE=\r\nHost: a.test:81\r\n";
        let fixed = format!("GET http://a.test:81/x?y HTTP/1.1\r\n{authorization}\r\n");
        let scripted = format!(
            "POST http://a.test:81/s HTTP/1.1\r\n{authorization}Content-Length: 1\r\n\r\nb"
        );
        let recorded = site.stop().recorded;
        let count = |text: &str| recorded.iter().filter(|it| **it == text.as_bytes()).count();
        assert_eq!((count(&fixed), count(&scripted)), (40, 40));
    }
}

#[test]
fn an_https_proxy_gets_requests_within_tls_as_a_phase_of_its_own() {
    let site = with_tls(recording());
    let proxy = format!("https://{}", site.authority());
    let run = load(&site).url("http://a.test/").requests(40);
    let run = run.with(&["-x", &proxy, "--breakout"]).run();
    let run = run.expect_answers(40);
    let recording = &run.result.recording;
    let opened = recording.counters.connections_opened;
    assert_eq!(recording.phases.proxy.count(), opened);
    assert!(recording.phases.tls.is_empty());
    assert!(run.stdout.contains("\n    Proxy "), "{}", run.stdout);
    let recorded = site.stop().recorded;
    assert!(recorded[0].starts_with(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"));
}

#[test]
fn an_https_proxy_with_another_certificate_is_refused_only_with_verification() {
    let site = with_tls(Options::default());
    let proxy = format!("https://{}", site.authority());
    let other = site.folder.file_with("ca.pem", identity().certificate_pem);
    let run = load(&site).url("http://a.test/").for_ms(200);
    let run = run.with(&["-x", &proxy, "--proxy-cacert", &other]);
    let run = run.run_to_failure().expect_only(ErrorKind::Proxy);
    let said = "the proxy opened no connection: TLS to it failed: certificate refused: ";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

/// Opens a tunnel for a request with the headers that were given for the proxy.
fn by_headers(stream: &mut TcpStream) -> io::Result<()> {
    let expected = "CONNECT a.test:81 HTTP/1.1\r\nHost: a.test:81\r\nX-Route: b: c\r\n\
        proxy-authorization: Bearer t\r\n\r\n";
    if head(stream)? == expected {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")
    } else {
        stream.write_all(b"HTTP/1.1 400 Other Request\r\n\r\n")
    }
}

#[test]
fn headers_for_the_proxy_are_in_the_requests_for_it_and_not_inside_a_tunnel() {
    let headers = [
        "--proxy-header",
        "X-Route: b: c",
        "--proxy-header",
        "proxy-authorization: Bearer t",
    ];
    // An explicit authorization has precedence over this user.
    let run = |site: &Site, place: &str, more: &[&str]| {
        let proxy = format!("u:p@{place}");
        let options = [&["-x", &proxy], &headers[..], more].concat();
        let run = load(site).url("http://a.test:81/").requests(10);
        run.with(&options).run().expect_answers(10).result
    };
    let site = site_with(recording());
    let forwarded = run(&site, site.authority(), &[]);
    run(
        &site,
        &relay(&site, by_headers).address().to_string(),
        &["-p"],
    );
    let recorded = site.stop().recorded;
    let count = |text: &str| recorded.iter().filter(|it| **it == text.as_bytes()).count();
    let whole = "GET http://a.test:81/ HTTP/1.1\r\nX-Route: b: c\r\n\
        proxy-authorization: Bearer t\r\nHost: a.test:81\r\n\r\n";
    assert_eq!(count(whole), 10);
    assert_eq!(count("GET / HTTP/1.1\r\nHost: a.test:81\r\n\r\n"), 10);
    let saved = forwarded.plan.proxy.expect("a proxy").headers;
    let values: Vec<&str> = saved.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["b: c", "***"], "secrets are hidden");
}

#[test]
fn tunnels_carry_plain_and_encrypted_requests_over_both_versions_of_http() {
    for (site, scheme) in [(site(), "http"), (with_tls(Options::default()), "https")] {
        let url = format!("{scheme}://a.test:81/?size=100k");
        for (proxy, scheme) in [
            (relay(&site, by_connect), "http"),
            (relay(&site, by_socks), "socks5h"),
        ] {
            let proxy = format!("{scheme}://{}", proxy.address());
            let options = ["-p", "-x", &proxy, "--proxy-user", "u:p:q"];
            for more in [&[][..], &["--http2", "-m2"], &["--no-keepalive"]] {
                let options = options.iter().filter(|it| scheme == "http" || **it != "-p");
                let options: Vec<&str> = options.chain(more).copied().collect();
                let run = load(&site).url(&url).requests(24).with(&options).run();
                let run = run.expect_answers(24);
                let recording = &run.result.recording;
                let opened = recording.counters.connections_opened;
                assert_eq!(recording.phases.proxy.count(), opened, "{options:?}");
                assert!(recording.phases.proxy.min_ns() > Some(0));
                assert_eq!(recording.phases.tls.is_empty(), url.starts_with("http:"));
            }
        }
    }
}

#[test]
fn one_exchange_goes_through_every_kind_of_proxy() {
    let once = |proxy: &str, options: &[&str]| {
        let mut command = program(&["--once", "-x", proxy]);
        command.args(options);
        Call::of(&command).finish()
    };
    let plain = site();
    let forwarded = once(
        &format!("u:secret@{}", plain.authority()),
        &["http://a.test:81/?size=3"],
    );
    assert_eq!(forwarded.code, Some(0), "{forwarded:?}");
    for line in [
        "> GET http://a.test:81/?size=3 HTTP/1.1\n",
        "> Proxy-Authorization: ***\n",
        "< HTTP/1.1 200 OK\n",
    ] {
        assert!(forwarded.stdout.contains(line), "{line} {forwarded:?}");
    }
    assert!(!forwarded.stdout.contains("\nproxy"), "{forwarded:?}");
    for (site, scheme) in [(plain, "http"), (with_tls(Options::default()), "https")] {
        let url = format!("{scheme}://a.test:81/?size=3");
        for (proxy, scheme) in [
            (relay(&site, by_connect), "http"),
            (relay(&site, by_socks), "socks5h"),
        ] {
            let proxy = format!("{scheme}://u:p%3Aq@{}", proxy.address());
            let flag = if scheme == "http" { "-p" } else { "--latency" };
            let output = once(&proxy, &[flag, &url]);
            assert_eq!(output.code, Some(0), "{output:?}");
            assert!(
                output.stdout.contains("> GET /?size=3 HTTP/1.1\n"),
                "{output:?}"
            );
            assert!(output.stdout.contains("\nproxy  "), "{output:?}");
        }
    }
    let within = with_tls(Options::default());
    let proxy = within.url("").replace("http://", "https://");
    let output = once(&proxy, &["http://a.test:81/?size=3"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("\nproxy  "), "{output:?}");
    let refused = once(&proxy, &["--proxy-verify", "http://a.test:81/"]);
    assert_eq!(
        refused.stderr.trim_end(),
        "wrkbench: the proxy opened no connection: TLS to it failed: certificate refused: it is \
         not signed \
         by a trusted authority"
    );
    let denied = TestServer::start(|mut stream| {
        head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n")
    });
    let denied = once(&denied.address().to_string(), &["-p", "http://a.test/"]);
    assert_eq!(
        denied.stderr.trim_end(),
        "wrkbench: the proxy opened no connection: it answered 407 Who are you (give --proxy-user)"
    );
}

#[test]
fn the_server_chooses_the_protocol_through_a_proxy() {
    let site = with_tls(Options::default());
    for (proxy, scheme) in [
        (relay(&site, by_connect), "http"),
        (relay(&site, by_socks), "socks5h"),
    ] {
        let proxy = format!("{scheme}://u:p%3Aq@{}", proxy.address());
        let options = ["-x", &proxy, "--alpn", "h2,http/1.1"];
        let run = load(&site).url("https://a.test:81/").requests(20);
        let run = run.with(&options).run().expect_answers(20);
        assert_eq!(run.result.plan.load.protocol, plan::Protocol::Http2);
    }
}

#[test]
fn with_socks5_the_name_is_resolved_here() {
    let site = site();
    let proxy = relay(&site, by_socks_to_address);
    let proxy = format!("socks5://{}", proxy.address());
    let run = load(&site).url("http://127.0.0.1:81/").requests(20);
    run.with(&["-x", &proxy]).run().expect_answers(20);
    let run = load(&site).url("http://unknown.invalid/").requests(20);
    let output = run.with(&["-x", &proxy]).output();
    assert_eq!(output.code, Some(1));
    let line = one_line(&output.stderr);
    assert!(
        line.contains("unable to resolve unknown.invalid:80"),
        "{line}"
    );
}

#[test]
fn a_proxy_that_opens_no_tunnel_is_an_error_with_the_reason() {
    let site = site();
    let large = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(20_000));
    let answers: [(&'static [u8], &str); 5] = [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "it answered 407 Proxy Authentication Required (give --proxy-user) (",
        ),
        (b"HTTP/1.1 502 Bad\r\n\r\nno", "it answered 502 Bad ("),
        (b"\x05\xff", "it did not answer CONNECT with HTTP"),
        (
            b"HTTP/1.1 200",
            "it closed the connection before answering (",
        ),
        (
            large.leak().as_bytes(),
            "the head of its answer is too large",
        ),
    ];
    for (answer, said) in answers {
        let proxy = TestServer::start(move |mut stream| {
            head(&mut stream)?;
            stream.write_all(answer)?;
            stream.shutdown(Shutdown::Write)?;
            io::copy(&mut stream, &mut io::sink()).map(drop)
        });
        let proxy = proxy.address().to_string();
        let run = load(&site).url("http://a.test/").connections(1).for_ms(100);
        let output = run.with(&["-p", "-x", &proxy, "--json", "-"]).output();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let line = format!("no request succeeded: the proxy opened no connection: {said}");
        assert!(output.stderr.contains(&line), "{}", output.stderr);
        let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let errors = &document["errors"];
        assert!(errors["proxy"]["events"].as_u64() > Some(0), "{errors}");
        assert_eq!(errors.as_object().unwrap().len(), 1, "{errors}");
    }
}

#[test]
fn a_number_of_requests_is_given_up_at_once_if_the_proxy_refuses_the_user() {
    let site = site();
    let proxy = TestServer::start(|mut stream| {
        head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")?;
        stream.shutdown(Shutdown::Write)?;
        io::copy(&mut stream, &mut io::sink()).map(drop)
    });
    let proxy = proxy.address().to_string();
    for (threads, connections) in [(1, 1), (2, 10)] {
        let run = load(&site).url("http://a.test/").threads(threads);
        let run = run.connections(connections).requests(50);
        let output = run.with(&["-p", "-x", &proxy, "--json", "-"]).output();
        assert_eq!(output.code, Some(1), "{output:?}");
        let said = "it answered 407 Proxy Authentication Required (give --proxy-user)";
        assert!(output.stderr.contains(said), "{}", output.stderr);
        let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let warnings = document["warnings"].as_array().unwrap();
        let gave_up = warnings.iter().find(|it| it["kind"] == "gave_up");
        let gave_up = gave_up.unwrap_or_else(|| panic!("{document}"));
        assert_eq!(
            (&gave_up["sent"], &gave_up["is_refused"]),
            (&0.into(), &true.into())
        );
    }
}

#[test]
fn a_proxy_that_refuses_only_at_first_ends_no_run() {
    let site = site();
    let attempts = AtomicU32::new(0);
    let proxy = TestServer::start(move |mut stream| {
        head(&mut stream)?;
        if attempts.fetch_add(1, Ordering::Relaxed) < 3 {
            return stream.write_all(b"HTTP/1.1 503 Busy\r\n\r\n");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        while head(&mut stream).is_ok() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
        Ok(())
    });
    let proxy = proxy.address().to_string();
    let run = load(&site).url("http://a.test/").threads(1).connections(1);
    let run = run.requests(20).with(&["-p", "-x", &proxy, "--json", "-"]);
    let output = run.output();
    assert_eq!(output.code, Some(0), "{output:?}");
    let document: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["counters"]["answered"], 20, "{document}");
    assert!(
        document["errors"]["proxy"]["events"].as_u64() > Some(0),
        "{document}"
    );
    assert!(!output.stdout.contains("gave_up"), "{document}");
}

#[test]
fn a_proxy_that_cannot_be_used_is_one_line_and_starts_nothing() {
    let site = site();
    let refusing = Refusing::new();
    let address = refusing.address().to_string();
    for (options, said) in [
        (
            &["-x", &address][..],
            format!("unable to connect to the proxy http://{address} Connection refused"),
        ),
        (&["-x", "socks4://h"], "is not a kind of proxy".to_owned()),
        (&["-x", "u:hidden@h:0"], "is not a port".to_owned()),
        (
            &["-x", "h", "--unix-socket", "/x"],
            "a Unix socket".to_owned(),
        ),
        (
            &["-x", "socks5://h", "-p"],
            "is for HTTP proxies".to_owned(),
        ),
        (
            &["-x", "h", "--proxy-verify"],
            "is for https:// proxies".to_owned(),
        ),
        (&["--proxy-user", "u:hidden"], "--proxy".to_owned()),
    ] {
        let output = load(&site).requests(1).with(options).output();
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert!(output.stderr.contains(&said), "{}", output.stderr);
        assert!(!output.stderr.contains("hidden"), "{}", output.stderr);
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn the_user_of_a_proxy_is_neither_saved_nor_shown() {
    let site = site();
    let authority = site.authority().to_owned();
    for options in [
        vec!["-x".to_owned(), format!("u:hidden@{authority}")],
        vec![format!("-xu:hidden@{authority}")],
        vec![format!("--proxy=http://u:hidden@{authority}")],
        vec![
            format!("--proxy={authority}"),
            "--proxy-user".to_owned(),
            "u:hidden".to_owned(),
        ],
    ] {
        let words: Vec<&str> = options.iter().map(String::as_str).collect();
        let run = load(&site).requests(20).with(&words).run();
        let run = run.expect_answers(20);
        let document = run.document.to_string();
        assert!(document.contains("***"), "{document}");
        assert!(!document.contains("hidden"), "{document}");
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("hidden"));
    }
}

#[test]
fn variables_of_the_environment_choose_no_proxy() {
    let site = site();
    let variables = "export http_proxy=http://127.0.0.1:1 ALL_PROXY=http://127.0.0.1:1";
    let run = load(&site).requests(20).in_shell_after(variables);
    run.run().expect_answers(20);
}
