//! Usage, wrong input and exit codes of both.
//!
//! Both refuse the same input with the same exit code and the words that scripts look for. Where
//! wrk prints its usage and often nothing else, wrkbench prints one line with the option, the value
//! and what was expected (docs/compatibility.md, "Command line").

use origin::{Options, Server};

use crate::tool::{Pair, ProgramOutput};
use testkit::{Folder, Refusing};

/// One line on stderr, nothing on stdout, exit code 1.
fn assert_one_line(ours: &ProgramOutput, arguments: &[&str]) {
    assert_eq!(ours.code, Some(1), "{arguments:?}: {ours:?}");
    assert_eq!(ours.stdout, "", "{arguments:?}: {ours:?}");
    assert_eq!(ours.stderr.lines().count(), 1, "{arguments:?}: {ours:?}");
    assert!(ours.stderr.starts_with("wrk: "), "{arguments:?}: {ours:?}");
}

/// wrk prints its usage and exits with 1.
fn assert_wrk_refuses(wrk: &ProgramOutput, arguments: &[&str]) {
    assert_eq!(wrk.code, Some(1), "{arguments:?}: {wrk:?}");
    assert!(
        wrk.stdout.starts_with("Usage: wrk "),
        "{arguments:?}: {wrk:?}"
    );
}

/// A URL that is never used, since the command line is refused before.
const URL: &str = "http://127.0.0.1:1/";

#[test]
fn values_that_wrk_refuses_are_refused_with_option_and_value() {
    let Some(pair) = Pair::find() else {
        return;
    };
    for (option, value) in [
        ("-c", "5x"),
        ("-c", "10b"),
        ("-c", "10kk"),
        ("-c", "k"),
        ("-c", ""),
        ("-c", "0x10"),
        ("-c", "0"),
        ("--connections", "ten"),
        ("-t", "0"),
        ("-t", "two"),
        ("-d", "0"),
        ("-d", "1d"),
        ("-d", "s"),
        ("--duration", "soon"),
        ("--timeout", "1x"),
    ] {
        let arguments = [option, value, URL];
        let (wrk, ours) = pair.run(&arguments);
        assert_wrk_refuses(&wrk, &arguments);
        assert_one_line(&ours, &arguments);
        let long = match option {
            "-c" => "--connections",
            "-t" => "--threads",
            "-d" => "--duration",
            long => long,
        };
        let line = ours.stderr.trim_end();
        assert!(line.starts_with(&format!("wrk: {long}")), "{line}");
        assert!(line.contains(value), "{line}");
    }
}

#[test]
fn unknown_options_and_missing_values_are_refused() {
    let Some(pair) = Pair::find() else {
        return;
    };
    for arguments in [
        &["-Q", URL][..],
        &["--foo", URL],
        &["-r", URL],
        &[URL, "-c"],
        &[URL, "--duration"],
        &["--latency=yes", URL],
    ] {
        let (wrk, ours) = pair.run(arguments);
        assert_wrk_refuses(&wrk, arguments);
        assert_one_line(&ours, arguments);
    }
}

#[test]
fn fewer_connections_than_threads_are_refused_in_the_same_words() {
    let Some(pair) = Pair::find() else {
        return;
    };
    for arguments in [["-t4", "-c2", URL], ["-c1", "-t2", URL]] {
        let (wrk, ours) = pair.run(&arguments);
        assert_wrk_refuses(&wrk, &arguments);
        assert_one_line(&ours, &arguments);
        let words = "number of connections must be >= threads";
        assert_eq!(wrk.stderr.trim_end(), words);
        assert!(ours.stderr.contains(words), "{ours:?}");
    }
}

#[test]
fn an_invalid_url_is_refused_in_the_same_words() {
    let Some(pair) = Pair::find() else {
        return;
    };
    for url in [
        "badurl",
        "127.0.0.1",
        "/path",
        "http://",
        "http:///path",
        "://host/",
        "http:/host/",
        "http://host:99999/",
        "http://host:x/",
        "http://ho st/",
        "http://host/a b",
        "http://[::1/",
        "",
    ] {
        let (wrk, ours) = pair.run(&[url]);
        assert_wrk_refuses(&wrk, &[url]);
        assert_eq!(wrk.stderr, format!("invalid URL: {url}\n"));
        assert_one_line(&ours, &[url]);
        assert!(ours.stderr.starts_with("wrk: invalid URL: "), "{ours:?}");
        assert!(ours.stderr.contains(url), "{ours:?}");
    }
}

#[test]
fn the_url_is_checked_before_the_number_of_connections() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let (wrk, ours) = pair.run(&["-t4", "-c2", "badurl"]);
    assert_eq!(wrk.stderr, "invalid URL: badurl\n");
    assert!(ours.stderr.starts_with("wrk: invalid URL: "), "{ours:?}");
}

#[test]
fn an_unreachable_target_is_reported_in_the_same_words() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let nobody = Refusing::new();
    let refusing = format!("http://{}/", nobody.address());
    for url in [
        refusing.as_str(),
        "http://nonexistent.invalid/",
        "http://nonexistent.invalid:8080/",
        "https://nonexistent.invalid/",
    ] {
        let (wrk, ours) = pair.run(&[url]);
        assert_eq!(wrk.code, Some(1), "{wrk:?}");
        assert_one_line(&ours, &[url]);
        assert_eq!(ours.stderr, format!("wrk: {}", wrk.stderr));
    }
}

#[test]
fn without_a_url_and_for_help_both_print_usage_and_exit_with_1() {
    let Some(pair) = Pair::find() else {
        return;
    };
    for arguments in [&[][..], &["--help"], &["-c5", "-t2"]] {
        let (wrk, ours) = pair.run(arguments);
        assert_wrk_refuses(&wrk, arguments);
        assert_wrk_refuses(&ours, arguments);
        if arguments != ["--help"] {
            assert_eq!(ours.stdout, wrk.stdout, "byte for byte");
        }
    }
}

#[test]
fn usage_through_a_link_starts_with_that_of_wrk_byte_for_byte() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let (wrk, ours) = pair.run(&["--help"]);
    let rest = ours.stdout.strip_prefix(&wrk.stdout);
    let rest = rest.unwrap_or_else(|| panic!("not the usage of wrk: {}", ours.stdout));
    let widths: Vec<usize> = rest.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{rest}");
    assert!(rest.contains("  Options that wrk does not have:"), "{rest}");
}

#[test]
fn the_version_comes_first_and_then_the_usage_or_the_run() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let (wrk, ours) = pair.run(&["-v"]);
    for ended in [&wrk, &ours] {
        let (version, rest) = ended.stdout.split_once('\n').expect("there are lines");
        assert!(version.starts_with("wrk"), "{ended:?}");
        assert!(rest.starts_with("Usage: wrk "), "{ended:?}");
        assert_eq!(ended.code, Some(1));
    }
    let server = Server::start(Options::default()).expect("the server starts");
    let (wrk, ours) = pair.run(&["-v", "-d1s", "-t1", "-c1", &server.url()]);
    for ended in [&wrk, &ours] {
        let (version, rest) = ended.stdout.split_once('\n').expect("there are lines");
        assert!(version.starts_with("wrk"), "{ended:?}");
        assert!(rest.starts_with("Running 1s test @ "), "{ended:?}");
        assert_eq!(ended.code, Some(0));
    }
}

#[test]
fn getopts_manners() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let server = Server::start(Options::default()).expect("the server starts");
    let url = server.url();
    for arguments in [
        // Options after the URL, prefixes of long options, several short options in one word.
        &[
            &url, "--thr", "3", "--conn=5", "-d1s", "-Lt2", "word", "-T5",
        ][..],
        // The last of several wins. Words after `--` go to the script, even with a dash.
        &[
            "-c9", "-c", " 4", "-d", "1S", "-t+1", &url, "--", "-t7", "-x",
        ],
    ] {
        let (wrk, ours) = pair.run(arguments);
        assert_eq!(
            (wrk.code, ours.code),
            (Some(0), Some(0)),
            "{wrk:?} {ours:?}"
        );
        let banner =
            |ended: &ProgramOutput| ended.stdout.lines().take(2).collect::<Vec<_>>().join("\n");
        assert_eq!(banner(&ours), banner(&wrk));
        let title = "  Latency Distribution\n";
        assert_eq!(ours.stdout.contains(title), wrk.stdout.contains(title));
    }
}

#[test]
fn values_that_wrk_refuses_and_wrkbench_accepts() {
    // docs/compatibility.md: "numbers", "underscore in a host name", "scheme".
    let Some(pair) = Pair::find() else {
        return;
    };
    let server = Server::start(Options::default()).expect("the server starts");
    let url = server.url();
    for arguments in [
        ["-d500ms", "-c2", &url],
        ["-d0.3s", "-c0.01k", &url],
        ["-d200ms", "-T1m1s", &url],
    ] {
        let (wrk, ours) = pair.run(&arguments);
        assert_wrk_refuses(&wrk, &arguments);
        assert_eq!(ours.code, Some(0), "{ours:?}");
    }
    let (wrk, ours) = pair.run(&["http://under_score.invalid/"]);
    assert_wrk_refuses(&wrk, &["http://under_score.invalid/"]);
    assert!(
        ours.stderr
            .contains("unable to resolve under_score.invalid:http "),
        "{ours:?}"
    );
}

#[test]
fn values_that_wrk_accepts_and_wrkbench_refuses() {
    // docs/compatibility.md: "numbers", "scheme", `-H`. wrk would run forever, or not at all.
    let Some(pair) = Pair::find() else {
        return;
    };
    for arguments in [
        ["-d-1", "-c2", URL],
        ["-c-5", "-t1", URL],
        ["-c99999999999999999999", "-t1", URL],
        ["-HNoColon", "-t1", URL],
        ["-t1", "-c1", "ftp://127.0.0.1:1/"],
    ] {
        assert_one_line(&pair.run_ours(&arguments), &arguments);
    }
}

#[test]
fn a_script_that_does_not_load_ends_wrkbench_and_is_ignored_by_wrk() {
    // docs/compatibility.md, "Lua": script that fails to load.
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let broken = folder.file_with("broken.lua", "function request(\n");
    let failing = folder.file_with("failing.lua", "local a = nil\nprint(a.b)\n");
    let missing = folder.file("missing.lua");
    let server = Server::start(Options::default()).expect("the server starts");
    for (script, name) in [
        (&broken, "broken.lua"),
        (&failing, "failing.lua"),
        (&missing, "missing.lua"),
    ] {
        let before = server.counts().requests;
        let arguments = ["-t1", "-c1", "-d1s", "-s", script, &server.url()];
        let (wrk, ours) = pair.run(&arguments);
        assert_eq!(wrk.code, Some(0), "{wrk:?}");
        let after_wrk = server.counts().requests;
        assert!(after_wrk > before);
        assert_eq!(ours.code, Some(1), "{ours:?}");
        assert_eq!(ours.stderr.lines().count(), 1, "{ours:?}");
        // Line and reason are the same. Lua cuts off the start of long paths.
        let (_, reason) = wrk
            .stderr
            .trim_end()
            .rsplit_once(name)
            .expect("it is named");
        let expected = format!("{name}{}", reason.lines().next().unwrap_or_default());
        assert!(ours.stderr.contains(&expected), "{expected}: {ours:?}");
    }
}

#[test]
fn an_error_in_a_script_ends_both_with_exit_code_1() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let server = Server::start(Options::default()).expect("the server starts");
    for phase in ["setup", "init", "request", "response", "delay"] {
        let text = format!("function {phase}()\n  error('on purpose')\nend\n");
        let script = folder.file_with(&format!("{phase}.lua"), &text);
        let (wrk, ours) = pair.run(&["-t1", "-c1", "-d1s", "-s", &script, &server.url()]);
        assert_eq!(
            (wrk.code, ours.code),
            (Some(1), Some(1)),
            "{wrk:?} {ours:?}"
        );
        assert!(wrk.stderr.contains("PANIC"), "{wrk:?}");
        let place = format!("{phase}.lua:2: on purpose");
        assert!(wrk.stderr.contains(&place), "{wrk:?}");
        assert_eq!(ours.stderr.lines().count(), 1, "{ours:?}");
        assert!(ours.stderr.contains(&place), "{ours:?}");
        assert!(ours.stderr.contains(&format!("(in {phase})")), "{ours:?}");
    }
}

#[test]
fn an_error_in_done_keeps_the_report_of_both() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let script = folder.file_with("s.lua", "function done()\n  error('on purpose')\nend\n");
    let server = Server::start(Options::default()).expect("the server starts");
    let (wrk, ours) = pair.run(&["-t1", "-c1", "-d1s", "-s", &script, &server.url()]);
    for ended in [&wrk, &ours] {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stdout.contains("\nRequests/sec: "), "{ended:?}");
        assert!(ended.stderr.contains("s.lua:2: on purpose"), "{ended:?}");
    }
}

#[test]
fn an_invalid_first_request_is_refused_with_its_position() {
    let Some(pair) = Pair::find() else {
        return;
    };
    let folder = Folder::new();
    let server = Server::start(Options::default()).expect("the server starts");
    for (number, request) in [
        "GET / HTTP/1.1\\r\\nHost: x\\r\\n",
        "G=T / HTTP/1.1\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\nA b: c\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\nnocolon\\r\\n\\r\\n",
        "GET / HTTP/x\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\n\\r\\nG=T / HTTP/1.1\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n",
        "POST / HTTP/1.1\\r\\nContent-Length: 9\\r\\n\\r\\nshort",
        "POST / HTTP/1.1\\r\\nContent-Length: x\\r\\n\\r\\n",
        "POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\nContent-Length: 1\\r\\n\\r\\na",
        "POST / HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nx\\r\\na",
    ]
    .iter()
    .enumerate()
    {
        let text = format!("function request() return '{request}' end\n");
        let script = folder.file_with(&format!("{number}.lua"), &text);
        let (wrk, ours) = pair.run(&["-t1", "-c1", "-d1s", "-s", &script, &server.url()]);
        assert_eq!(wrk.code, Some(1), "{request}: {wrk:?}");
        assert_one_line(&ours, &[request]);
        let reason = wrk.stderr.trim_end();
        assert_eq!(
            ours.stderr,
            format!("wrk: {reason} (in request)\n"),
            "{request}"
        );
    }
}
