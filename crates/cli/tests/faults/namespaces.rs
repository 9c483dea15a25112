//! F3, F17 to F19, F22, F74, F77: faults that need a separate network or file system.
//!
//! Each row is a shell script that is the first process of new namespaces; all other processes in
//! them end with it. Nothing outside is touched. Without namespaces the rows are skipped.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use results::parts::breakdown::{LatencyComponent, Slowest};
use results::{ErrorKind, RunResult};
use testkit::{Folder, Output, one_line};

use crate::client::watched;
use crate::harness::io_arguments;
use crate::judge;
use crate::row::{FaultRow, RowOutcome};

/// Before each script: `$W` is the program, `$D` a folder, `$O` the options of every run.
const PROLOGUE: &str = r#"
set -eu
[ "$N" = Ours ] || ip link set lo up
mount -t tmpfs none "$D"
# Starts the built-in server at an address, and waits until it listens at $port.
serve() {
    mkfifo "$D/pipe"
    "$W" serve --listen "$1" --io epoll >"$D/pipe" &
    read -r line <"$D/pipe"
    rm "$D/pipe"
    port=${line##*:}; port=${port%/}
}
# Replaces a file of the system for this script.
replace() {
    cat >"$D/$(basename "$1")"
    mount --bind "$D/$(basename "$1")" "$1"
}
# Copies the document to where it outlives the script.
keep() { cp "$D/r.json" "$K"; }
"#;

/// A pair of interfaces: one with 192.0.2.1, and one in another namespace with a server at
/// 192.0.2.2:8080; `$peer` is the server.
const NEIGHBOUR: &str = r#"
ip link add v0 type veth peer name v1
ip addr add 192.0.2.1/24 dev v0
mkfifo "$D/go" "$D/up"
unshare -n sh -c 'echo >"$D/up"; read -r _ <"$D/go"
    ip addr add 192.0.2.2/24 dev v1; ip link set v1 up
    exec "$W" serve --listen 192.0.2.2:8080 --io epoll' >"$D/serving" &
peer=$!
read -r _ <"$D/up"
ip link set v1 netns "$peer"
ip link set v0 up
echo >"$D/go"
until grep -qs serving "$D/serving"; do sleep 0.01; done
"#;

/// A link with a round trip time of 40 ms that loses 3 % of the packets in each direction, and a
/// server behind it at 10.99.0.2:8080; `$client` is the prefix of commands before it.
const LOSSY_LINK: &str = r#"
mount -t tmpfs none /run
link() { python3 "$E/link.py" "$@"; }
link up --seed 1 >"$D/link" &
until grep -qs ready "$D/link"; do sleep 0.01; done
link set rtt=40 loss=3
ip netns exec wrkbench-server "$W" serve --listen 10.99.0.2:8080 --answer size=100k --io epoll \
    >"$D/serving" &
until grep -qs serving "$D/serving"; do sleep 0.01; done
client='ip netns exec wrkbench-client'
"#;

/// How namespaces can be created here: as root, or as root of a user namespace.
fn unshare(network: Network) -> Result<Command, String> {
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    for way in ways {
        let mut command = Command::new("unshare");
        command.args(way);
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        if network == Network::Own {
            command.arg("--net");
        }
        let mut trial = Command::new("unshare");
        trial
            .args(command.get_args())
            .args(["ip", "link", "show", "lo"]);
        if trial.output().is_ok_and(|output| output.status.success()) {
            return Ok(command);
        }
    }
    Err("no namespaces: neither root nor allowed to make user namespaces".to_owned())
}

/// Which network a script is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    /// A new one, with nothing but loopback.
    Own,
    /// That of the test.
    Ours,
}

/// The outcome of a script.
struct Isolated {
    output: Output,
    result: Option<RunResult>,
}

/// Runs a script in its own namespaces.
fn isolated(network: Network, script: &str, allowed_ms: u64) -> Result<Isolated, String> {
    let mut command = unshare(network)?;
    let folder = Folder::new();
    let kept = folder.file("kept.json");
    let options = [
        &[
            "-t1".to_owned(),
            "--json".to_owned(),
            folder.file("r/r.json"),
        ][..],
        &io_arguments(),
    ];
    std::fs::create_dir(folder.file("r")).unwrap();
    command
        .args(["sh", "-c", &format!("{PROLOGUE}{script}")])
        .env("W", env!("CARGO_BIN_EXE_wrkbench"))
        .env("D", folder.file("r"))
        .env("K", &kept)
        .env(
            "E",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/experiments"),
        )
        .env("N", format!("{network:?}"))
        .env("O", options.concat().join(" "));
    let output = watched(command, Duration::from_millis(allowed_ms));
    let result = std::fs::read(&kept)
        .ok()
        .map(|bytes| judge::document(&bytes));
    Ok(Isolated { output, result })
}

/// A row with a script and a function that checks its outcome.
fn row(
    id: &'static str,
    what: &'static str,
    expected: &'static str,
    allowed_ms: u64,
    script: &str,
    judge: impl Fn(&Isolated) -> String + Send + Sync + 'static,
) -> FaultRow {
    let script = script.to_owned();
    FaultRow::new(id, what, expected, move || {
        match isolated(Network::Own, &script, allowed_ms) {
            Ok(isolated) => RowOutcome::Held(judge(&isolated)),
            Err(reason) => RowOutcome::Skipped("namespaces", reason),
        }
    })
    .slow()
}

impl Isolated {
    fn result(&self) -> &RunResult {
        let result = self.result.as_ref();
        result.unwrap_or_else(|| panic!("no document; {:?}", self.output))
    }

    /// Expects a run that ends well, with errors of this kind only.
    fn expect_only(&self, kind: ErrorKind) {
        assert_eq!(self.output.code, Some(0), "{:?}", self.output);
        assert_eq!(self.kinds(), [kind], "{:?}", self.output);
    }

    fn kinds(&self) -> Vec<ErrorKind> {
        let errors = &self.result().recording.errors;
        errors.iter().map(|(kind, _)| kind).collect()
    }

    fn answered(&self) -> u64 {
        self.result().recording.counters.answered
    }

    /// The run ended with 1 and one line that has these parts.
    fn line_with(&self, parts: &[&str]) -> String {
        let output = &self.output;
        assert_eq!(output.code, Some(1), "{output:?}");
        let line = one_line(&output.stderr);
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        line.to_owned()
    }

    /// Ended with 0, everything was answered.
    fn all_answered(&self) -> String {
        assert_eq!(self.output.code, Some(0), "{:?}", self.output);
        assert_eq!(self.kinds(), [], "{:?}", self.output);
        format!("{} responses", self.answered())
    }
}

pub(crate) fn rows() -> Vec<FaultRow> {
    [
        routes(),
        losses(),
        names(),
        name_servers(),
        ports(),
        folders(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn routes() -> Vec<FaultRow> {
    vec![
        row(
            "F3",
            "SYNs vanish",
            "exit 1, one line after the timeout",
            300,
            &format!(
                "{NEIGHBOUR}
                 nsenter --target $peer --net ip link set v1 down
                 exec \"$W\" $O -T300ms -d10s http://192.0.2.2:8080/"
            ),
            |run| run.line_with(&["unable to connect to 192.0.2.2:8080 ", "timed out"]),
        ),
        row(
            "F3",
            "all packets vanish in the middle of a run, and come again",
            "timeout, connect_timeout; the run goes on, exit 0",
            3000,
            &format!(
                "{NEIGHBOUR}
                 \"$W\" $O -T200ms -d3s -c4 http://192.0.2.2:8080/ & run=$!
                 sleep 0.7; nsenter --target $peer --net ip link set v1 down
                 sleep 1; nsenter --target $peer --net ip link set v1 up
                 code=0; wait $run || code=$?
                 keep; exit $code"
            ),
            |run| {
                assert_eq!(run.output.code, Some(0), "{:?}", run.output);
                let kinds = run.kinds();
                let known = [
                    ErrorKind::Timeout,
                    ErrorKind::ConnectTimeout,
                    ErrorKind::Unreachable,
                ];
                assert!(
                    kinds.iter().all(|kind| known.contains(kind)),
                    "{:?}",
                    run.output
                );
                assert!(kinds.contains(&ErrorKind::Timeout), "{:?}", run.output);
                assert!(
                    kinds.contains(&ErrorKind::ConnectTimeout),
                    "{:?}",
                    run.output
                );
                let rows = run.result().recording.series.rows();
                let last: u64 = rows.iter().rev().take(3).map(|row| row.answered).sum();
                assert!(last > 0, "no response in the end; {:?}", run.output);
                format!("{kinds:?}, and responses in the end")
            },
        ),
        row(
            "F3",
            "the network goes down in the middle of a run, and comes again",
            "unreachable; the run goes on, exit 0",
            2500,
            &format!(
                "{NEIGHBOUR}
                 \"$W\" $O -T200ms -d2500ms -c4 http://192.0.2.2:8080/ & run=$!
                 sleep 0.7; ip link set v0 down
                 sleep 0.7; ip link set v0 up
                 code=0; wait $run || code=$?
                 keep; exit $code"
            ),
            |run| {
                assert_eq!(run.output.code, Some(0), "{:?}", run.output);
                assert!(
                    run.kinds().contains(&ErrorKind::Unreachable),
                    "{:?}",
                    run.output
                );
                let rows = run.result().recording.series.rows();
                let last: u64 = rows.iter().rev().take(3).map(|row| row.answered).sum();
                assert!(last > 0, "no response in the end; {:?}", run.output);
                format!("{:?}, and responses in the end", run.kinds())
            },
        ),
        row(
            "F3",
            "no route at all",
            "exit 1, one line at once",
            0,
            "exec \"$W\" $O -d10s http://198.51.100.1/",
            |run| run.line_with(&["unable to connect to 198.51.100.1:", "unreachable"]),
        ),
        row(
            "F22",
            "the address to connect from is not of this machine",
            "exit 1, one line",
            1000,
            "serve 127.0.0.1:8080
             exec \"$W\" $O -b 198.51.100.9 -d1s http://127.0.0.1:8080/",
            |run| run.line_with(&["wrkbench: "]),
        ),
        row(
            "F22",
            "the address to connect from is of the other family",
            "exit 1, one line",
            1000,
            "serve 127.0.0.1:8080
             exec \"$W\" $O -b ::1 -d1s http://127.0.0.1:8080/",
            |run| run.line_with(&["wrkbench: "]),
        ),
    ]
}

/// Needs Python and TUN devices; the row is skipped where one is missing.
pub(crate) fn losses() -> Vec<FaultRow> {
    if testkit::require("python3").is_none() || !Path::new("/dev/net/tun").exists() {
        testkit::skip("tun", "no /dev/net/tun or no python3");
        return Vec::new();
    }
    let named = row(
        "F3",
        "3 % of the packets are lost, and the server states that it took no time",
        "the slowest requests are slow because of lost packets",
        5000,
        &format!(
            "{LOSSY_LINK}
             url='http://10.99.0.2:8080/?size=63&header=Server-Timing:total;dur=0'
             code=0; $client \"$W\" $O -c20 -d4s --server-timing \"$url\" || code=$?
             keep; exit $code"
        ),
        |run| {
            let breakdown = run.result().recording.parts.breakdown.as_ref();
            let slowest = Slowest::of(breakdown.expect("it was asked for"));
            let reasons = slowest.expect("there were requests").reasons();
            let (part, share) = reasons[0];
            assert_eq!(part, LatencyComponent::Retransmission, "{reasons:?}");
            // A response that is lost after its request was acknowledged is not seen from here.
            assert!(share > 0.5, "{reasons:?}");
            format!(
                "{:.0} % of the additional time is lost packets",
                share * 100.0
            )
        },
    );
    let rows = [
        named,
        row(
            "F3",
            "3 % of the packets are lost, and those behind them wait in the kernel",
            "the wait is not taken for a delay of the load generator",
            4000,
            &format!(
                "{LOSSY_LINK}
             code=0; $client \"$W\" $O -c8 -R40 -d3s http://10.99.0.2:8080/ || code=$?
             keep; exit $code"
            ),
            |run| {
                let recording = &run.result().recording;
                assert!(recording.counters.answered > 50, "{:?}", run.output);
                // Sending a packet again takes at least 40 ms, and a twentieth of the responses
                // have one behind a lost one at the end.
                let late_ns = recording.lags.receive.value_at_percentile(98.0);
                assert!(late_ns < 20_000_000, "{late_ns} ns; {:?}", run.output);
                format!(
                    "98 % were read within {} us of arrival",
                    late_ns.div_ceil(1000)
                )
            },
        ),
    ];
    rows.map(FaultRow::at_any_pace).into()
}

fn names() -> Vec<FaultRow> {
    let hosts = "replace /etc/hosts <<END
::1 six dual
127.0.0.1 dual
127.0.0.9 several
127.0.0.8 several
127.0.0.1 several
END
";
    let reaching = |what, listen: &str, host: &str| {
        let script = format!(
            "{hosts} serve {listen}:8080
             code=0; \"$W\" $O -n50 http://{host}:8080/ || code=$?; keep; exit $code"
        );
        row(
            "F17",
            what,
            "a response from the address that answers",
            0,
            &script,
            Isolated::all_answered,
        )
    };
    vec![
        reaching("a name with an IPv6 address only", "[::1]", "six"),
        reaching(
            "a dead IPv6 address and a live IPv4 one",
            "127.0.0.1",
            "dual",
        ),
        reaching("a dead IPv4 address and a live IPv6 one", "[::1]", "dual"),
        reaching(
            "several addresses, of which the last answers",
            "127.0.0.1",
            "several",
        ),
        row(
            "F17",
            "several addresses, of which none answers",
            "exit 1, one line",
            0,
            &format!("{hosts} exec \"$W\" $O -d10s http://several:8080/"),
            |run| run.line_with(&["unable to connect to several:8080 Connection refused"]),
        ),
        row(
            "F18",
            "nobody at the name server's address",
            "exit 1, one line",
            0,
            "replace /etc/resolv.conf <<END
nameserver 127.0.0.1
options timeout:1 attempts:1
END
             exec \"$W\" $O -d10s http://name.test:8080/",
            |run| run.line_with(&["unable to resolve name.test:8080 "]),
        ),
    ]
}

/// A name server on loopback that fails on request.
struct NameServer {
    socket: UdpSocket,
    thread: Option<JoinHandle<()>>,
    queries: Arc<AtomicU64>,
}

/// Its address. resolv.conf(5) has no option for another port.
const NAME_SERVER: &str = "127.0.0.77:53";
static ONE_NAME_SERVER: Mutex<()> = Mutex::new(());

impl NameServer {
    fn start() -> std::io::Result<Self> {
        let socket = UdpSocket::bind(NAME_SERVER)?;
        let (ours, queries) = (socket.try_clone()?, Arc::<AtomicU64>::default());
        let counter = Arc::clone(&queries);
        let thread = std::thread::spawn(move || {
            let mut query = [0; 512];
            // An empty datagram is the end.
            while let Ok((length @ 1.., from)) = ours.recv_from(&mut query) {
                counter.fetch_add(1, Ordering::SeqCst);
                if let Some(answer) = answer(&query[..length]) {
                    let _ = ours.send_to(&answer, from);
                }
            }
        });
        Ok(Self {
            socket,
            thread: Some(thread),
            queries,
        })
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.socket.send_to(&[], NAME_SERVER);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The answer to a query (RFC 1035 section 4): `nx` does not exist, `fail` is a server failure,
/// `slow` gets none, and anything else is 127.0.0.1.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 12;
    let name = &query[HEADER_BYTES..];
    let end = HEADER_BYTES + name.iter().position(|byte| *byte == 0).unwrap_or(0);
    let question = &query[HEADER_BYTES..end + 5];
    let wants_ipv4 = question.ends_with(&[0, 1, 0, 1]);
    let code: u8 = match question {
        [2, b'n', b'x', ..] => 3,
        [4, b'f', b'a', b'i', b'l', ..] => 2,
        [4, b's', b'l', b'o', b'w', ..] => return None,
        _ => 0,
    };
    let has_answer = code == 0 && wants_ipv4;
    // An answer, recursion available; one question, none or one answer.
    let counts = [0x81, 0x80 | code, 0, 1, 0, u8::from(has_answer), 0, 0, 0, 0];
    let mut answer = [&query[..2], &counts, question].concat();
    if has_answer {
        // The name of the question, type A, class IN, a second to live, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

fn name_servers() -> Vec<FaultRow> {
    let asking = |what, expected, name: &str, port: &str, check: fn(&Isolated, u64) -> String| {
        let name = name.to_owned();
        let script = format!(
            "replace /etc/resolv.conf <<END
nameserver 127.0.0.77
options timeout:1 attempts:1
END
             serve 127.0.0.1:0
             code=0; \"$W\" $O --no-keepalive -n200 http://{name}:{port}/ || code=$?
             [ $code != 0 ] || keep; exit $code"
        );
        FaultRow::new("F18", what, expected, move || {
            let _only_one = ONE_NAME_SERVER
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let server = match NameServer::start() {
                Ok(server) => server,
                Err(why) => {
                    return RowOutcome::Skipped("name server", format!("{NAME_SERVER}: {why}"));
                }
            };
            match isolated(Network::Ours, &script, 2000) {
                Ok(run) => RowOutcome::Held(check(&run, server.queries.load(Ordering::SeqCst))),
                Err(reason) => RowOutcome::Skipped("namespaces", reason),
            }
        })
        .slow()
    };
    vec![
        asking("NXDOMAIN", "exit 1, one line", "nx.test", "80", |run, _| {
            run.line_with(&["unable to resolve nx.test:80 Name or service not known"])
        }),
        asking(
            "SERVFAIL",
            "exit 1, one line",
            "fail.test",
            "80",
            |run, _| {
                run.line_with(&[
                    "unable to resolve fail.test:80 Temporary failure in name resolution",
                ])
            },
        ),
        asking(
            "the name server does not answer",
            "exit 1, one line when the resolver gives up",
            "slow.test",
            "80",
            |run, _| run.line_with(&["unable to resolve slow.test:80 Temporary failure in name"]),
        ),
        asking(
            "a name whose addresses may change",
            "looked up before the run, and never again",
            "good.test",
            "$port",
            |run, queries| {
                // One query for each family.
                assert!((1..=2).contains(&queries), "{queries} queries");
                format!("{}, {queries} queries", run.all_answered())
            },
        ),
    ]
}

fn ports() -> Vec<FaultRow> {
    vec![
        row(
            "F19",
            "ten local ports for twenty connections",
            "address_unavailable, warnings; the others go on, exit 0",
            1000,
            "serve 127.0.0.1:8080
             echo 40000 40009 >/proc/sys/net/ipv4/ip_local_port_range
             code=0; \"$W\" $O -c20 -d1s http://127.0.0.1:8080/ || code=$?; keep; exit $code",
            |run| {
                run.expect_only(ErrorKind::AddressUnavailable);
                assert!(run.answered() > 0);
                let said = "no local port was free";
                assert!(run.output.stderr.contains(said), "{:?}", run.output);
                format!(
                    "{} connections",
                    run.result().recording.counters.connections_opened
                )
            },
        ),
        row(
            "F19",
            "ten local ports, and a connection for each request",
            "address_unavailable once they are used up, exit 0",
            1000,
            "serve 127.0.0.1:8080
             echo 40000 40009 >/proc/sys/net/ipv4/ip_local_port_range
             code=0; \"$W\" $O -c4 --no-keepalive -d1s http://127.0.0.1:8080/ || code=$?
             keep; exit $code",
            |run| {
                run.expect_only(ErrorKind::AddressUnavailable);
                format!("{} responses", run.answered())
            },
        ),
        row(
            "F77",
            "a port that connects to itself (RFC 9293 section 3.5)",
            "no response is made up: exit 1, one line",
            3000,
            "echo 41000 41000 >/proc/sys/net/ipv4/ip_local_port_range
             code=0; \"$W\" $O -c1 -d3s -T500ms http://127.0.0.1:41000/ || code=$?; keep; exit \
             $code",
            |run| {
                let known = [
                    ErrorKind::AddressUnavailable,
                    ErrorKind::BadStatusLine,
                    ErrorKind::Refused,
                ];
                assert!(
                    run.kinds().iter().all(|kind| known.contains(kind)),
                    "{:?}",
                    run.output
                );
                assert_eq!(run.answered(), 0);
                run.line_with(&["no request succeeded: "]);
                format!("{:?}", run.kinds())
            },
        ),
    ]
}

fn folders() -> Vec<FaultRow> {
    let nothing_left = |run: &Isolated, reason: &str| {
        assert_eq!(run.output.code, Some(1), "{:?}", run.output);
        let last = run.output.stderr.lines().last().unwrap_or_default();
        assert!(
            last.contains("cannot write the result: ") && last.contains(reason),
            "{last}"
        );
        let stdout = &run.output.stdout;
        assert!(
            stdout.contains("\nRequests/sec: ") && stdout.ends_with("\nleft: 0\n"),
            "{stdout}"
        );
        last.to_owned()
    };
    let write_to = |options: &str| {
        format!(
            "serve 127.0.0.1:8080
             mkdir \"$D/there\"
             mount -t tmpfs -o {options} none \"$D/there\"
             code=0; \"$W\" -t1 -n50 --json \"$D/there/r.json\" http://127.0.0.1:8080/ || code=$?
             echo left: $(ls -A \"$D/there\" | wc -l)
             exit $code"
        )
    };
    vec![
        row(
            "F74",
            "the file system of the document is full",
            "exit 1, the report stays, the last line says so, no half document",
            0,
            &write_to("size=4k"),
            move |run| nothing_left(run, "No space left on device"),
        ),
        row(
            "F74",
            "the file system of the document is read-only",
            "exit 1, the report stays, the last line says so",
            0,
            &write_to("ro"),
            move |run| nothing_left(run, "Read-only file system"),
        ),
    ]
}
