//! `wrkbench restore`, and what it may find. Nothing here needs root, and no setting is touched.

use std::fs;
use std::process::{Command, Stdio};

use crate::place::Place;

/// Runs our program with these arguments: exit code, stdout, stderr.
fn wrkbench(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn without_a_journal_there_is_nothing_to_put_back() {
    let place = Place::new("by-hand-nothing");
    let file = place.file("file", "x");
    for folder in [place.path("nowhere"), place.path(""), file, String::new()] {
        let (code, stdout, stderr) = wrkbench(&["restore", "--journal", &folder]);
        if folder.is_empty() {
            assert_eq!(code, 1, "{stdout}");
            continue;
        }
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.starts_with("nothing to put back"), "{stdout}");
        assert!(stdout.contains(&folder), "{stdout}");
    }
}

#[test]
fn a_damaged_journal_is_told_on_one_line_and_left() {
    let place = Place::new("by-hand-damaged");
    let at = place.path("");
    for content in [
        &b"hello\n"[..],
        b"00000000 {}\n",
        b"\xff\xff\n\n\n",
        &[b'\n'; 5000],
    ] {
        let journal = place.file("journal", content);
        for options in [&[][..], &["--force"], &["--keep"]] {
            let arguments = [&["restore", "--journal", &at], options].concat();
            let (code, stdout, stderr) = wrkbench(&arguments);
            assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(
                stderr.contains("line 1 of the journal is damaged"),
                "{stderr}"
            );
            assert_eq!(fs::read(&journal).unwrap(), content);
        }
    }
}

#[test]
fn a_journal_that_is_no_file_is_told() {
    let place = Place::new("by-hand-folder");
    place.folder("journal");
    let (code, _, stderr) = wrkbench(&["restore", "--journal", &place.path("")]);
    assert_eq!(code, 1);
    assert!(stderr.contains("cannot be read"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn force_and_keep_exclude_each_other() {
    let (code, _, stderr) = wrkbench(&["restore", "--force", "--keep"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("--force") && stderr.contains("--keep"),
        "{stderr}"
    );
}

#[test]
fn a_guardian_without_a_sweep_guards_nothing() {
    let place = Place::new("by-hand-guardian");
    let journal = place.file("journal", "hello\n");
    let (code, stdout, stderr) = wrkbench(&["guardian", &place.path("")]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("cannot be started"), "{stderr}");
    assert!(fs::exists(journal).unwrap());
    // With any other number of arguments it is no guardian, and no URL either.
    let (code, _, stderr) = wrkbench(&["guardian"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("URL"), "{stderr}");
}
