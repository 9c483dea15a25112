//! `curl` and `har`: commands and recordings become loads that send the same.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use origin::{Identity, Options, TlsSettings};
use testkit::{Output, Process, require};

use crate::harness::{Call, Site, call, io_arguments, program, site, site_with};

fn recording() -> Site {
    site_with(Options {
        record_requests: 1000,
        ..Options::default()
    })
}

fn wrkbench(arguments: &[&str]) -> Output {
    call(arguments).finish()
}

/// A request as the server got it. Names are in lower case; curl's own `Accept` and `User-Agent`,
/// which a load does not have, are left out.
#[derive(Debug, PartialEq)]
struct Sent {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Sent {
    fn of(recorded: &[u8]) -> Self {
        let text = String::from_utf8_lossy(recorded).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let pairs = lines.map(|line| line.split_once(':').unwrap());
        let mut headers: BTreeMap<String, String> = pairs
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        headers.retain(|name, value| match name.as_str() {
            "user-agent" => !value.starts_with("curl/"),
            "accept" => value != "*/*",
            // curl waits for 100 before a large body, and offers to upgrade.
            "expect" => false,
            _ => true,
        });
        let mut sent = Self {
            line,
            headers,
            body: body.to_owned(),
        };
        sent.name_boundary();
        sent
    }

    /// Gives the boundary of a multipart body one name of one length.
    fn name_boundary(&mut self) {
        let its = self
            .headers
            .get("content-type")
            .cloned()
            .unwrap_or_default();
        if let Some((_, boundary)) = its.split_once("boundary=") {
            self.body = self.body.replace(boundary, "BOUNDARY");
            let its = its.replace(boundary, "BOUNDARY");
            self.headers.insert("content-type".to_owned(), its);
            self.headers.remove("content-length");
        }
    }
}

#[test]
fn a_run_sends_what_curl_sends() {
    let Some(curl) = require("curl") else {
        return;
    };
    let site = recording();
    let (text, folder) = (
        site.folder.file_with("body.txt", "a=1\r\n&b=\u{e4}\n"),
        site.folder.path().to_owned(),
    );
    let url = site.url("/a/./b/../c?x=1#fragment");
    let form = format!("file=@{text}");
    let data = format!("@{text}");
    let commands: Vec<Vec<&str>> = vec![
        vec![&url],
        vec!["-d", "a=1", "-d", "b 2", &url],
        vec!["-d", &data, "-H", "X-Id;", "-H", "Accept:", &url],
        vec!["--data-binary", &data, "-X", "PATCH", &url],
        vec!["-G", "--data-urlencode", "q=a b&c", "-d", "d=e", &url],
        vec![
            "-u",
            "me:pa:ss",
            "-A",
            "me",
            "-e",
            "http://r/",
            "-b",
            "a=b; c=d",
            &url,
        ],
        vec![
            "-F",
            "a=b",
            "-F",
            &form,
            "-F",
            "c=\"d;e\";type=text/x",
            &url,
        ],
        vec!["--form-string", "a=@b;c", "-F", "x=<body.txt", &url],
        vec!["-T", "body.txt", &url],
        vec!["-I", "--path-as-is", &url],
        vec![
            "-H",
            "Host: other",
            "-H",
            "Content-Type: a/b",
            "-d",
            "x",
            &url,
        ],
        vec!["-r", "0-9", "--request-target", "/other//path", &url],
    ];
    let load: Vec<String> = ["--", "-n1", "-c1", "-t1", "--quiet"]
        .map(str::to_owned)
        .into();
    for words in &commands {
        let mut command = Command::new(&curl);
        command.args(["-q", "-s", "-o", "/dev/null"]).args(words);
        let output = Process::start({
            command.current_dir(&folder);
            command
        })
        .finish();
        assert_eq!(output.code, Some(0), "{words:?}: {output:?}");
        let mut command = program(&["curl", "--run", "curl"]);
        command.args(words).args(&load).args(io_arguments());
        command.current_dir(&folder);
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(0), "{words:?}: {output:?}");
    }
    let recorded = site.stop().recorded;
    assert_eq!(recorded.len(), 2 * commands.len());
    for (pair, words) in recorded.chunks(2).zip(&commands) {
        assert_eq!(Sent::of(&pair[1]), Sent::of(&pair[0]), "{words:?}");
    }
}

#[test]
fn a_repeated_header_is_sent_as_often_as_curl_sends_it() {
    let site = recording();
    let url = site.url("/");
    let command = ["curl", "-H", "A: 1", "-H", "B: 3", "-H", "A: 2", &url];
    let mut run = program(&["curl", "--run"]);
    run.args(command)
        .args(["--", "-n1", "-c1", "-t1", "--quiet"]);
    let output = Call::of(run.args(io_arguments())).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    // On the command line of a run it is wrk's rule.
    let mut run = program(&["-n1", "-c1", "-t1", "-H", "A: 1", "-H", "A: 2", &url]);
    let output = Call::of(run.args(io_arguments())).finish();
    assert!(
        output
            .stderr
            .contains("note: the header A is given more than once"),
        "{output:?}"
    );
    let recorded = site.stop().recorded;
    let values = |request: &[u8]| {
        let text = String::from_utf8_lossy(request).into_owned();
        let values = text.lines().filter_map(|line| line.strip_prefix("A: "));
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(values(&recorded[0]), ["1", "2"]);
    assert_eq!(values(&recorded[1]), ["2"]);
    // What is printed has both as well.
    let printed = wrkbench(&[&["curl"], &command[..]].concat());
    let line: serde_json::Value = serde_json::from_str(&printed.stdout).expect("it is JSON");
    assert_eq!(line["header"]["A"], serde_json::json!(["1", "2"]));
    let note = "note: this is a file of requests, since the header A is repeated";
    assert!(printed.stderr.contains(note), "{printed:?}");
}

#[test]
fn the_printed_command_sends_the_request() {
    let site = recording();
    let url = site.url("/p?a=1&b=2");
    let printed = wrkbench(&["curl", &url, "-H", "X-Quote: it's \"it\"", "-d", "a\nb"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let mut shell = Command::new("sh");
    let command = printed.stdout.replacen(
        "wrkbench ",
        &format!(
            "{} -n1 -c1 -t1 {} ",
            env!("CARGO_BIN_EXE_wrkbench"),
            io_arguments().join(" ")
        ),
        1,
    );
    shell.args(["-c", &command]);
    let output = Process::start(shell).finish();
    assert_eq!(output.code, Some(0), "{command}: {output:?}");
    let recorded = site.stop().recorded;
    let sent = Sent::of(&recorded[0]);
    assert_eq!(sent.line, "POST /p?a=1&b=2 HTTP/1.1");
    assert_eq!(sent.headers["x-quote"], "it's \"it\"");
    assert_eq!(sent.body, "a\nb");
}

#[test]
fn a_command_is_given_in_quotes_from_stdin_or_as_arguments() {
    let text = "curl -H 'A: b' http://h/";
    let expected = "wrkbench -c5 -H 'A: b' http://h/\n";
    let quoted = wrkbench(&["curl", text, "-c5"]);
    assert_eq!(quoted.stdout, expected, "{quoted:?}");
    let words = wrkbench(&["curl", "curl", "-H", "A: b", "http://h/", "--", "-c5"]);
    assert_eq!(words.stdout, expected, "{words:?}");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!(
        "{} curl - -c5 <<'EOF'\n{text}\nEOF\n",
        env!("CARGO_BIN_EXE_wrkbench")
    ));
    let stdin = Process::start(shell).finish();
    assert_eq!(stdin.stdout, expected, "{stdin:?}");
}

#[test]
fn a_certificate_is_verified_as_curl_does() {
    let identity = Identity::self_signed(&["127.0.0.1"]).unwrap();
    let site = site_with(Options {
        tls: Some(TlsSettings::new(identity).config().unwrap()),
        ..Options::default()
    });
    let url = site.url("/");
    let run = |options: &[&str]| {
        let mut command = program(&["curl", "--run", "curl", &url]);
        command.args(options).args(["--", "-d200ms", "-c1", "-t1"]);
        command.args(io_arguments());
        Call::of(&command).finish()
    };
    let refused = run(&["--http1.1"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("certificate"), "{refused:?}");
    assert_eq!(run(&["--http1.1", "-k"]).code, Some(0));
    assert_eq!(run(&["--http2", "-k"]).code, Some(0));
    site.stop();
}

/// A recording with a request for each URL.
fn har(urls: &[String]) -> String {
    let entries: Vec<String> = urls
        .iter()
        .map(|url| {
            format!(
                "{{\"request\": {{\"method\": \"GET\", \"url\": \"{url}\", \"headers\": \
                 [{{\"name\": \"Cookie\", \"value\": \"a=hush\"}}]}}}}"
            )
        })
        .collect();
    format!("{{\"log\": {{\"entries\": [{}]}}}}", entries.join(",\n"))
}

#[test]
fn the_requests_of_a_recording_to_one_server_are_written_to_a_file() {
    let site = site();
    let urls = ["/a", "/b?token=hush"].map(|target| site.url(target));
    let other = "http://other.test/".to_owned();
    let all = [urls.to_vec(), vec![other, "data:,x".to_owned()]].concat();
    let file = site.folder.file_with("r.har", har(&all));
    let output = wrkbench(&["har", &file]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let line = output.stderr.lines().last().unwrap();
    assert!(
        line.contains("several servers")
            && line.contains("http://other.test")
            && line.contains("--host"),
        "{line}"
    );
    let written = site.folder.file("r.jsonl");
    let output = wrkbench(&["har", "--host", "127.0.0.1", &file, "-o", &written]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("left out: 1 data URL"), "{output:?}");
    assert!(
        output.stderr.contains("left out: 1 request to other hosts"),
        "{output:?}"
    );
    let said = "note: set these environment variables, which stand for secrets in the file: \
                COOKIE (Cookie in a header), TOKEN (token in a URL) (--keep-secrets keeps the \
                secrets)";
    assert!(output.stderr.contains(said), "{output:?}");
    let expected = format!(
        "{{\"url\":\"{}\",\"header\":{{\"Cookie\":[\"{{{{env:COOKIE}}}}\"]}}}}\n\
         {{\"url\":\"{}\",\"header\":{{\"Cookie\":[\"{{{{env:COOKIE}}}}\"]}}}}\n",
        site.url("/a"),
        site.url("/b?token={{env:TOKEN}}")
    );
    assert_eq!(fs::read_to_string(&written).unwrap(), expected);
    let output = wrkbench(&["har", "--host=127.0.0.1", "--keep-secrets", &file]);
    assert_eq!(output.stdout.matches("hush").count(), 3, "{output:?}");
    let one = site.folder.file_with("one.har", har(&urls[..1]));
    let output = wrkbench(&["har", &one, "--", "-c5"]);
    let expected = format!("wrkbench -c5 -H 'Cookie: '\"${{COOKIE:?}}\" {}\n", urls[0]);
    assert_eq!(output.stdout, expected, "{output:?}");
    let said = "note: set these variables of the shell, which stand for secrets in the command: \
                COOKIE (Cookie in a header) (--keep-secrets keeps the secrets)";
    assert!(output.stderr.contains(said), "{output:?}");
}

#[test]
fn a_written_request_is_sent_with_its_secrets_from_the_environment() {
    let site = recording();
    let written = site.folder.file("r.jsonl");
    let result = site.folder.file("result.json");
    let url = site.url("/?token=hush-1").replace("://", "://me:hush-2@");
    let command = format!(
        "curl -b id=hush-3 --json '{{\"password\": \"hush-4\", \"a\": \"{{{{b}}}}\"}}' '{url}'"
    );
    let output = wrkbench(&["curl", &command, "-o", &written]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let text = fs::read_to_string(&written).unwrap();
    assert!(
        !text.contains("hush") && !output.stderr.contains("hush"),
        "{text}{output:?}"
    );

    let run = |variables: &[(&str, &str)]| {
        let arguments = ["--requests", &written, "-n20", "-t1", "-c1", "--json"];
        let mut command = program(&arguments);
        command.arg(&result).args(io_arguments());
        command.envs(variables.iter().copied());
        Process::start(command).finish()
    };
    let basic = "Basic bWU6aHVzaC0y";
    let variables = [
        ("TOKEN", "hush-1"),
        ("URL_USER", "me:hush-2"),
        ("COOKIE", "id=hush-3"),
        ("PASSWORD", "hush-4"),
    ];
    let missing = run(&variables[..3]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let said = "the environment variable \"PASSWORD\" is not set";
    assert!(missing.stderr.contains(said), "{missing:?}");
    assert!(missing.stderr.contains("r.jsonl:1:"), "{missing:?}");
    assert!(!missing.stderr.contains("hush"), "{missing:?}");
    assert_eq!(site.counts().requests, 0);

    let output = run(&variables);
    assert_eq!(output.code, Some(0), "{output:?}");
    let document = fs::read_to_string(&result).unwrap();
    for text in [&document, &output.stdout, &output.stderr] {
        assert!(!text.contains("hush") && !text.contains("bWU6"), "{text}");
    }
    let report = site.stop();
    let sent = Sent::of(&report.recorded[0]);
    assert_eq!(sent.line, "POST /?token=hush-1 HTTP/1.1");
    assert_eq!(sent.headers["authorization"], basic);
    assert_eq!(sent.headers["cookie"], "id=hush-3");
    assert_eq!(sent.body, "{\"password\": \"hush-4\", \"a\": \"{{b}}\"}");
}

#[test]
fn a_run_refuses_to_send_the_mark_of_a_hidden_secret() {
    let site = site();
    let url = site.url("/");
    let file = |name: &str, line: &str| site.folder.file_with(name, line);
    let header = file(
        "h.jsonl",
        "{\"path\":\"/\"}\n{\"path\":\"/\",\"header\":{\"Cookie\":\"***\"}}\n",
    );
    let list = file("l.txt", "/a\n/b?token=***\n");
    let with_user = url.replace("://", "://***@");
    let two_commands = format!("curl {url}; curl -H 'Cookie: ***' {url}");
    for (arguments, said) in [
        (
            vec!["--requests", &header, &url],
            "h.jsonl:2:32: \"Cookie\" is ***, which stands for a secret that was hidden (write \
             {{env:COOKIE}}, and set this environment variable)",
        ),
        (
            vec!["--requests", &list, &url],
            "l.txt:2:1: \"token\" is ***",
        ),
        (
            vec!["-H", "Authorization: ***", &url],
            "--header \"Authorization\": is ***, which stands for a secret that was hidden",
        ),
        (vec!["--once", &with_user], "--url \"url-user\": is ***"),
        (
            vec!["--body", "password=***", &url],
            "--body \"password\": is ***",
        ),
        (
            vec!["curl", "--run", "curl", "-H", "Cookie: ***", &url],
            "\"Cookie\": is ***",
        ),
        (
            vec!["curl", "--run", &two_commands],
            "\"Cookie\" is ***, which stands for a secret that was hidden",
        ),
    ] {
        let output = wrkbench(&arguments);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(said), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        assert!(!output.stderr.contains("/proc"), "{output:?}");
    }
    assert_eq!(site.counts().connections, 0);
}

#[test]
fn a_bad_command_or_file_is_one_line_with_its_place() {
    let site = site();
    let broken = site
        .folder
        .file_with("broken.har", "{\"log\":\n {\"entries\": 1}}");
    let missing = site.folder.file("missing.har");
    for (arguments, expected) in [
        (
            vec!["curl", "curl --digest http://h/"],
            "curl command, column 6: --digest is not supported yet",
        ),
        (
            vec!["curl", "curl 'http://h/"],
            "curl command, column 6: the quote ' is not closed",
        ),
        (
            vec!["curl", "-H", "nope", "http://h/"],
            "curl command, argument 1: \"nope\" has no colon",
        ),
        (
            vec!["curl", "curl http://h/", "--run", "-o", "x"],
            "--run: cannot be used together",
        ),
        (
            vec!["curl", "curl http://h/", "-o"],
            "--output: needs a value",
        ),
        (
            vec!["curl", "--run", "curl http://h/", "--bogus"],
            "--bogus: unknown option",
        ),
        (
            vec!["curl", "curl http://h/\n-H 'A: b'"],
            "curl command, line 2, column 1: this line is not a curl command",
        ),
        (
            vec!["har", &broken],
            "invalid type: integer `1`, expected a sequence at line 2 column 14",
        ),
        (vec!["har", &missing], "cannot read"),
    ] {
        let output = wrkbench(&arguments);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(1), ""),
            "{arguments:?}"
        );
        let line = output.stderr.lines().last().unwrap_or_default();
        assert!(line.contains(expected), "{arguments:?}: {line}");
    }
}

#[test]
fn no_secret_of_a_converted_command_is_saved() {
    let site = recording();
    let json = site.folder.file("r.json");
    let url = format!("http://me:hush@{}/?token=hush", site.authority());
    let mut command = program(&["curl", "--run", "curl", "-b", "sid=hush", "-u", "me:hush"]);
    command.args([
        "--json",
        "{\"password\":\"hush\"}",
        &url,
        "--",
        "-n5",
        "-c1",
        "-t1",
    ]);
    command.args(["--json", &json]).args(io_arguments());
    let output = Call::of(&command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let saved = fs::read_to_string(&json).unwrap();
    for text in [&output.stdout, &output.stderr, &saved] {
        assert!(
            !text.contains("hush") && !text.contains("bWU6aHVzaA"),
            "{text}"
        );
    }
    let sent = String::from_utf8_lossy(&site.stop().recorded[0]).into_owned();
    for part in [
        "sid=hush",
        "Basic bWU6aHVzaA==",
        "{\"password\":\"hush\"}",
        "?token=hush",
    ] {
        assert!(sent.contains(part), "{part} in {sent}");
    }
}

/// A run of what is given, with its result.
fn run_of_several(site: &Site, arguments: &[&str]) -> (Output, serde_json::Value) {
    let json = site.folder.file("several.json");
    let mut command = program(arguments);
    command
        .args(["-n6", "-c1", "-t1", "--json", &json])
        .args(io_arguments());
    let output = Call::of(&command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let document = fs::read_to_string(&json).unwrap();
    for text in [&document, &output.stdout, &output.stderr] {
        assert!(!text.contains("hush") && !text.contains("bWU6"), "{text}");
    }
    (output, serde_json::from_str(&document).unwrap())
}

#[test]
fn a_run_sends_all_commands_that_a_browser_has_copied() {
    let site = recording();
    let (first, second) = (site.url("/a?token=hush-1"), site.url("/b"));
    let copied = |last: &str| {
        format!(
            "curl '{first}' \\\n  -H 'Cookie: id=hush-2' \\\n  --compressed ;\n\
             curl '{second}' -u me:hush-3 --data-raw 'a={{{{b}}}}; c' &\ncurl '{last}'"
        )
    };
    let texts = [copied(&site.url("/c")), copied(&site.url("/d"))];
    let [one, other] = [0, 1].map(|it| {
        let (_, document) = run_of_several(&site, &["curl", "--run", &texts[it]]);
        document["plan"]["request"]["file"]["path"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    assert!(one.starts_with("curl-"), "{one}");
    assert_ne!(one, other, "different requests have different names");
    let recorded = site.stop().recorded;
    let sent: Vec<Sent> = recorded.iter().map(|one| Sent::of(one)).collect();
    let lines: Vec<&str> = sent[..6].iter().map(|sent| sent.line.as_str()).collect();
    let expected = [
        "GET /a?token=hush-1 HTTP/1.1",
        "POST /b HTTP/1.1",
        "GET /c HTTP/1.1",
    ];
    assert_eq!(lines, [expected, expected].concat());
    assert_eq!(sent[0].headers["cookie"], "id=hush-2");
    assert_eq!(sent[1].body, "a={{b}}; c");
    assert_eq!(sent[1].headers["authorization"], "Basic bWU6aHVzaC0z");
}

#[test]
fn a_run_sends_the_requests_of_a_recording_to_the_chosen_host() {
    let site = recording();
    let urls = [
        site.url("/a"),
        site.url("/b"),
        "http://other.test/".to_owned(),
    ];
    let file = site.folder.file_with("r.har", har(&urls));
    let refused = wrkbench(&["har", "--run", &file]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("several servers"), "{refused:?}");
    let copied = urls.iter().map(|url| format!("curl '{url}'"));
    let copied = copied.collect::<Vec<_>>().join(" ;\n");
    let refused = wrkbench(&["curl", "--run", &copied]);
    assert!(refused.stderr.contains("several servers"), "{refused:?}");
    assert_eq!(site.counts().connections, 0);

    let of_har = ["har", "--host", "127.0.0.1", "--run", &file, "--"];
    let (output, document) = run_of_several(&site, &of_har);
    assert!(
        output.stderr.contains("1 request to other hosts"),
        "{output:?}"
    );
    assert_eq!(document["plan"]["request"]["file"]["path"], file.as_str());
    let of_curl = ["curl", "--host", "127.0.0.1", "--run", &copied];
    run_of_several(&site, &of_curl);
    let recorded = site.stop().recorded;
    let lines: Vec<String> = recorded.iter().map(|one| Sent::of(one).line).collect();
    let expected = ["GET /a HTTP/1.1", "GET /b HTTP/1.1"];
    assert_eq!(lines, expected.repeat(6));
    assert_eq!(Sent::of(&recorded[0]).headers["cookie"], "a=hush");
}

#[test]
fn a_written_file_is_sent_with_requests() {
    let site = recording();
    site.folder.file_with("body.txt", "c");
    let url = |target: &str| site.url(target);
    let mut command = program(&["curl", "--output", "r.jsonl", "curl", "-d", "a{{b}}"]);
    let (first, second) = (url("/1"), url("/2"));
    command.args([
        "-H",
        "X-A: {{1}}",
        &first,
        "--next",
        "-T",
        "body.txt",
        &second,
    ]);
    command.current_dir(site.folder.path());
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output
            .stderr
            .ends_with("note: send them with: wrkbench --requests r.jsonl\n"),
        "{output:?}"
    );
    let file = site.folder.file("r.jsonl");
    let mut command = program(&["--requests", &file, "-n2", "-c1", "-t1"]);
    command.args(io_arguments());
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let once = call(&["--once", "--requests", &file]).finish();
    assert!(once.stdout.contains("> POST /1 HTTP/1.1\n"), "{once:?}");
    let recorded = site.stop().recorded;
    let sent: Vec<Sent> = recorded.iter().map(|one| Sent::of(one)).collect();
    assert_eq!(sent.len(), 3);
    assert_eq!(
        (sent[0].line.as_str(), sent[0].body.as_str()),
        ("POST /1 HTTP/1.1", "a{{b}}")
    );
    assert_eq!(sent[0].headers["x-a"], "{{1}}");
    assert_eq!(
        (sent[1].line.as_str(), sent[1].body.as_str()),
        ("PUT /2 HTTP/1.1", "c")
    );
}
