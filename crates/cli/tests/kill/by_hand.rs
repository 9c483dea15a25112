//! `wrkbench restore` and the journals it may find. Nothing here needs root, and no setting is
//! touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::{Command, Stdio};

use testkit::{Folder, is_root};

/// Runs wrkbench with these arguments: exit code, stdout, stderr.
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

/// A folder that only this user can write, as a journal requires.
fn own_place() -> Folder {
    let place = Folder::for_all_users();
    fs::set_permissions(place.file(""), Permissions::from_mode(0o755)).unwrap();
    place
}

#[test]
fn without_a_journal_there_is_nothing_to_restore() {
    let place = own_place();
    let file = place.file_with("file", "x");
    for folder in [place.file("nowhere"), place.file(""), file, String::new()] {
        let (code, stdout, stderr) = wrkbench(&["restore", "--journal", &folder]);
        if folder.is_empty() {
            assert_eq!(code, 1, "{stdout}");
            continue;
        }
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.starts_with("nothing to restore"), "{stdout}");
        assert!(stdout.contains(&folder), "{stdout}");
    }
}

#[test]
fn a_damaged_journal_is_one_line_and_kept() {
    let place = own_place();
    let at = place.file("");
    for content in [
        &b"hello\n"[..],
        b"00000000 {}\n",
        b"\xff\xff\n\n\n",
        &[b'\n'; 5000],
    ] {
        let journal = place.file_with("journal", content);
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

/// A journal with a command that runs when it is restored.
fn journal_with(command: &str) -> String {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs::read_link("/proc/self/ns/net").unwrap();
    let undo = serde_json::json!({
        "command": command, "environment": {}, "limit_ms": 5000, "folder": null,
    });
    let records = [
        serde_json::json!({"begin": {
            "version": 1, "plan": "p", "pid": 1, "since": null, "boot_id": boot_id.trim(),
            "network_namespace": namespace.to_str(),
        }}),
        serde_json::json!({"save": {"id": 0, "thing": {"command": {"name": "c"}}, "old": null}}),
        serde_json::json!({"write": {"id": 0, "new": "x", "undo": undo}}),
    ];
    let line = |record: &serde_json::Value| {
        let json = record.to_string();
        format!("{:08x} {json}\n", crc32(json.as_bytes()))
    };
    records.iter().map(line).collect()
}

/// The checksum of the lines of a journal: CRC-32, as in gzip.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
        }
    }
    !crc
}

#[test]
fn commands_of_a_journal_that_others_could_have_written_do_not_run() {
    let place = own_place();
    let ran = place.file("ran");
    let folder = place.file("journal");
    fs::create_dir(&folder).unwrap();
    let journal = place.file_with("journal/journal", journal_with(&format!("touch {ran}")));
    let away = format!("{folder}-by-link");
    symlink(&folder, &away).unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let refused = |folder: &str, why: &str| {
        for options in [&[][..], &["--force"], &["--keep"], &["--dry-run"]] {
            let arguments = [&["restore", "--journal", folder], options].concat();
            let (code, stdout, stderr) = wrkbench(&arguments);
            assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(stderr.contains(why), "{why}: {stderr}");
        }
        assert!(!fs::exists(&ran).unwrap() && fs::exists(&journal).unwrap());
    };
    mode(&journal, 0o602);
    refused(&folder, "can be written by everybody (mode 0602)");
    mode(&journal, 0o600);
    mode(&folder, 0o777);
    refused(&folder, "chmod go-w");
    mode(&folder, 0o700);
    refused(&away, "is a symbolic link");
    mode(&place.file(""), 0o777);
    refused(&folder, "(mode 0777)");
    mode(&place.file(""), 0o755);
    if is_root() {
        chown(&journal, Some(1000), None).unwrap();
        refused(&folder, "belongs to user 1000, not to root");
        chown(&journal, Some(0), None).unwrap();
    }
    // What it would do is printed and not done.
    let (code, stdout, stderr) = wrkbench(&["restore", "--journal", &folder, "--dry-run"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.contains(&format!("would run `touch {ran}`")),
        "{stdout}"
    );
    assert!(stdout.contains("nothing was changed"), "{stdout}");
    assert!(!fs::exists(&ran).unwrap());
    let (code, stdout, stderr) = wrkbench(&["restore", "--journal", &folder]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(fs::exists(&ran).unwrap() && !fs::exists(&journal).unwrap());
}

#[test]
fn a_journal_that_is_no_file_is_reported() {
    let place = own_place();
    fs::create_dir(place.file("journal")).unwrap();
    let (code, _, stderr) = wrkbench(&["restore", "--journal", &place.file("")]);
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
fn a_guardian_without_a_sweep_does_nothing() {
    let place = own_place();
    let journal = place.file_with("journal", "hello\n");
    let (code, stdout, stderr) = wrkbench(&["guardian", &place.file("")]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("cannot be started"), "{stderr}");
    assert!(fs::exists(journal).unwrap());
    // With another number of arguments it is no guardian and no URL.
    let (code, _, stderr) = wrkbench(&["guardian"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("URL"), "{stderr}");
}
