//! F1, F2, F18, F20, F21, F74: missing targets, unreadable files, low limits.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use origin::{Address, Options};
use results::ErrorKind;
use socket2::{Domain, SockAddr, Socket, Type};
use testkit::{Folder, Refusing, one_line};

use crate::client;
use crate::harness::{load, site, site_with};
use crate::row::FaultRow;
use crate::signals::NOTHING_MEASURED;

pub(crate) fn rows() -> Vec<FaultRow> {
    vec![
        FaultRow::told(
            "F1",
            "nobody listens; a Unix socket is missing (F21)",
            "exit 1, one line, nothing started",
            a_missing_target_is_one_line_and_starts_nothing,
        ),
        FaultRow::told(
            "F2",
            "the listener's queue is full",
            "exit 1, one line after the timeout",
            a_port_that_accepts_no_connection_is_given_up_after_the_timeout,
        ),
        FaultRow::told(
            "F2",
            "the listener's queue is full once the run has begun",
            "connect_timeout, exit 1, one line",
            a_queue_that_is_full_during_the_run_is_a_connect_timeout,
        ),
        FaultRow::told(
            "F72",
            "Ctrl-C while the first connection is awaited",
            "exit 130, one line: nothing was measured",
            ctrl_c_while_connecting_is_told_as_nothing_measured,
        ),
        FaultRow::told(
            "F18",
            "a name or service that does not exist",
            "exit 1, one line",
            a_name_that_does_not_resolve_is_one_line,
        ),
        FaultRow::told(
            "F20",
            "the hard limit of open files is too low",
            "said before the start, file_limit, the run goes on with fewer",
            a_low_limit_of_open_files_is_reported_and_counted,
        ),
        FaultRow::told(
            "F20",
            "the soft limit of open files is too low",
            "it is raised",
            a_soft_limit_of_open_files_is_raised_silently,
        ),
        FaultRow::told(
            "F21",
            "a Unix socket that was unlinked, is a file, or is nobody's",
            "exit 1, one line",
            a_unix_socket_that_nobody_serves_is_one_line,
        ),
        FaultRow::told(
            "F21",
            "a Unix socket that is unlinked during the run",
            "refused; what was measured stays",
            a_unix_socket_that_vanishes_counts_as_refused,
        ),
        FaultRow::told(
            "F74",
            "the folder of the document vanishes during the run",
            "exit 1, the report stays, the last line says so",
            an_unwritable_document_is_reported_after_the_report,
        ),
        FaultRow::told(
            "F75",
            "a script or body file that cannot be read",
            "exit 1, one line, nothing started",
            an_unreadable_file_is_one_line_and_starts_nothing,
        ),
    ]
}

fn a_missing_target_is_one_line_and_starts_nothing() {
    let site = site();
    let nobody = Refusing::new();
    let free = nobody.address();
    for (url, more, expected) in [
        (
            format!("http://{free}/"),
            &[][..],
            format!("unable to connect to {free} Connection refused"),
        ),
        (
            format!("https://{free}/"),
            &[],
            format!("unable to connect to {free} Connection refused"),
        ),
        (
            "http://localhost/".to_owned(),
            &["--unix-socket", "/no/such/socket"],
            "unable to connect to /no/such/socket No such file or directory".to_owned(),
        ),
    ] {
        let output = load(&site).url(&url).with(more).output();
        assert_eq!(output.only_line(), format!("wrkbench: {expected}"));
    }
    assert_eq!(site.counts().connections, 0);
}

fn a_name_that_does_not_resolve_is_one_line() {
    let site = site();
    // A name that never exists (RFC 6761 section 6.4).
    let output = load(&site).url("http://nobody.invalid:8080/").output();
    let line = output.only_line();
    let begin = "wrkbench: unable to resolve nobody.invalid:8080 ";
    assert!(
        line.starts_with(begin) && line.len() > begin.len(),
        "{line}"
    );
    let output = load(&site).url("http://localhost:nosuchservice/").output();
    assert!(output.only_line().contains("nosuchservice"), "{output:?}");
}

fn an_unreadable_file_is_one_line_and_starts_nothing() {
    let site = site();
    for (options, part) in [
        (&["-s", "/no/such.lua"][..], "/no/such.lua"),
        (&["-s", "/"], "/"),
        (
            &["--body-file", "/no/such/body"],
            "--body-file /no/such/body: ",
        ),
        (&["--body-file", "/"], "--body-file /: "),
    ] {
        let output = load(&site).with(options).output();
        assert!(output.only_line().contains(part), "{output:?}");
    }
    assert_eq!(site.counts().requests, 0);
}

fn an_unwritable_document_is_reported_after_the_report() {
    let site = site();
    let folder = site.folder.file("gone");
    std::fs::create_dir(&folder).unwrap();
    let json = format!("{folder}/r.json");
    let run = load(&site).requests(20).with(&["--json", &json]);
    let output = run
        .script(&format!("function init() os.remove('{folder}') end"))
        .output();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("\nRequests/sec: "), "{output:?}");
    let last = output.stderr.lines().last().unwrap();
    let begin = format!("wrkbench: --json \"{json}\": cannot write the result: ");
    assert!(last.starts_with(&begin), "{last}");
}

fn a_low_limit_of_open_files_is_reported_and_counted() {
    let site = site();
    let run = load(&site).connections(100).for_ms(400);
    let run = run.in_shell_after("ulimit -n 50").run();
    assert!(run.answered() > 0, "{}", run.story());
    let first = run.stderr.lines().next().unwrap();
    let expected = "wrkbench: note: the limit of open files (50) is too low for 100 connections; \
                    raise it with ulimit -n ";
    let enough = first
        .strip_prefix(expected)
        .unwrap_or_else(|| panic!("{first}"));
    assert!(run.events(ErrorKind::FileLimit) > 0, "{}", run.story());
    assert!(run.kinds() == [ErrorKind::FileLimit], "{}", run.story());
    assert_eq!(run.failed(ErrorKind::FileLimit), 0);
    let opened = run.opened();
    assert!((1..=50).contains(&opened), "{}", run.story());
    // The limit saturated the generator, so the verdict has it with its remedy.
    let verdict = run.document["generator"]["verdict"].to_string();
    assert!(verdict.contains("\"files_exhausted\""), "{verdict}");
    assert!(
        run.stderr.contains("raise the limit of open files"),
        "{}",
        run.stderr
    );
    let warnings = run.document["warnings"].to_string();
    assert!(warnings.contains("\"connections_missing\""), "{warnings}");
    let run = load(&site).connections(100).requests(300);
    let run = run
        .in_shell_after(&format!("ulimit -n {enough}"))
        .run()
        .expect_answers(300);
    assert!(!run.stderr.contains("open files"), "{}", run.stderr);
}

fn a_soft_limit_of_open_files_is_raised_silently() {
    let site = site();
    let run = load(&site).connections(100).requests(300);
    let run = run
        .in_shell_after("ulimit -S -n 40")
        .run()
        .expect_answers(300);
    assert!(!run.stderr.contains("open files"), "{}", run.stderr);
}

/// A listener whose queue is full: the kernel drops new connections (listen(2)).
struct FullPort {
    _listener: Socket,
    _waiting: Vec<Socket>,
    url: String,
}

impl FullPort {
    fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // A backlog of 0 holds one connection; those after it get no reply.
        let waiting = (0..4).map(|_| connecting(&address)).collect();
        Self {
            url: format!("http://{}/", address.as_socket().unwrap()),
            _listener: listener,
            _waiting: waiting,
        }
    }
}

fn connecting(address: &SockAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_nonblocking(true).unwrap();
    // EINPROGRESS is expected.
    let _ = socket.connect(address);
    socket
}

fn a_port_that_accepts_no_connection_is_given_up_after_the_timeout() {
    let (site, port) = (site(), FullPort::new());
    let output = load(&site).url(&port.url).timeout_ms(300).output();
    let line = output.only_line();
    let authority = port.url.trim_start_matches("http://").trim_end_matches('/');
    let begin = format!("wrkbench: unable to connect to {authority} ");
    assert!(line.starts_with(&begin), "{line}");
    assert!(line.contains("timed out"), "{line}");
}

fn ctrl_c_while_connecting_is_told_as_nothing_measured() {
    let (site, port) = (site(), FullPort::new());
    let run = load(&site).url(&port.url).timeout_ms(3_600_000);
    let running = run.start();
    let port: u16 = port
        .url
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .parse()
        .unwrap();
    let id = running.process.id();
    testkit::eventually(|| {
        // Field 3 of a line is the far end in hexadecimal, field 4 the state: 02 is SYN_SENT
        // (proc(5)).
        let table = std::fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap();
        let far = format!(":{port:04X} 02 ");
        let connecting = table.lines().filter(|line| line.contains(&far)).count();
        // The connections of the test wait there too.
        if connecting > 3 {
            Ok(())
        } else {
            Err(format!("it connects\n{table}"))
        }
    });
    running.process.signal("INT");
    let output = running.process.finish();
    assert_eq!(
        (output.code, output.stdout.as_str(), output.stderr.as_str()),
        (Some(130), "", NOTHING_MEASURED),
        "{output:?}"
    );
}

fn a_queue_that_is_full_during_the_run_is_a_connect_timeout() {
    // The check whether anybody listens takes the only place in the queue and keeps it.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let url = format!(
        "http://{}/",
        listener.local_addr().unwrap().as_socket().unwrap()
    );
    let arguments = ["-t1", "-c4", "-d400ms", "-T100ms"].map(str::to_owned);
    let run = client::run(&arguments, &url, Duration::from_millis(400));
    assert_eq!(run.kinds(), [ErrorKind::ConnectTimeout], "{}", run.story());
    assert_eq!((run.sent(), run.failed()), (0, 0), "{}", run.story());
    assert_eq!(run.output.code, Some(1), "{}", run.story());
    let line = one_line(&run.output.stderr);
    let begin = "wrkbench: no request succeeded: the connection was not set up in time";
    assert!(line.starts_with(begin), "{line}");
}

fn a_unix_socket_that_nobody_serves_is_one_line() {
    let site = site();
    let left = site.folder.file("left");
    drop(UnixListener::bind(&left).unwrap());
    let file = site.folder.file_with("file", "text");
    let long = site.folder.file(&"x".repeat(200));
    for (path, reason) in [
        (left.as_str(), "Connection refused"),
        (&file, "Connection refused"),
        ("/", "Connection refused"),
        (&long, ""),
    ] {
        let output = load(&site).with(&["--unix-socket", path]).output();
        let line = output.only_line();
        // An error repeats only the beginning of a long path.
        let begin = path.get(..150).unwrap_or(path);
        assert!(line.contains(begin) && line.ends_with(reason), "{line}");
    }
}

fn a_unix_socket_that_vanishes_counts_as_refused() {
    let folder = Folder::new();
    let path = folder.file("s");
    let site = site_with(Options {
        listen: Address::Unix(path.clone().into()),
        ..Options::default()
    });
    let run = load(&site)
        .url("http://localhost/")
        .with(&["-d1h", "--no-keepalive"]);
    let mut running = run.with(&["--unix-socket", &path]).start();
    running.await_banner();
    site.await_counts("load", |counts| counts.responses > 20);
    std::fs::remove_file(&path).unwrap();
    // Refused immediately, then after pauses until the run ends.
    running.process.signal("INT");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{}", run.story());
    assert!(run.answered() > 20, "{}", run.story());
    let kinds = run.kinds();
    assert!(
        kinds.iter().all(|kind| *kind == ErrorKind::Refused),
        "{}",
        run.story()
    );
}
