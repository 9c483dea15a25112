//! `sockets`: the list, filters, states, watching, exit codes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::Value;
use testkit::{Process, eventually};

use crate::harness::{call, program};

/// A listening socket and a connection to it that has sent three bytes.
struct Sockets {
    listener: TcpListener,
    client: TcpStream,
    _server: TcpStream,
    port: u16,
}

fn sockets(address: impl Into<std::net::IpAddr>) -> Sockets {
    let listener = TcpListener::bind((address.into(), 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"abc").unwrap();
    server.read_exact(&mut [0; 3]).unwrap();
    Sockets {
        port: listener.local_addr().unwrap().port(),
        listener,
        client,
        _server: server,
    }
}

impl Sockets {
    /// Whether a line is about these sockets and not about others with the same port.
    fn has(&self, object: &Value) -> bool {
        let place = self.listener.local_addr().unwrap().to_string();
        object["local_address_port"] == place || object["peer_address_port"] == place
    }

    /// The lines about these sockets.
    fn listed(&self, arguments: &[&str]) -> Vec<Value> {
        let output = call(&["sockets"]).with(arguments).finish();
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (Some(0), ""),
            "{output:?}"
        );
        let objects = output
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        objects.filter(|object| self.has(object)).collect()
    }
}

fn states(objects: &[Value]) -> BTreeSet<&str> {
    objects
        .iter()
        .map(|object| object["state"].as_str().unwrap())
        .collect()
}

#[test]
fn each_socket_is_one_json_line_with_numeric_values() {
    for sockets in [sockets(Ipv4Addr::LOCALHOST), sockets(Ipv6Addr::LOCALHOST)] {
        let filter = format!("dport = :{}", sockets.port);
        let listed = sockets.listed(&[&filter]);
        assert_eq!(listed.len(), 1, "{listed:?}");
        let client = &listed[0];
        assert_eq!(client["state"], "ESTAB");
        let local = sockets.client.local_addr().unwrap().to_string();
        assert_eq!(client["local_address_port"], local);
        assert_eq!(client["bytessent"], 3);
        assert!(client["rtt"].as_u64().unwrap() > 0);
        assert_eq!(client.get("time"), None);
    }
}

#[test]
fn a_filter_may_be_quoted() {
    let sockets = sockets(Ipv4Addr::LOCALHOST);
    let port = format!(":{}", sockets.port);
    let quoted = format!("sport = {port} or dport = {port}");
    let words: Vec<_> = quoted.split(' ').collect();
    assert_eq!(sockets.listed(&[&quoted]).len(), 2);
    assert_eq!(sockets.listed(&words).len(), 2);
    assert_eq!(sockets.listed(&["( sport", "=", &port, ")"]).len(), 1);
    assert_eq!(
        sockets
            .listed(&["!", "sport", "=", &port, "dport", &port])
            .len(),
        1
    );
    let state = ["state", "time-wait", "sport", "=", &port];
    assert_eq!(sockets.listed(&state).len(), 0);
}

#[test]
fn listening_sockets_are_listed_on_request_as_by_ss() {
    let sockets = sockets(Ipv4Addr::LOCALHOST);
    let filter = format!("sport = :{}", sockets.port);
    for (options, expected) in [
        (&[][..], &["ESTAB"][..]),
        (&["-l"], &["LISTEN"]),
        (&["--listening"], &["LISTEN"]),
        (&["-a"], &["ESTAB", "LISTEN"]),
        (&["--all"], &["ESTAB", "LISTEN"]),
        (&["-l", "-a"], &["ESTAB", "LISTEN"]),
        (&["-a", "-l"], &["LISTEN"]),
        (&["-a", "state", "established"], &["ESTAB"]),
        (&["-l", "exclude", "listening"], &["ESTAB"]),
    ] {
        let listed = sockets.listed(&[options, &[filter.as_str()]].concat());
        let expected = expected.iter().copied().collect();
        assert_eq!(states(&listed), expected, "{options:?}");
    }
    let listed = sockets.listed(&["-l", &filter]);
    assert_eq!(listed[0]["listen_queue"], 0);
    assert!(listed[0]["listen_limit"].as_u64().unwrap() > 0);
}

#[test]
fn watching_lists_sockets_with_the_time_until_interrupted() {
    let sockets = sockets(Ipv4Addr::LOCALHOST);
    let filter = format!("dport = :{}", sockets.port);
    // Each interval is over when a list is printed.
    for (signal, code, interval) in [
        ("INT", 0, "10ms"),
        ("TERM", 143, "10ms"),
        ("INT", 0, "0.001us"),
    ] {
        let mut process = Process::start(program(&["sockets", "-w", interval, &filter]));
        let mut times = Vec::new();
        while times.len() < 3 {
            let line = process.next_line().unwrap();
            let object: Value = serde_json::from_str(&line).unwrap();
            if sockets.has(&object) {
                times.push(object["time"].as_str().unwrap().to_owned());
            }
        }
        assert!(times.is_sorted(), "{times:?}");
        for time in &times {
            let shape: String = time
                .chars()
                .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
                .collect();
            assert_eq!(shape, "0000-00-00T00:00:00.000Z");
        }
        process.signal(signal);
        let output = process.finish();
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (Some(code), ""),
            "{output:?}"
        );
        assert!(output.stdout.ends_with("}\n"), "a line was cut: {output:?}");
    }
}

#[test]
fn watching_ends_quietly_when_stdout_is_closed() {
    let sockets = sockets(Ipv4Addr::LOCALHOST);
    let filter = format!("dport = :{}", sockets.port);
    let mut command = program(&["sockets", "--watch", "1ms", &filter]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let code = eventually(|| {
        let status = child.try_wait().unwrap();
        status.ok_or_else(|| "it goes on".to_owned())
    });
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((code.code(), stderr.as_str()), (Some(141), ""));
}

#[test]
fn an_invalid_filter_is_one_line_and_lists_nothing() {
    for (arguments, expected) in [
        (
            &["sport", "=", ":http"][..],
            "filter, column 9: `:http`: expected a port like :80 (names of services are not looked \
             up)",
        ),
        (
            &["sport = :80 or"],
            "filter, column 15: the filter ends here: expected sport, dport, src, dst, `not` or \
             `(`",
        ),
        (&["--watch", "0"], "--watch 0: must be longer than 0"),
    ] {
        let output = call(&["sockets"]).with(arguments).finish();
        assert_eq!(output.only_line(), format!("wrkbench: {expected}"));
    }
}

#[test]
fn a_failing_stdout_is_one_line() {
    let _sockets = sockets(Ipv4Addr::LOCALHOST);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = call(&["sockets", "-a"]).stdout(full).finish();
    assert_eq!(
        output.only_line(),
        "wrkbench: sockets: cannot write the list to stdout: No space left on device (os error 28)"
    );
}
