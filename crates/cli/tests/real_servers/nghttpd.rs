//! nghttpd, which logs every frame: requests, bytes and the ends of connections agree with its log.

use std::process::Command;

use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::http2::{LOAD, PAGE, REQUESTS, Scheme, assert_all_answered, bytes_of, page};
use crate::trial::{CONNECTIONS, each_backend};
use testkit::{Folder, require};

/// A running nghttpd. It logs every frame.
struct Nghttpd {
    daemon: Daemon,
    /// Its folder, which is removed on drop.
    _place: Folder,
    scheme: Scheme,
    port: u16,
}

impl Nghttpd {
    fn start(scheme: Scheme, options: &[&str]) -> Option<Self> {
        let program = require("nghttpd")?;
        let place = Folder::new();
        page(&place);
        let certificate = match scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Certificate::make(&place)?),
        };
        let (daemon, port) = Daemon::start("listen", || {
            let port = free_port();
            // It logs to standard output.
            let mut command = Command::new("sh");
            command.args(["-c", "exec \"$0\" \"$@\" >&2"]).arg(&program);
            command.args(["-v", "-a", "127.0.0.1", "-d", &place.file("www")]);
            command.args(options).arg(port.to_string());
            match &certificate {
                None => command.arg("--no-tls"),
                Some(Certificate { key, chain }) => command.args([key, chain]),
            };
            (command, port)
        });
        Some(Self {
            daemon,
            _place: place,
            scheme,
            port,
        })
    }

    fn url(&self, path: &str) -> String {
        self.scheme.url(self.port, path)
    }

    fn end(self) -> Log {
        Log(self.daemon.end("TERM"))
    }
}

struct Log(Vec<String>);

impl Log {
    /// The lengths of the payloads of these frames, on streams.
    fn lengths<'a>(&'a self, frames: &'a str) -> impl Iterator<Item = u64> + 'a {
        self.0.iter().filter_map(move |line| {
            let (_, rest) = line.split_once(frames)?;
            let (length, rest) = rest.split_once("length=")?.1.split_once(',')?;
            let stream = rest.split_once("stream_id=")?.1;
            (!stream.starts_with("0>")).then(|| length.parse().expect("it is a number"))
        })
    }

    fn count(&self, text: &str) -> usize {
        self.0.iter().filter(|line| line.contains(text)).count()
    }

    /// Bytes of all frames of responses.
    fn response_bytes(&self) -> u64 {
        let frames = [
            "send HEADERS frame",
            "send DATA frame",
            "send CONTINUATION frame",
        ];
        let lengths = frames.iter().flat_map(|frames| self.lengths(frames));
        lengths.map(|length| 9 + length).sum()
    }
}

/// Requests, bytes and connections are those that the server has seen, and each connection ends
/// with GOAWAY.
fn load(scheme: Scheme, options: &[&str], of_ours: &[&str], path: &str) -> Option<Log> {
    let server = Nghttpd::start(scheme, options)?;
    let arguments = [LOAD.as_slice(), of_ours].concat();
    let results = each_backend(&arguments, &server.url(path));
    let log = server.end();
    assert_all_answered(&results);
    let runs = results.len();
    assert_eq!(log.count("; Open new stream"), REQUESTS as usize * runs);
    assert_eq!(bytes_of(&results), log.response_bytes());
    assert_eq!(log.count("recv GOAWAY"), CONNECTIONS as usize * runs);
    assert_eq!(
        log.count("error_code=NO_ERROR"),
        CONNECTIONS as usize * runs
    );
    assert_eq!(log.count("RST_STREAM"), 0);
    Some(log)
}

#[test]
fn requests_and_bytes_are_those_of_the_server() {
    for scheme in Scheme::BOTH {
        load(scheme, &[], &[], PAGE);
    }
}

#[test]
fn padding_and_trailers_are_counted() {
    load(Scheme::Http, &["-b200", "--trailer=x-end: yes"], &[], PAGE);
}

#[test]
fn uploads_pass_through_small_windows_in_both_directions() {
    let place = Folder::new();
    let body = place.file_with("body", "u".repeat(100_000));
    let of_ours = ["-XPOST", "--body-file", &body];
    let options = ["--echo-upload", "-w10", "-W14", "-m2"];
    for scheme in Scheme::BOTH {
        let Some(log) = load(scheme, &options, &of_ours, PAGE) else {
            return;
        };
        let (received, sent) = (log.lengths("recv DATA"), log.lengths("send DATA"));
        assert_eq!(received.sum::<u64>(), sent.sum::<u64>());
    }
}

/// What is in flight at the end of a run is not reset.
#[test]
fn connections_end_with_goaway_in_the_middle_of_a_run() {
    let Some(server) = Nghttpd::start(Scheme::Http, &[]) else {
        return;
    };
    let results = each_backend(&["--http2", "-m4"], &server.url(PAGE));
    let log = server.end();
    // A server that is writing when the connection ends gets an error, and reads no more. After the
    // last response, each GOAWAY is read: `load` asks for that.
    let connections = CONNECTIONS as usize * results.len();
    let received = log.count("recv GOAWAY");
    assert!((1..=connections).contains(&received), "{received}");
    assert_eq!(log.count("recv RST_STREAM"), 0);
}
