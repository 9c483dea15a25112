//! Targets, files and limits that are not as they should be.

use std::net::TcpListener;

use results::ErrorKind;

use crate::harness::{load, site};

#[test]
fn a_target_that_is_not_there_is_one_line_and_nothing_is_started() {
    let site = site();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
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

#[test]
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

#[test]
fn a_file_that_cannot_be_read_is_one_line_and_nothing_is_started() {
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

#[test]
fn a_document_that_cannot_be_written_leaves_the_report_and_is_said() {
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

#[test]
fn too_low_a_limit_of_open_files_is_said_first_and_counted_and_the_run_goes_on() {
    let site = site();
    let run = load(&site).connections(100).for_ms(400);
    let run = run.in_shell_after("ulimit -n 50").run();
    assert!(run.answered() > 0, "{}", run.story());
    let first = run.stderr.lines().next().unwrap();
    let expected = "wrkbench: note: the limit of open files is 50, too low for 100 connections: \
                    raise it with ulimit -n 164";
    assert_eq!(first, expected);
    assert!(run.events(ErrorKind::FileLimit) > 0, "{}", run.story());
    assert!(run.kinds() == [ErrorKind::FileLimit], "{}", run.story());
    assert_eq!(run.failed(ErrorKind::FileLimit), 0);
    let opened = run.opened();
    assert!((1..=50).contains(&opened), "{}", run.story());
    let warnings = run.document["warnings"].to_string();
    assert!(warnings.contains("\"file_limit\""), "{warnings}");
    assert!(warnings.contains("\"connections_missing\""), "{warnings}");
}

#[test]
fn a_soft_limit_of_open_files_is_raised_without_a_word() {
    let site = site();
    let run = load(&site).connections(100).requests(300);
    let run = run
        .in_shell_after("ulimit -S -n 40")
        .run()
        .expect_answers(300);
    assert!(!run.stderr.contains("open files"), "{}", run.stderr);
}
