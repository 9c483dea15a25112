//! Replays of logs that nginx and Apache httpd wrote: in the format `combined`, and in one with
//! times finer than a second.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use origin::{Backend, Options, Server};
use results::{ComparedWithLog, RunResult};
use testkit::Folder;

use crate::apache::{Apache, Model};
use crate::nginx::Nginx;
use crate::trial::{assert_clean, backends, run};

const REQUESTS: u64 = 200;
/// Servers escape the quotes and the backslash in their logs.
const USER_AGENT: &str = r#"an "agent" \ of a test"#;
/// How many times as fast the logs are replayed.
const SPEED: u64 = 4;

/// A log with exact times: its format, and what the lines say.
struct Times {
    file: String,
    format: &'static str,
    arrivals: Vec<Arrival>,
}

/// A line of a log.
struct Arrival {
    moment_us: u64,
    status: u16,
    /// Method and target: `HEAD /page.html?n=3`.
    request: String,
}

/// Sends all requests, each with a query of its own so that it is recognized, and returns them.
fn send(folder: &Folder, path: fn(u64) -> &'static str, url: &str) -> Vec<String> {
    let mut sent = Vec::new();
    let mut file = String::new();
    for number in 0..REQUESTS {
        let method = if number % 8 == 0 { "HEAD" } else { "GET" };
        let target = format!("{}?q=a%20%22b%22&n={number}", path(number));
        let line = serde_json::json!({"method": method, "path": target});
        writeln!(file, "{line}").expect("a text grows");
        sent.push(format!("{method} {target}"));
    }
    let file = folder.file_with("requests.jsonl", file);
    let requests = format!("-n{REQUESTS}");
    let user_agent = format!("User-Agent: {USER_AGENT}");
    let options = ["--requests", &file, &requests, "-R200", "-t1", "-d1m"];
    let result = run(
        "auto",
        &[&options[..], &["-T30s", "-H", &user_agent]].concat(),
        url,
    );
    assert_eq!(result.recording.counters.answered, REQUESTS);
    sent
}

/// Replays a log against the built-in server. Returns the requests that arrived.
fn replay(io: &str, log: &str, options: &[&str]) -> (RunResult, Vec<String>) {
    let server = Server::start(Options {
        backend: Backend::Epoll,
        record_requests: 10 * REQUESTS as usize,
        ..Options::default()
    });
    let server = server.expect("a port is free");
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(["replay", log, "--io", io, "--json", "-"])
        .args(options)
        .arg(server.url())
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    // Whether requests succeeded is for the caller to check: a very short run may have no response.
    let errors = String::from_utf8_lossy(&output.stderr);
    let result = results::file::load(output.stdout.as_slice())
        .unwrap_or_else(|error| panic!("{io} {options:?}: {error}: {errors}"));
    assert_eq!(results::check(&result), Ok(()), "{io} {options:?}");
    let recorded = server.stop().recorded.into_iter();
    let recorded = recorded.map(|bytes| String::from_utf8(bytes).expect("requests are text"));
    (result, recorded.collect())
}

/// `GET /page.html?n=3` of a request.
fn first_line(request: &String) -> &str {
    let line = request
        .lines()
        .next()
        .and_then(|line| line.strip_suffix(" HTTP/1.1"));
    line.unwrap_or_else(|| panic!("no request line: {request:?}"))
}

fn sorted<'a>(requests: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut sorted: Vec<_> = requests.into_iter().collect();
    sorted.sort_unstable();
    sorted
}

/// Each request of a log in the format `combined` is sent once, with its header, and the statuses
/// in the log are compared.
fn replay_combined(log: &str, sent: &[String], missing: u64) {
    for io in backends() {
        let speed = SPEED.to_string();
        let (result, recorded) = replay(io, log, &["--speed", &speed, "-t2", "-c8"]);
        assert_clean(&result, 200);
        assert_eq!(
            sorted(recorded.iter().map(first_line)),
            sorted(sent.iter().map(String::as_str))
        );
        let header = format!("\r\nUser-Agent: {USER_AGENT}\r\n");
        for request in &recorded {
            assert!(request.contains(&header), "{request}");
            assert!(!request.contains("\r\nReferer:"), "{request}");
        }
        let compared = ComparedWithLog {
            responses: REQUESTS,
            other_status: missing,
        };
        assert_eq!(result.recording.parts.compared_with_log, Some(compared));
    }
}

/// The requests of a log with exact times are sent in the order in which they arrived, and exactly
/// those that arrived in a part of the time of the log are due in this part.
fn replay_times(log: &Times) {
    let mut arrivals: Vec<_> = log.arrivals.iter().collect();
    arrivals.sort_by_key(|arrival| arrival.moment_us);
    let first_us = arrivals[0].moment_us;
    let due = |arrival: &&Arrival| (arrival.moment_us - first_us) * 1000 / SPEED;
    let dues_ns: Vec<u64> = arrivals.iter().map(due).collect();
    let speed = SPEED.to_string();
    // With one connection, requests arrive in the order in which they were due.
    let options = ["--log-format", log.format, "--speed", &speed, "-t1", "-c1"];
    for io in backends() {
        let (result, recorded) = replay(io, &log.file, &options);
        assert_clean(&result, 200);
        let received: Vec<_> = recorded.iter().map(first_line).collect();
        let expected: Vec<_> = arrivals.iter().map(|it| it.request.as_str()).collect();
        assert_eq!(received, expected);
        assert!(result.window.duration_ns >= dues_ns[dues_ns.len() - 1]);
        // How many requests are due in a run does not depend on how many are sent.
        for end_us in [50, 100, 150].map(|number: usize| dues_ns[number] / 1000 + 1) {
            let end = format!("-d{end_us}us");
            let (result, _) = replay(io, &log.file, &[&options[..], &[&end]].concat());
            let is_due = |due_ns: &&u64| **due_ns < end_us * 1000;
            let expected = dues_ns.iter().filter(is_due).count() as u64;
            assert_eq!(result.recording.counters.due, expected, "{end}");
        }
    }
}

/// Reads a line of nginx in the format below.
fn read_nginx(line: &str) -> Arrival {
    let mut words = line.splitn(4, ' ');
    let mut word = || words.next().expect("a line has four fields");
    let [finished_us, took_us] = [word(), word()].map(microseconds);
    arrival(finished_us - took_us, word(), word())
}

/// Microseconds of a number of seconds with three decimals.
fn microseconds(seconds: &str) -> u64 {
    let milliseconds: Result<u64, _> = seconds.replace('.', "").parse();
    milliseconds.expect("it is a number with three decimals") * 1000
}

/// Reads a line of httpd in the format below.
fn read_apache(line: &str) -> Arrival {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().expect("a line has three fields");
    let moment_us = word().parse().expect("it is a number");
    arrival(moment_us, word(), word())
}

fn arrival(moment_us: u64, status: &str, request: &str) -> Arrival {
    let request = request.strip_suffix(" HTTP/1.1");
    Arrival {
        moment_us,
        status: status.parse().expect("it is a status"),
        request: request.expect("it is a request line").to_owned(),
    }
}

/// Replays both logs, after a check that they have what was sent.
fn replay_both(folder: &Folder, sent: &[String], format: &'static str, read: fn(&str) -> Arrival) {
    let text = folder.read("times.log");
    let times = Times {
        file: folder.file("times.log"),
        format,
        arrivals: text.lines().map(read).collect(),
    };
    let arrivals = times.arrivals.iter();
    assert_eq!(
        sorted(arrivals.map(|arrival| arrival.request.as_str())),
        sorted(sent.iter().map(String::as_str))
    );
    let missing = times.arrivals.iter().filter(|it| it.status == 404).count() as u64;
    assert_eq!(missing, REQUESTS / 4);
    replay_combined(&folder.file("combined.log"), sent, missing);
    replay_times(&times);
}

#[test]
fn the_logs_of_nginx_are_replayed_as_the_requests_arrived() {
    let place = Folder::for_all_users();
    // A slow response is logged after those of requests that arrived later.
    let extra = format!(
        "location = /slow {{ limit_rate 8000; try_files /page.html =404; }}\n\
         access_log {at}/combined.log combined;\naccess_log {at}/times.log times;\n",
        at = place.file("")
    );
    let Some(nginx) = Nginx::start_in(place, "", &extra) else {
        return;
    };
    let path = |number| match number % 4 {
        1 => "/absent",
        2 if number % 40 == 10 => "/slow",
        2 => "/return",
        _ => "/page.html",
    };
    let sent = send(&nginx.place, path, &nginx.url("/"));
    let format = "$msec $request_time $status $request";
    replay_both(&nginx.end(), &sent, format, read_nginx);
}

#[test]
fn the_logs_of_httpd_are_replayed_as_the_requests_arrived() {
    let Some(apache) = Apache::start(Model::Event) else {
        return;
    };
    let path = |number| match number % 4 {
        1 => "/absent",
        2 => "/cgi-bin/hello",
        _ => "/page.html",
    };
    let sent = send(&apache.place, path, &apache.url("/"));
    replay_both(&apache.end(), &sent, "%{usec}t %>s %r", read_apache);
}
