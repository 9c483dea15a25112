//! gRPC's own server, in Python: unary calls that succeed and fail, in clear text and over TLS.

use std::process::Command;

use results::{ErrorKind, RunResult};

use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::http2::{Scheme, tls_of};
use crate::trial::{CONNECTIONS, each_backend};
use testkit::{Folder, require_ok};

/// `Echo` wants the message of the test and returns it; `Busy` fails; `Count` returns a stream of
/// five messages, the third one empty; `Check` wants a message in which all fields follow from
/// `count`, as Python's own protobuf reads it; there are no other methods. Reflection has the
/// descriptors in a file, if there is one. With a key and a certificate it speaks TLS. Once ended,
/// it writes how often each path was called.
const SERVER: &str = r#"
import collections, signal, sys, threading
from concurrent import futures
import grpc

port, counts_file, descriptors, *tls = sys.argv[1:]
counts, lock = collections.Counter(), threading.Lock()

def echo(request, context):
    if request != b"\x0a\x05hello":
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, repr(request))
    return request

def busy(request, context):
    context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

def count(request, context):
    for n in range(5):
        yield b"" if n == 2 else request

def order_class():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with open(descriptors, "rb") as file:
        described = descriptor_pb2.FileDescriptorProto.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described)
    descriptor = pool.FindMessageTypeByName("test.Order")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)

Order = order_class() if descriptors != "none" else None

def check(request, context):
    order = Order.FromString(request)
    name = "n%d" % order.count
    metadata = dict(context.invocation_metadata())
    is_right = (
        order.id == name
        and list(order.inner.names) == ["a", name * 40]
        and list(order.inner.inner.names) == [name]
        and dict(order.tags) == {name: -order.count}
        and len(order.uuid) == 36
        and metadata["x-count"] == str(order.count)
    )
    if not is_right:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, repr(order))
    return request

METHODS = {
    "/test.Service/Echo": echo,
    "/test.Service/Busy": busy,
    "/test.Service/Check": check,
}
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

def field(number, content):
    length, text = len(content), bytes([number << 3 | 2])
    while length > 127:
        text += bytes([length & 127 | 128])
        length >>= 7
    return text + bytes([length]) + content

# Field 7 of a question asks for the services, field 4 for the file of a symbol.
def reflect(questions, context):
    for question in questions:
        if question[0] == 7 << 3 | 2:
            yield field(6, field(1, field(1, b"test.Service")))
        elif question == field(4, b"test.Service"):
            with open(descriptors, "rb") as file:
                yield field(4, field(1, file.read()))
        else:
            yield field(7, field(2, b"not found"))

class Service(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == REFLECTION and descriptors != "none":
            return grpc.stream_stream_rpc_method_handler(reflect)
        if details.method == "/test.Service/Count":
            return grpc.unary_stream_rpc_method_handler(count)
        method = METHODS.get(details.method)
        if method is None:
            return None
        def call(request, context):
            with lock:
                counts[details.method] += 1
            return method(request, context)
        return grpc.unary_unary_rpc_method_handler(call)

server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
server.add_generic_rpc_handlers([Service()])
address = "127.0.0.1:" + port
if tls:
    pair = tuple(open(name, "rb").read() for name in tls)
    bound = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
else:
    bound = server.add_insecure_port(address)
if bound == 0:
    sys.exit("port in use")
server.start()
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
print("ready", file=sys.stderr, flush=True)
ended.wait()
server.stop(5).wait()
with open(counts_file, "w") as file:
    for method, count in counts.items():
        print(method, count, file=file)
"#;

/// What the server has.
const PROTO: &str = "syntax = \"proto3\";\n\
                     package test;\n\
                     message Text { string text = 1; }\n\
                     service Service {\n\
                     rpc Echo(Text) returns (Text);\n\
                     rpc Busy(Text) returns (Text);\n\
                     rpc Count(Text) returns (stream Text);\n\
                     rpc Check(Order) returns (Order);\n\
                     }\n\
                     message Order {\n\
                     string id = 1; sint32 count = 2; Inner inner = 3; string uuid = 4;\n\
                     map<string, int64> tags = 5;\n\
                     }\n\
                     message Inner { repeated string names = 1; Inner inner = 2; }\n";

/// A Python with gRPC. The first one may not be the distribution's, which has its packages.
fn python() -> Option<&'static str> {
    let has_grpc = |python: &&str| {
        let output = Command::new(python).args(["-c", "import grpc"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_grpc);
    require_ok(
        "python3-grpcio",
        found.ok_or("no Python has it; `make test-packages` installs it"),
    )
}

struct Server {
    daemon: Daemon,
    place: Folder,
    scheme: Scheme,
    port: u16,
}

impl Server {
    /// `None` if Python or its gRPC is not installed.
    fn start(scheme: Scheme) -> Option<Self> {
        Self::start_in(Folder::new(), scheme, "none")
    }

    /// One that has reflection, and the folder with `test.proto`.
    fn start_with_reflection(scheme: Scheme) -> Option<Self> {
        let place = Folder::new();
        place.file_with("test.proto", PROTO);
        let made = protox::compile(["test.proto"], [place.path()]);
        let made = made.unwrap_or_else(|error| panic!("{error}"));
        let descriptor = prost::Message::encode_to_vec(&made.file[0]);
        let descriptors = place.file_with("test.descriptor", descriptor);
        Self::start_in(place, scheme, &descriptors)
    }

    fn start_in(place: Folder, scheme: Scheme, descriptors: &str) -> Option<Self> {
        let python = python()?;
        let tls = tls_of(scheme, &place)?;
        let script = place.file_with("server.py", SERVER);
        let (daemon, port) = Daemon::start("ready", || {
            let port = free_port();
            let mut command = Command::new(python);
            command.args([
                &script,
                &port.to_string(),
                &place.file("counts"),
                descriptors,
            ]);
            if let Some(Certificate { key, chain }) = &tls {
                command.args([key, chain]);
            }
            (command, port)
        });
        Some(Self {
            daemon,
            place,
            scheme,
            port,
        })
    }

    fn url(&self, method: &str) -> String {
        let path = format!("test.Service/{method}");
        self.scheme.url(self.port, &path)
    }

    /// Ends it. Returns how often a method was called.
    fn called(self, method: &str) -> u64 {
        self.daemon.end("TERM");
        let counts = self.place.read("counts");
        let begin = format!("/test.Service/{method} ");
        let found = counts.lines().find_map(|line| line.strip_prefix(&begin));
        found.map_or(0, |count| count.parse().expect("it is a number"))
    }
}

/// Requests with a response or an error, of all runs.
fn ended(results: &[RunResult]) -> u64 {
    let recordings = results.iter().map(|result| &result.recording);
    recordings
        .map(|recording| recording.counters.answered + recording.errors.exchanges())
        .sum()
}

#[test]
fn calls_that_succeed() {
    for scheme in Scheme::BOTH {
        let Some(server) = Server::start(scheme) else {
            return;
        };
        let message = b"\x0a\x05hello";
        let framed = [&b"\0\0\0\0\x07"[..], message].concat();
        let bodies = [
            server.place.file_with("message", message),
            server.place.file_with("framed", framed),
        ];
        let url = server.url("Echo");
        let mut results = Vec::new();
        for body in bodies {
            results.extend(each_backend(
                &["--grpc", "-m4", "-n400", "-d1m", "--body-file", &body],
                &url,
            ));
        }
        for result in &results {
            let recording = &result.recording;
            assert_eq!(recording.errors.iter().collect::<Vec<_>>(), []);
            assert_eq!(recording.statuses.iter().collect::<Vec<_>>(), [(200, 400)]);
            assert_eq!(recording.latency().count(), 400);
        }
        assert_eq!(server.called("Echo"), ended(&results));
    }
}

#[test]
fn calls_with_a_rate_and_a_script() {
    let Some(server) = Server::start(Scheme::Http) else {
        return;
    };
    let text = "wrk.body = '\\10\\5hello'\n\
                local failed = 0\n\
                function response(status) if status ~= 200 then failed = failed + 1 end end";
    let script = server.place.file_with("call.lua", text);
    let arguments = ["--grpc", "-m4", "-R200", "-s", &script];
    let results = each_backend(&arguments, &server.url("Echo"));
    for result in &results {
        let recording = &result.recording;
        assert_eq!(recording.errors.iter().collect::<Vec<_>>(), []);
        assert!(recording.counters.answered > 0);
    }
    let most = ended(&results) + results.len() as u64 * (4 * CONNECTIONS + 1);
    let called = server.called("Echo");
    assert!((ended(&results)..=most).contains(&called), "{called}");
}

/// Runs without a success exit with 1 and have no result on stdout, so these save it to a file.
fn failing(scheme: Scheme, method: &str, kind: ErrorKind, said: &str) {
    let Some(server) = Server::start(scheme) else {
        return;
    };
    let saved = server.place.file("result.json");
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args([
            "--grpc",
            "-m4",
            "-t2",
            "-c8",
            "-n400",
            "--fail-if",
            "errors>0",
        ])
        .args(["--json", &saved, &server.url(method)])
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(said), "{errors}");
    let file = std::fs::read(&saved).expect("the result is saved");
    let result = results::file::load(file.as_slice()).expect("it is valid");
    let recording = &result.recording;
    assert_eq!(recording.errors.count(kind).exchanges, 400);
    assert_eq!(recording.errors.exchanges(), 400);
    assert_eq!(recording.counters.answered, 0);
    let called = if method == "Busy" { 400 } else { 0 };
    assert_eq!(server.called(method), called);
}

#[test]
fn calls_that_fail() {
    for scheme in Scheme::BOTH {
        failing(
            scheme,
            "Busy",
            ErrorKind::GrpcUnavailable,
            "no request succeeded: gRPC status UNAVAILABLE: not now (400 times)",
        );
    }
}

#[test]
fn calls_of_a_method_that_the_server_lacks() {
    failing(
        Scheme::Http,
        "None",
        ErrorKind::GrpcUnimplemented,
        "no request succeeded: gRPC status UNIMPLEMENTED: Method not found! (400 times)",
    );
}

#[test]
fn a_body_that_is_cut_is_refused_before_the_run() {
    let place = Folder::new();
    let body = place.file_with("cut", b"\0\0\0\0\x07\x0a");
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(["--grpc", "--body-file", &body])
        .arg(format!("http://127.0.0.1:{}/a.B/C", free_port()))
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("which announces 7 bytes, but 1 follow"),
        "{errors}"
    );
}

/// The program with these arguments: exit code, stdout and stderr.
fn wrkbench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(arguments)
        .output()
        .expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn messages_are_json_by_reflection_and_by_files() {
    for scheme in Scheme::BOTH {
        let Some(server) = Server::start_with_reflection(scheme) else {
            return;
        };
        let base = server.scheme.url(server.port, "");
        let proto = server.place.file("test.proto");
        let json = [
            r#"--body={"text": "hello"}"#,
            "--call",
            "test.Service/Echo",
            &base,
        ];
        let mut results = Vec::new();
        for schema in [&["--reflection"][..], &["--proto", &proto]] {
            let (code, stdout, stderr) = wrkbench(&[&["--once", "--grpc"], schema, &json].concat());
            assert_eq!(code, Some(0), "{stdout}{stderr}");
            assert!(stdout.contains("{\n  \"text\": \"hello\"\n}\n"), "{stdout}");
            results.extend(each_backend(
                &[
                    &["--grpc", "-m4", "-n400", "-d1m", json[0], json[1], json[2]],
                    schema,
                ]
                .concat(),
                &base,
            ));
        }
        for result in &results {
            assert_eq!(result.recording.errors.iter().collect::<Vec<_>>(), []);
            assert_eq!(result.recording.latency().count(), 400);
        }
        // Each of the two single calls counts as well.
        assert_eq!(server.called("Echo"), ended(&results) + 2);
    }
}

#[test]
fn messages_of_a_file_have_the_values_of_each_call() {
    let Some(server) = Server::start_with_reflection(Scheme::Http) else {
        return;
    };
    let rows: String = (1..=50).map(|n| format!("n{n},{n},-{n}\n")).collect();
    server
        .place
        .file_with("orders.csv", format!("name,count,negative\n{rows}"));
    let [name, count, negative] =
        ["name", "count", "negative"].map(|column| format!("{{{{csv:orders.csv:{column}}}}}"));
    let line = r#"{"call": "test.Service/Check", "header": {"x-count": "COUNT"}, "message": {
        "id": "NAME", "count": "COUNT", "uuid": "{{uuid}}", "tags": {"NAME": "NEGATIVE"},
        "inner": {"names": ["a", "LONG"], "inner": {"names": ["NAME"]}}}}"#;
    let line = line.replace('\n', " ").replace("LONG", &name.repeat(40));
    let line = line.replace("NAME", &name).replace("COUNT", &count);
    let line = line.replace("NEGATIVE", &negative);
    let file = server.place.file_with("calls.jsonl", line);
    let base = server.scheme.url(server.port, "");
    let proto = server.place.file("test.proto");
    let mut results = Vec::new();
    for schema in [&["--reflection"][..], &["--proto", &proto]] {
        let options = ["--grpc", "-m4", "-n400", "-d1m", "--requests", &file];
        results.extend(each_backend(&[&options, schema].concat(), &base));
    }
    for result in &results {
        assert_eq!(result.recording.errors.iter().collect::<Vec<_>>(), []);
        assert_eq!(result.recording.latency().count(), 400);
    }
    assert_eq!(server.called("Check"), ended(&results));
}

#[test]
fn services_are_listed_and_described() {
    let Some(server) = Server::start_with_reflection(Scheme::Http) else {
        return;
    };
    let url = server.scheme.url(server.port, "");
    let list = |more: &[&str]| wrkbench(&[&["grpc", "list", &url], more].concat());
    assert_eq!(
        list(&[]),
        (Some(0), "test.Service\n".to_owned(), String::new())
    );
    let methods = "test.Service/Busy\ntest.Service/Check\ntest.Service/Count\ntest.Service/Echo\n";
    assert_eq!(
        list(&["test.Service"]),
        (Some(0), methods.to_owned(), String::new())
    );
    let (code, stdout, _) = wrkbench(&["grpc", "describe", &url, "test.Service/Count"]);
    assert_eq!(code, Some(0));
    let expected = "rpc Count(test.Text) returns (stream test.Text);\n\n\
                    message test.Text {\n  string text = 1;\n}\n";
    assert!(stdout.starts_with(expected), "{stdout}");
    for (arguments, message) in [
        (
            &["grpc", "describe", &url, "test.Other"][..],
            "the server answers to reflection: not found",
        ),
        (
            &["grpc", "list", &url, "other"],
            "the server answers to reflection: not found",
        ),
        (&["grpc", "describe", &url], "nothing to describe"),
        (&["grpc", "list"], "no URL of a gRPC server"),
        (&["grpc", "list", "http://127.0.0.1:1"], "--reflection: "),
    ] {
        let (code, _, stderr) = wrkbench(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn the_messages_of_a_stream_are_timed() {
    let Some(server) = Server::start_with_reflection(Scheme::Http) else {
        return;
    };
    let base = server.scheme.url(server.port, "");
    let options = [
        "--grpc",
        "--events",
        "grpc",
        "-m2",
        "-n200",
        "-d1m",
        "--reflection",
    ];
    let call = ["--call", "test.Service/Count", r#"--body={"text": "a"}"#];
    for result in each_backend(&[&options[..], &call].concat(), &base) {
        let parts = &result.recording.parts;
        let events = parts.events.as_ref().expect("events are measured");
        // The empty message counts.
        assert_eq!((events.arrived, events.streams), (1_000, 200));
        assert_eq!(result.recording.errors.iter().collect::<Vec<_>>(), []);
    }
    server.called("Count");
}

#[test]
fn what_is_no_call_is_refused_before_the_run() {
    let Some(server) = Server::start_with_reflection(Scheme::Http) else {
        return;
    };
    let base = server.scheme.url(server.port, "");
    let proto = server.place.file("test.proto");
    for (options, message) in [
        (
            &[
                "--reflection",
                "--call",
                "test.Service/Echo",
                r#"--body={"txt": 1}"#,
            ][..],
            "--body: test.Text: test.Text has no field \"txt\" (it has text)",
        ),
        (
            &[
                "--reflection",
                "--call",
                "test.Service/Echo",
                "--body=hello",
            ],
            "--body: is not JSON: ",
        ),
        (
            &["--proto", &proto, "--call", "test.Service/Sell"],
            "there is no method test.Service/Sell (methods of test.Service: Echo, Busy, Count, ",
        ),
        (
            &["--call", "Echo"],
            "is not a method (expected package.Service/Method)",
        ),
        (
            &["--call", "test.Service/Echo", "--body={}"],
            "--body: is JSON, whose types are not known (add --reflection",
        ),
        (
            &["--proto", "/no/such.proto", "--call", "a.B/C"],
            "--proto: ",
        ),
        (
            &["--proto-set", &proto, "--call", "a.B/C"],
            "is not a set of descriptors (",
        ),
    ] {
        let (code, _, stderr) = wrkbench(&[&["--grpc", &base], options].concat());
        assert_eq!(code, Some(1), "{options:?}: {stderr}");
        assert!(stderr.contains(message), "{options:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert_eq!(server.called("Echo"), 0);
    // A server without reflection.
    let Some(server) = Server::start(Scheme::Http) else {
        return;
    };
    let base = server.scheme.url(server.port, "");
    let (code, _, stderr) = wrkbench(&[
        "--grpc",
        "--reflection",
        "--call",
        "test.Service/Echo",
        &base,
    ]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("UNIMPLEMENTED") && stderr.contains("give --proto"),
        "{stderr}"
    );
}
