//! `--dns`, `--resolve`, `--connect-to` and `--resolve-every`: where connections go.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use results::RunResult;
use testkit::{Folder, Output, TestServer};

use crate::harness::{Call, io_arguments, program};
use crate::judge;

/// Servers on the same port of several loopback addresses, and the `Host` headers that they got.
struct Servers {
    all: Vec<TestServer>,
    hosts: Arc<Mutex<Vec<String>>>,
}

impl Servers {
    fn at(addresses: &[&str]) -> Self {
        let hosts = Arc::new(Mutex::new(Vec::new()));
        let serve = || {
            let hosts = Arc::clone(&hosts);
            move |stream: TcpStream| answer(&stream, &hosts)
        };
        // Another program may have the port of the first server on a further address.
        loop {
            let first = TestServer::start_at((addresses[0], 0), serve()).expect("a port is free");
            let port = first.address().port();
            let others = addresses[1..].iter();
            let others = others.map(|address| TestServer::start_at((*address, port), serve()));
            if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
                let all = std::iter::once(first).chain(others).collect();
                return Self { all, hosts };
            }
        }
    }

    fn port(&self) -> u16 {
        self.all[0].address().port()
    }
}

fn answer(stream: &TcpStream, hosts: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if let Some(host) = line.strip_prefix("Host: ") {
            let mut hosts = hosts.lock().expect("no panic under the lock");
            hosts.push(host.to_owned());
        }
        if line.is_empty() {
            writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
    }
    Ok(())
}

fn run(options: &[&str], url: &str) -> (RunResult, Output) {
    let folder = Folder::new();
    let json = folder.file("result.json");
    let mut command = program(options);
    command.args(io_arguments()).args(["--json", &json, url]);
    let output = Call::of(&command).finish();
    let document = std::fs::read(&json);
    let document = document.unwrap_or_else(|error| panic!("{error}: {}", output.stderr));
    (judge::document(&document), output)
}

#[test]
fn all_addresses_of_a_name_get_as_many_connections() {
    let servers = Servers::at(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let port = servers.port();
    let rule = format!("many.test:{port}:127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.77");
    for more in [&["-t1"][..], &["-t2"], &["-t3", "-R2k"]] {
        let mut options = vec!["--dns", "all", "--resolve", &rule, "-c6", "-n600"];
        options.extend(more);
        let (result, output) = run(&options, &format!("http://many.test:{port}/"));
        let recording = &result.recording;
        let by_address = &recording.parts.by_address;
        let names: Vec<&str> = by_address.iter().map(|it| it.name.as_str()).collect();
        let expected = [1, 2, 3].map(|host| format!("127.0.0.{host}:{port}"));
        assert_eq!(names, expected, "{}", output.stderr);
        for part in by_address {
            assert_eq!(part.connections_opened, 2, "{part:?}");
            assert_eq!(part.statuses.count(200), part.answered);
        }
        let answered: u64 = by_address.iter().map(|it| it.answered).sum();
        assert_eq!((answered, recording.counters.answered), (600, 600));
        assert!(output.stdout.contains("\n  Address "), "{}", output.stdout);
        let left_out = format!("note: 127.0.0.77:{port} is left out: it accepts no connections");
        assert!(output.stderr.contains(&left_out), "{}", output.stderr);
    }
    let hosts = servers.hosts.lock().expect("no panic under the lock");
    assert!(
        hosts
            .iter()
            .all(|host| *host == format!("many.test:{port}"))
    );
}

#[test]
fn the_first_address_that_accepts_is_used_by_default() {
    let servers = Servers::at(&["127.0.0.2", "127.0.0.3"]);
    let port = servers.port();
    let rule = format!("*:{port}:127.0.0.78,127.0.0.2,127.0.0.3");
    let (result, _) = run(
        &["--resolve", &rule, "-t1", "-c2", "-n50"],
        &format!("http://any.test:{port}/"),
    );
    assert_eq!(result.recording.counters.answered, 50);
    assert!(result.recording.parts.by_address.is_empty());
    assert!(servers.all[1].peers().is_empty());
}

#[test]
fn connections_go_to_another_host_and_requests_stay_the_same() {
    let servers = Servers::at(&["127.0.0.2"]);
    let rule = format!("site.test:80:127.0.0.2:{}", servers.port());
    let (result, _) = run(
        &["--connect-to", &rule, "-t1", "-c2", "-n50"],
        "http://site.test/",
    );
    assert_eq!(result.recording.counters.answered, 50);
    let hosts = servers.hosts.lock().expect("no panic under the lock");
    assert!(hosts.iter().all(|host| host == "site.test"), "{hosts:?}");
}

#[test]
fn a_name_that_is_looked_up_again_and_stays_the_same_changes_nothing() {
    let servers = Servers::at(&["127.0.0.1", "127.0.0.2"]);
    let port = servers.port();
    let rule = format!("same.test:{port}:127.0.0.1,127.0.0.2");
    let (result, output) = run(
        &[
            "--dns",
            "all",
            "--resolve",
            &rule,
            "--resolve-every",
            "100ms",
            "-t1",
            "-c4",
            "-d450ms",
        ],
        &format!("http://same.test:{port}/"),
    );
    assert_eq!(result.recording.counters.connections_opened, 4);
    assert!(
        output
            .stderr
            .contains("during the run, and its addresses changed 0 times"),
        "{}",
        output.stderr
    );
}

#[test]
fn rules_that_cannot_be_used_are_refused_in_a_line() {
    for (options, expected) in [
        (
            &["--resolve", "h:80"][..],
            "--resolve \"h:80\": is not a rule (expected HOST:PORT:",
        ),
        (
            &["--connect-to", "a"],
            "--connect-to \"a\": is not a rule (expected HOST1:PORT1:",
        ),
        (
            &["--connect-to", "a:1:b:2", "-x", "127.0.0.1:1"],
            "connections go to the proxy",
        ),
        (&["--dns", "all", "--unix-socket", "/s"], "has no addresses"),
        (&["--resolve-every", "1ms"], "must be at least 100ms"),
        (
            &["--dns", "all", "-s", "x.lua"],
            "a script chooses the addresses itself",
        ),
        (
            &["--resolve", "127.0.0.1:1:127.0.0.9"],
            "unable to connect to 127.0.0.1:1",
        ),
    ] {
        let mut command = program(options);
        command.arg("http://127.0.0.1:1/");
        let Output { code, stderr, .. } = Call::of(&command).finish();
        assert_eq!(code, Some(1), "{options:?}: {stderr}");
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{options:?}: {stderr}");
    }
}
