//! Everything is restored: on a simulated machine that is killed, full or changed by others at
//! every moment.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::fake::{Failure, Fake, Files};
use experiment::{
    Change, CommandOutput, Conflicts, Effective, RestoreOutcome, RestoreReport, SafetyError,
    Transaction, UntrustedPath, preview, restore,
};

const FOLDER: &str = "/var/lib/wrkbench/restore";
const JOURNAL: &str = "/var/lib/wrkbench/restore/journal";
const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";
const TCP_RMEM: &str = "/proc/sys/net/ipv4/tcp_rmem";
const THREADS_MAX: &str = "/proc/sys/kernel/threads-max";
const QLEN: &str = "/proc/sys/net/ipv4/neigh/default/unres_qlen";
const QLEN_BYTES: &str = "/proc/sys/net/ipv4/neigh/default/unres_qlen_bytes";
const TAG: &str = "/proc/sys/net/ipv4/conf/default/tag";
const TAG_OF_ETH0: &str = "/proc/sys/net/ipv4/conf/eth0/tag";
const CONF: &str = "/etc/nginx/nginx.conf";
const NEW_CONF: &str = "/etc/nginx/conf.d/tuned.conf";
const MTU: &str = "/made-up/mtu";
const RESTARTS: &str = "/made-up/restarts";
const MINUTE: Duration = Duration::from_secs(60);

/// A machine before the sweep.
fn machine() -> Fake {
    let mut fake = Fake::with(&[
        (RMEM_MAX, "212992\n"),
        (TCP_RMEM, "4096\t131072\t6291456\n"),
        (THREADS_MAX, "7000\n"),
        (QLEN, "101\n"),
        (QLEN_BYTES, "212992\n"),
        (TAG, "0\n"),
        (TAG_OF_ETH0, "0\n"),
        (CONF, "worker_processes 1;\n"),
        (MTU, "1500"),
    ]);
    // One value under two names, one of them rounded: writing the rounded one back is not enough.
    fake.on_written(QLEN, |files| {
        let bytes = number(files, QLEN) * PACKET_BYTES;
        files.insert(QLEN_BYTES.into(), format!("{bytes}\n").into_bytes());
    });
    fake.on_written(QLEN_BYTES, |files| {
        let packets = number(files, QLEN_BYTES).div_ceil(PACKET_BYTES);
        files.insert(QLEN.into(), format!("{packets}\n").into_bytes());
    });
    // Copied to interfaces.
    fake.on_written(TAG, |files| {
        let tag = files[Path::new(TAG)].clone();
        files.insert(TAG_OF_ETH0.into(), tag);
    });
    // Like some kernel settings: less than requested.
    fake.on_setting(THREADS_MAX, |value| {
        let wished: u64 = value.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(wished.min(9000).to_string())
    });
    fake.on_command("set-mtu", |files, environment| {
        let level = environment.get("LEVEL").cloned().unwrap_or_default();
        files.insert(MTU.into(), level.into_bytes());
        succeeded()
    });
    fake.on_command("reset-mtu", |files, _| {
        files.insert(MTU.into(), b"1500".to_vec());
        succeeded()
    });
    fake.on_command("fail", |_, _| CommandOutput {
        exit_code: Some(1),
        stderr: b"no such interface\n".to_vec(),
        ..CommandOutput::default()
    });
    fake
}

/// The size of a packet in `unres_qlen`.
const PACKET_BYTES: u64 = 2112;

fn number(files: &Files, path: &str) -> u64 {
    let text = String::from_utf8_lossy(&files[Path::new(path)]).into_owned();
    text.trim().parse().expect("it is a number")
}

fn succeeded() -> CommandOutput {
    CommandOutput {
        exit_code: Some(0),
        ..CommandOutput::default()
    }
}

fn sysctl(key: &str, value: &str) -> Change {
    Change::Sysctl {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn file(path: &str, content: &str) -> Change {
    Change::File {
        path: path.into(),
        content: content.as_bytes().to_vec(),
    }
}

fn command(apply: &str, level: &str) -> Change {
    Change::Command {
        name: "mtu".to_owned(),
        apply: apply.to_owned(),
        restore: "reset-mtu".to_owned(),
        environment: BTreeMap::from([("LEVEL".to_owned(), level.to_owned())]),
        limit: MINUTE,
    }
}

/// A bit of everything, each more than once.
fn changes() -> Vec<Change> {
    vec![
        sysctl("net.core.rmem_max", "262144"),
        file(CONF, "worker_processes 2; # longer than the old one\n"),
        sysctl("net.ipv4.tcp_rmem", "4096 16384 65536"),
        command("set-mtu", "9000"),
        sysctl("net/core/rmem_max", "524288"),
        file(NEW_CONF, "gzip on;\n"),
        sysctl("kernel.threads-max", "1000000"),
        file(CONF, "x"),
        command("set-mtu", "1400"),
        sysctl("kernel.threads-max", "6000"),
        sysctl("net.ipv4.neigh.default.unres_qlen", "300"),
        sysctl("net.ipv4.conf.default.tag", "7"),
        sysctl("net.ipv4.neigh.default.unres_qlen", "20"),
    ]
}

fn begin(host: &mut Fake) -> Result<Transaction, SafetyError> {
    Transaction::begin(host, Path::new(FOLDER), "buffers")
}

/// Makes the changes in order up to the first failure, and restores everything.
fn sweep(host: &mut Fake, changes: &[Change]) -> Result<RestoreReport, SafetyError> {
    let mut transaction = begin(host)?;
    for change in changes {
        if transaction.change(host, change).is_err() {
            break;
        }
    }
    Ok(transaction.restore_all(host))
}

/// A machine whose sweep died after these changes.
fn died_after(changes: &[Change]) -> Fake {
    let mut host = machine();
    let mut transaction = begin(&mut host).expect("nothing prevents it");
    for change in changes {
        transaction
            .change(&mut host, change)
            .expect("nothing prevents it");
    }
    drop(transaction);
    host.revive();
    host
}

fn restore_by(host: &mut Fake, conflicts: Conflicts) -> Result<Option<RestoreReport>, SafetyError> {
    restore(host, Path::new(FOLDER), conflicts)
}

/// Restores; everything must succeed.
fn restore_fully(host: &mut Fake, when: &str) {
    match restore_by(host, Conflicts::Report) {
        Ok(None) => {}
        Ok(Some(report)) if report.is_complete() => {}
        other => panic!("{when}: {other:?}"),
    }
}

/// The outcome of this resource.
fn outcome_of<'a>(report: &'a RestoreReport, what: &str) -> &'a RestoreOutcome {
    let mut steps = report.steps.iter().filter(|step| step.what == what);
    let step = steps.next().unwrap_or_else(|| panic!("{what}: {report:?}"));
    assert!(steps.next().is_none(), "{what}: {report:?}");
    &step.outcome
}

fn text(files: &Files) -> BTreeMap<&Path, String> {
    let show = |content: &Vec<u8>| String::from_utf8_lossy(content).into_owned();
    files
        .iter()
        .map(|(path, content)| (path.as_path(), show(content)))
        .collect()
}

#[track_caller]
fn assert_as_before(host: &Fake, when: &str) {
    let before = machine().files;
    assert_eq!(text(&host.files), text(&before), "{when}");
}

#[test]
fn a_finished_sweep_restores_everything() {
    let mut host = machine();
    let report = sweep(&mut host, &changes()).unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_as_before(&host, "after the end");
    assert!(!host.is_locked && !host.has_guardian);
    let what: Vec<_> = report.steps.iter().map(|step| step.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "net.ipv4.conf.default.tag",
            "net.ipv4.neigh.default.unres_qlen",
            "net.ipv4.neigh.default.unres_qlen_bytes",
            "kernel.threads-max",
            NEW_CONF,
            "command \"mtu\"",
            "net.ipv4.tcp_rmem",
            CONF,
            "net.core.rmem_max"
        ]
    );
}

#[test]
fn changes_are_made_and_the_effective_value_is_returned() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    let mut change = |change: Change| transaction.change(&mut host, &change).unwrap();
    let value = |effective: Effective| effective.value;
    let value_of = |change: Effective| value(change).unwrap();
    assert_eq!(
        value_of(change(sysctl("net.core.rmem_max", "262144"))),
        "262144"
    );
    assert_eq!(
        value_of(change(sysctl("net.ipv4.tcp_rmem", "1 2 3"))),
        "1\t2\t3"
    );
    assert_eq!(
        value_of(change(sysctl("kernel.threads-max", "99999"))),
        "9000"
    );
    let effective = change(command("set-mtu", "9000"));
    assert_eq!(effective.output.unwrap().exit_code, Some(0));
    change(file(CONF, "other"));
    assert_eq!(host.text(MTU).as_deref(), Some("9000"));
    assert_eq!(host.text(CONF).as_deref(), Some("other"));
    assert!(host.has_guardian);
    assert!(transaction.restore_all(&mut host).is_complete());
    assert_as_before(&host, "after the end");
}

#[test]
fn killed_before_any_operation_everything_is_restored() {
    for operation in 0.. {
        let mut host = machine();
        host.fail_at(operation, Failure::KilledBefore);
        let _ = sweep(&mut host, &changes());
        if !host.is_dead() {
            assert!(operation > 80, "only {operation} operations were tried");
            return;
        }
        host.revive();
        restore_fully(&mut host, &format!("killed before operation {operation}"));
        assert_as_before(&host, &format!("killed before operation {operation}"));
    }
}

#[test]
fn after_a_kill_the_next_sweep_starts_or_is_refused_and_nothing_is_lost() {
    let (mut begun, mut refused) = (0, 0);
    for operation in 0.. {
        let mut host = machine();
        host.fail_at(operation, Failure::KilledBefore);
        let _ = sweep(&mut host, &changes());
        if !host.is_dead() {
            break;
        }
        host.revive();
        let when = format!("killed before operation {operation}");
        match begin(&mut host) {
            Ok(mut transaction) => {
                begun += 1;
                assert_eq!(host.text(JOURNAL), None, "{when}");
                for change in changes() {
                    transaction.change(&mut host, &change).unwrap();
                }
                drop(transaction);
                host.revive();
            }
            Err(SafetyError::Unfinished { .. }) => refused += 1,
            Err(error) => panic!("{when}: {error}"),
        }
        restore_fully(&mut host, &when);
        assert_as_before(&host, &when);
    }
    assert!(
        begun > 5 && refused > 50,
        "{begun} begun, {refused} refused"
    );
}

#[test]
fn killed_at_any_byte_of_any_write_everything_is_restored() {
    let changes = [
        sysctl("net.core.rmem_max", "262144"),
        file(CONF, "x y z"),
        command("set-mtu", "9000"),
    ];
    for operation in 0.. {
        for bytes in 0.. {
            let mut host = machine();
            host.fail_at(operation, Failure::KilledWithin(bytes));
            let _ = sweep(&mut host, &changes);
            if !host.is_dead() {
                assert!(operation > 30, "only {operation} operations were tried");
                return;
            }
            let when = format!("killed within operation {operation} after {bytes} bytes");
            let is_append = host
                .log
                .last()
                .is_some_and(|last| last.starts_with("append"));
            let journal_bytes = host.files.get(Path::new(JOURNAL)).map_or(0, Vec::len);
            let is_whole = !is_append || host.text(JOURNAL).is_some_and(|j| j.ends_with('\n'));
            host.revive();
            restore_fully(&mut host, &when);
            assert_as_before(&host, &when);
            // Most records are one line; the bound also covers one with two.
            if !is_append && bytes > 8 || (is_whole && bytes > journal_bytes) {
                break;
            }
        }
    }
}

#[test]
fn killed_during_a_restore_it_can_be_restored_again() {
    let changes = changes();
    for operation in 0.. {
        let mut host = died_after(&changes);
        host.fail_at(operation, Failure::KilledBefore);
        let _ = restore_by(&mut host, Conflicts::Report);
        if !host.is_dead() {
            assert!(operation > 20, "only {operation} operations were tried");
            return;
        }
        host.revive();
        restore_fully(&mut host, &format!("killed before {operation}"));
        assert_as_before(&host, &format!("killed before {operation}"));
        assert_eq!(restore_by(&mut host, Conflicts::Report).unwrap(), None);
    }
}

#[test]
fn killed_in_the_sweep_and_in_the_restore_it_can_be_restored_again() {
    let changes = changes();
    for first in (0..).step_by(7) {
        for second in 0.. {
            let mut host = machine();
            host.fail_at(first, Failure::KilledBefore);
            let _ = sweep(&mut host, &changes);
            if !host.is_dead() {
                return;
            }
            host.revive();
            host.fail_at(second, Failure::KilledWithin(9));
            let _ = restore_by(&mut host, Conflicts::Report);
            let was_killed = host.is_dead();
            host.revive();
            let when = format!("killed before {first}, then within {second}");
            restore_fully(&mut host, &when);
            assert_as_before(&host, &when);
            if !was_killed {
                break;
            }
        }
    }
}

#[test]
fn whatever_operation_fails_everything_is_restored_or_the_journal_is_kept() {
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied] {
        let mut incomplete = 0;
        for operation in 0.. {
            let mut host = machine();
            host.fail_at(operation, Failure::Error(kind));
            let report = sweep(&mut host, &changes());
            let when = format!("{kind:?} at operation {operation}");
            assert!(!host.is_locked && !host.has_guardian, "{when}");
            match report {
                Ok(report) if !report.is_complete() => incomplete += 1,
                _ => {
                    if let Some(journal) = host.files.remove(Path::new(JOURNAL)) {
                        // Only its first record reached the disk.
                        assert_eq!(journal.iter().filter(|&&b| b == b'\n').count(), 1, "{when}");
                    }
                    assert_as_before(&host, &when);
                }
            }
            let has_failed = host.operations() > operation;
            host.revive();
            restore_fully(&mut host, &when);
            assert_as_before(&host, &when);
            if !has_failed {
                break;
            }
        }
        assert!(incomplete > 5, "failures while putting back were not tried");
    }
}

#[test]
fn on_a_full_disk_nothing_is_changed_that_is_not_in_the_journal() {
    for limit in (0..4500).step_by(7) {
        let mut host = machine();
        host.disk_limit = Some(limit);
        let report = sweep(&mut host, &changes());
        let when = format!("files of at most {limit} bytes");
        if report.is_ok_and(|report| report.is_complete()) {
            host.files.remove(Path::new(JOURNAL));
            assert_as_before(&host, &when);
        } else {
            host.disk_limit = None;
            restore_fully(&mut host, &when);
            assert_as_before(&host, &when);
        }
    }
}

#[test]
fn if_the_journal_cannot_be_written_the_setting_is_not_changed() {
    let mut host = machine();
    host.disk_limit = Some(10);
    let mut transaction = begin(&mut host).unwrap();
    let error = transaction
        .change(&mut host, &sysctl("net.core.rmem_max", "1"))
        .unwrap_err();
    assert!(matches!(error, SafetyError::Journal { .. }), "{error}");
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert!(!host.log.iter().any(|line| line.starts_with("write")));
    let _ = transaction.restore_all(&mut host);
}

#[test]
fn after_a_partial_record_nothing_is_appended_even_if_there_is_room_again() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    let first = sysctl("net.core.rmem_max", "262144");
    transaction.change(&mut host, &first).unwrap();
    let length = host.files[Path::new(JOURNAL)].len();
    for limit in [Some(length + 20), None] {
        host.disk_limit = limit;
        let error = transaction.change(&mut host, &file(CONF, "x")).unwrap_err();
        assert!(matches!(error, SafetyError::Journal { .. }), "{error}");
    }
    drop(transaction);
    host.revive();
    restore_fully(&mut host, "half a record");
    assert_as_before(&host, "half a record");
}

#[test]
fn without_a_guardian_nothing_is_changed() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    host.can_be_guarded = false;
    let error = transaction
        .change(&mut host, &sysctl("net.core.rmem_max", "1"))
        .unwrap_err();
    assert!(matches!(error, SafetyError::Guardian(_)), "{error}");
    assert_eq!(host.text(JOURNAL), None, "nobody could remove it");
    assert!(!host.log.iter().any(|line| line.starts_with("write")));
    assert!(transaction.restore_all(&mut host).is_complete());
    assert_as_before(&host, "without a guardian");
}

#[test]
fn the_guardian_is_checked_before_each_change() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    for change in changes() {
        host.has_guardian = false;
        transaction.change(&mut host, &change).unwrap();
        assert!(host.has_guardian, "{change:?}");
    }
    let _ = transaction.restore_all(&mut host);
}

#[test]
fn with_a_damaged_journal_nothing_is_touched_without_force() {
    let mut host = died_after(&changes());
    let died = host.files.clone();
    let journal = died[Path::new(JOURNAL)].clone();
    // The last byte is a line feed: without it the last record is incomplete.
    for at in 0..journal.len() - 1 {
        host.files.clone_from(&died);
        let mut damaged = journal.clone();
        damaged[at] ^= 1;
        host.files.insert(JOURNAL.into(), damaged.clone());
        let before = host.files.clone();
        let error = restore_by(&mut host, Conflicts::Report).unwrap_err();
        assert!(
            matches!(error, SafetyError::Damaged { .. }),
            "{at}: {error}"
        );
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert_eq!(text(&host.files), text(&before), "{at}");
        let error = begin(&mut host).unwrap_err();
        assert!(
            matches!(error, SafetyError::Damaged { .. }),
            "{at}: {error}"
        );
        assert!(!host.is_locked);
    }
}

#[test]
fn a_level_that_is_set_repeatedly_is_in_the_journal_once() {
    let levels = ["a", "b"].map(|letter| file(CONF, &letter.repeat(10_000)));
    let changes: Vec<_> = levels.iter().cycle().take(100).cloned().collect();
    let host = died_after(&changes);
    let length = host.files[Path::new(JOURNAL)].len();
    assert!(length < 30_000, "{length} bytes");
    let mut host = died_after(&changes[..1]);
    host.files
        .insert(CONF.into(), "b".repeat(10_000).into_bytes());
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(!report.is_complete(), "that level was never set");
}

#[test]
fn force_restores_the_readable_part_of_a_damaged_journal_and_keeps_it() {
    let mut host = died_after(&changes());
    let mut journal = host.text(JOURNAL).unwrap();
    let at = journal.find("16384").unwrap();
    journal.replace_range(at..=at, "7");
    host.files
        .insert(JOURNAL.into(), journal.clone().into_bytes());
    let error = restore_by(&mut host, Conflicts::Report)
        .unwrap_err()
        .to_string();
    assert!(error.contains("net.core.rmem_max was 212992"), "{error}");
    let report = restore_by(&mut host, Conflicts::Overwrite)
        .unwrap()
        .unwrap();
    assert!(report.is_complete(), "{report:?}");
    let kept = host.files.remove(Path::new(&format!("{JOURNAL}.damaged")));
    assert_eq!(kept, Some(journal.into_bytes()));
    assert_as_before(&host, "after force");
}

#[test]
fn other_files_are_not_journals() {
    for content in [
        "\n",
        "hello\n",
        "{}\n",
        "00000000 {}\n",
        &"x".repeat(100_000),
    ] {
        let mut host = machine();
        host.files.insert(JOURNAL.into(), content.into());
        match restore_by(&mut host, Conflicts::Overwrite) {
            // Without a line feed it is an incomplete first record.
            Ok(None) => assert!(!content.ends_with('\n')),
            Err(SafetyError::Damaged { .. }) => assert!(content.ends_with('\n')),
            other => panic!("{content:?}: {other:?}"),
        }
    }
}

#[test]
fn zeros_at_the_end_after_a_power_cut_are_not_damage() {
    let mut host = died_after(&changes());
    let journal = host.files.get_mut(Path::new(JOURNAL)).unwrap();
    journal.extend([0; 300]);
    restore_fully(&mut host, "zeros");
    assert_as_before(&host, "zeros");
}

#[test]
fn a_value_that_someone_else_has_set_is_left_and_reported() {
    let meddle = |host: &mut Fake| {
        host.files.insert(RMEM_MAX.into(), b"5\n".to_vec());
        host.files.insert(CONF.into(), b"edited".to_vec());
    };
    let mut host = died_after(&changes());
    meddle(&mut host);
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(!report.is_complete());
    assert_eq!(
        *outcome_of(&report, "net.core.rmem_max"),
        RestoreOutcome::Foreign {
            now: Some("5".to_owned()),
            old: Some("212992".to_owned()),
            is_kept: false
        }
    );
    assert!(matches!(
        outcome_of(&report, CONF),
        RestoreOutcome::Foreign { .. }
    ));
    // The others are restored.
    assert_eq!(host.text(TCP_RMEM), machine().text(TCP_RMEM));
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("5\n"));
    assert_eq!(host.text(CONF).as_deref(), Some("edited"));
    // There is no other sweep until somebody decides.
    let error = begin(&mut host).unwrap_err();
    assert!(matches!(error, SafetyError::Unfinished { .. }), "{error}");
    let hint = format!("`wrkbench restore --journal {FOLDER}`");
    assert!(error.to_string().contains(&hint), "{error}");
    let report = restore_by(&mut host, Conflicts::Overwrite)
        .unwrap()
        .unwrap();
    assert!(report.is_complete());
    assert_as_before(&host, "after force");

    let mut host = died_after(&changes());
    meddle(&mut host);
    let report = restore_by(&mut host, Conflicts::Keep).unwrap().unwrap();
    assert!(report.is_complete());
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("5\n"));
    assert_eq!(host.text(CONF).as_deref(), Some("edited"));
    assert_eq!(host.text(JOURNAL), None);
    assert!(begin(&mut host).is_ok());
}

#[test]
fn restored_entries_are_not_checked_again() {
    let mut host = died_after(&changes());
    host.files.insert(CONF.into(), b"edited".to_vec());
    let _ = restore_by(&mut host, Conflicts::Report).unwrap();
    // Set by the administrator after it was restored.
    host.files.insert(RMEM_MAX.into(), b"7\n".to_vec());
    let report = restore_by(&mut host, Conflicts::Overwrite)
        .unwrap()
        .unwrap();
    assert_eq!(report.steps.len(), 1, "{report:?}");
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("7\n"));
}

#[test]
fn a_value_changed_by_someone_else_during_the_sweep_is_not_overwritten() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    for change in changes() {
        transaction.change(&mut host, &change).unwrap();
    }
    host.files.insert(RMEM_MAX.into(), b"5\n".to_vec());
    host.files.insert(CONF.into(), b"edited".to_vec());
    for change in [sysctl("net.core.rmem_max", "1"), file(CONF, "y")] {
        let error = transaction.change(&mut host, &change).unwrap_err();
        assert!(matches!(error, SafetyError::Foreign { .. }), "{error}");
    }
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("5\n"));
    assert_eq!(host.text(CONF).as_deref(), Some("edited"));
    let report = transaction.restore_all(&mut host);
    assert!(!report.is_complete());
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("5\n"));
    assert!(!host.is_locked && !host.has_guardian);
}

#[test]
fn settings_that_change_with_another_one_are_restored_with_it() {
    let mut host = died_after(&[
        sysctl("net.ipv4.neigh.default.unres_qlen", "300"),
        sysctl("net.ipv4.conf.default.tag", "7"),
    ]);
    assert_eq!(host.text(QLEN_BYTES).as_deref(), Some("633600\n"));
    assert_eq!(host.text(TAG_OF_ETH0).as_deref(), Some("7\n"));
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_as_before(&host, "after the restore");
    let bytes = "net.ipv4.neigh.default.unres_qlen_bytes";
    let restored = RestoreOutcome::Restored(Some("212992".to_owned()));
    assert_eq!(*outcome_of(&report, bytes), restored);
}

#[test]
fn a_related_setting_that_someone_else_changed_later_is_left() {
    let mut host = died_after(&[sysctl("net.ipv4.conf.default.tag", "7")]);
    host.files.insert(TAG_OF_ETH0.into(), b"5\n".to_vec());
    // From here on the interface has its own value.
    host.on_written(TAG, |_| {});
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(!report.is_complete());
    assert_eq!(host.text(TAG_OF_ETH0).as_deref(), Some("5\n"));
    assert_eq!(host.text(TAG).as_deref(), Some("0\n"));
    let report = restore_by(&mut host, Conflicts::Overwrite)
        .unwrap()
        .unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_as_before(&host, "after force");
}

#[test]
fn after_an_interrupted_write_only_what_it_changed_is_restored() {
    // Killed after the value was written, and before the journal has what changed with it.
    let mut host = (0..)
        .find_map(|operation| {
            let mut host = machine();
            host.fail_at(operation, Failure::KilledBefore);
            let _ = sweep(&mut host, &[sysctl("net.ipv4.conf.default.tag", "7")]);
            (host.text(TAG_OF_ETH0).as_deref() == Some("7\n")).then_some(host)
        })
        .expect("it is written at some time");
    host.revive();
    // Changed at the same time by somebody else.
    let log_martians = "/proc/sys/net/ipv4/conf/default/log_martians";
    let journal = String::from_utf8(host.files[Path::new(JOURNAL)].clone()).unwrap();
    assert!(!journal.contains("moved"), "{journal}");
    host.files.insert(log_martians.into(), b"1\n".to_vec());
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(host.text(log_martians).as_deref(), Some("1\n"));
    host.files.remove(Path::new(log_martians));
    assert_as_before(&host, "after the restore");
}

#[test]
fn two_factors_that_change_each_other_are_refused_and_restored() {
    for keys in [
        [
            "net.ipv4.neigh.default.unres_qlen",
            "net.ipv4.neigh.default.unres_qlen_bytes",
        ],
        [
            "net.ipv4.neigh.default.unres_qlen_bytes",
            "net.ipv4.neigh.default.unres_qlen",
        ],
    ] {
        let mut host = machine();
        let mut transaction = begin(&mut host).unwrap();
        transaction
            .change(&mut host, &sysctl(keys[0], "500"))
            .unwrap();
        let error = transaction
            .change(&mut host, &sysctl(keys[1], "900"))
            .unwrap_err();
        assert!(error.to_string().contains(keys[0]), "{error}");
        assert!(error.to_string().contains("vary one of the two"), "{error}");
        let report = transaction.restore_all(&mut host);
        assert!(report.is_complete(), "{report:?}");
        assert_as_before(&host, keys[0]);
    }
}

#[test]
fn a_missing_setting_is_reported_and_can_be_forgotten() {
    let mut host = died_after(&changes());
    host.files.remove(Path::new(TCP_RMEM));
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(!report.is_complete());
    assert!(matches!(
        outcome_of(&report, "net.ipv4.tcp_rmem"),
        RestoreOutcome::Foreign { now: None, .. }
    ));
    for conflicts in [Conflicts::Keep, Conflicts::Overwrite] {
        let mut host = died_after(&changes());
        host.files.remove(Path::new(TCP_RMEM));
        let report = restore_by(&mut host, conflicts).unwrap().unwrap();
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(host.text(JOURNAL), None);
    }
}

#[test]
fn after_a_reboot_settings_are_dropped_and_the_rest_is_restored() {
    let mut host = died_after(&changes());
    let mut defaults = machine().files;
    defaults.retain(|path, _| path.starts_with("/proc"));
    // The defaults after a boot need not be what the sweep had found.
    defaults.insert(RMEM_MAX.into(), b"100\n".to_vec());
    host.reboot(&defaults);
    host.namespace = "net:[2]".to_owned();
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert!(matches!(
        outcome_of(&report, "net.core.rmem_max"),
        RestoreOutcome::Dropped(_)
    ));
    assert_eq!(host.text(RMEM_MAX).as_deref(), Some("100\n"));
    host.files.insert(RMEM_MAX.into(), b"212992\n".to_vec());
    assert_as_before(&host, "after the restart");
}

#[test]
fn a_journal_of_another_network_namespace_is_refused_or_its_settings_skipped() {
    let mut host = died_after(&changes());
    host.namespace = "net:[2]".to_owned();
    let before = host.files.clone();
    for conflicts in [Conflicts::Report, Conflicts::Keep] {
        let error = restore_by(&mut host, conflicts).unwrap_err();
        assert!(
            matches!(error, SafetyError::OtherNamespace { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("nsenter"), "{error}");
        assert_eq!(text(&host.files), text(&before));
    }
    let report = restore_by(&mut host, Conflicts::Overwrite)
        .unwrap()
        .unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(
        host.text(RMEM_MAX).as_deref(),
        Some("524288\n"),
        "is not ours"
    );
    assert_eq!(host.text(THREADS_MAX), machine().text(THREADS_MAX));
    assert_eq!(host.text(CONF), machine().text(CONF));
}

#[test]
fn every_refusal_tells_how_the_machine_has_changed() {
    let mut host = died_after(&changes());
    host.boot = "boot-2".to_owned();
    host.kernel = "6.2.0".to_owned();
    let changed = "the machine was rebooted since; its kernel was \"6.1.0\", is \"6.2.0\"";
    let error = begin(&mut host).unwrap_err().to_string();
    assert!(error.contains(changed), "{error}");
    // With another name and after a reboot it counts as another machine, whose files the journal
    // must not touch.
    host.host_name = "beta".to_owned();
    let before = host.files.clone();
    for conflicts in [Conflicts::Report, Conflicts::Keep] {
        let error = restore_by(&mut host, conflicts).unwrap_err();
        assert!(matches!(error, SafetyError::OtherMachine { .. }), "{error}");
        let error = error.to_string();
        assert!(
            error.contains("its name was \"alpha\", is \"beta\""),
            "{error}"
        );
        assert_eq!(text(&host.files), text(&before));
    }
    host.host_name = "alpha".to_owned();
    let journal = host.files.get_mut(Path::new(JOURNAL)).unwrap();
    let at = journal.iter().position(|byte| *byte == b'\n').unwrap() + 12;
    journal[at] ^= 1;
    let error = restore_by(&mut host, Conflicts::Report)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("is damaged") && error.contains(changed),
        "{error}"
    );
    host.files.get_mut(Path::new(JOURNAL)).unwrap()[at] ^= 1;
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(report.changed_machine.contains(changed), "{report:?}");
}

#[test]
fn a_journal_that_others_could_have_written_is_not_touched() {
    for path in [FOLDER, JOURNAL] {
        let mut host = died_after(&changes());
        host.distrusted = Some(UntrustedPath {
            path: path.into(),
            why: "belongs to user 1000, not to root".to_owned(),
            remedy: "`chown 0 it`".to_owned(),
        });
        let before = host.files.clone();
        let refused = [
            begin(&mut host).map(drop).unwrap_err(),
            Transaction::check(&mut host, Path::new(FOLDER)).unwrap_err(),
            restore_by(&mut host, Conflicts::Overwrite).unwrap_err(),
            preview(&mut host, Path::new(FOLDER), Conflicts::Keep).unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, SafetyError::Untrusted(_)), "{error}");
            assert!(error.to_string().contains("chown 0 it"), "{error}");
        }
        assert_eq!(text(&host.files), text(&before));
    }
}

#[test]
fn a_preview_describes_a_restore_without_doing_it() {
    let mut host = died_after(&changes());
    host.files.insert(RMEM_MAX.into(), b"5\n".to_vec());
    let before = host.files.clone();
    let lines = preview(&mut host, Path::new(FOLDER), Conflicts::Report)
        .unwrap()
        .unwrap();
    assert_eq!(text(&host.files), text(&before));
    for expected in [
        "net.ipv4.neigh.default.unres_qlen_bytes: is 42240, was 212992 before the sweep: would be \
         restored",
        "net.core.rmem_max: is 5, was 212992 before the sweep, and someone else has changed it: \
         would be left",
        "command \"mtu\": would run `reset-mtu` (at most 1m)",
        "/etc/nginx/conf.d/tuned.conf: is 9 bytes, was not there before the sweep: would be \
         restored",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}: {lines:#?}"
        );
    }
    restore_by(&mut host, Conflicts::Overwrite).unwrap();
    assert_as_before(&host, "after the restore");
    let nothing = preview(&mut host, Path::new(FOLDER), Conflicts::Report).unwrap();
    assert_eq!(nothing, None);
}

#[test]
fn two_sweeps_do_not_overlap() {
    let mut host = died_after(&changes());
    host.lock_holder = Some("sweep of \"x\", pid 7".to_owned());
    let before = host.files.clone();
    let error = begin(&mut host).unwrap_err();
    assert!(matches!(error, SafetyError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("pid 7"), "{error}");
    let error = restore_by(&mut host, Conflicts::Overwrite).unwrap_err();
    assert!(matches!(error, SafetyError::Locked { .. }), "{error}");
    assert_eq!(text(&host.files), text(&before));
}

#[test]
fn an_experiment_that_changes_nothing_begins_beside_another_one() {
    let beside = |host: &mut Fake| Transaction::begin_beside(host, FOLDER.as_ref(), "search");
    for is_lock_shared in [false, true] {
        let mut host = machine();
        host.lock_holder = Some("sweep of \"x\", pid 7".to_owned());
        host.is_lock_shared = is_lock_shared;
        let before = host.files.clone();
        let mut transaction = beside(&mut host).unwrap();
        // Those that want the lock alone are kept away if the other one leaves room for that.
        assert_eq!(host.is_locked, is_lock_shared);
        for change in changes() {
            let error = transaction.change(&mut host, &change).unwrap_err();
            assert!(
                error.to_string().contains("nothing may be changed"),
                "{error}"
            );
        }
        assert!(transaction.restore_all(&mut host).is_complete());
        assert_eq!(text(&host.files), text(&before));
        assert!(!host.is_locked && !host.has_guardian);
    }
    // While a sweep runs, its journal is not finished.
    let mut host = died_after(&changes());
    host.lock_holder = Some("sweep of \"x\", pid 7".to_owned());
    let _ = beside(&mut host).unwrap().restore_all(&mut host);
    host.is_lock_shared = true;
    let error = beside(&mut host).unwrap_err();
    assert!(matches!(error, SafetyError::Unfinished { .. }), "{error}");
    assert!(!host.is_locked);
}

#[test]
fn an_experiment_that_shares_its_lock_changes_nothing_any_more() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    assert!(transaction.share(&mut host).unwrap());
    let before = host.files.clone();
    transaction.change(&mut host, &changes()[0]).unwrap_err();
    assert_eq!(text(&host.files), text(&before));
    let _ = transaction.restore_all(&mut host);
    assert!(!host.is_locked);
}

#[test]
fn checking_whether_a_sweep_can_begin_creates_nothing() {
    let look = |host: &mut Fake| {
        let before = host.files.clone();
        let found = Transaction::check(host, FOLDER.as_ref());
        assert_eq!(text(&host.files), text(&before));
        assert!(!host.is_locked);
        found
    };
    look(&mut machine()).unwrap();
    let mut host = died_after(&changes());
    let lock = Path::new(FOLDER).join("lock");
    host.files.insert(lock, Vec::new());
    let error = look(&mut host).unwrap_err();
    assert!(matches!(error, SafetyError::Unfinished { .. }), "{error}");
    host.lock_holder = Some("sweep of \"x\", pid 7".to_owned());
    let error = look(&mut host).unwrap_err();
    assert!(matches!(error, SafetyError::Locked { .. }), "{error}");
}

#[test]
fn a_failing_command_is_forgotten_only_on_request() {
    for conflicts in [Conflicts::Report, Conflicts::Overwrite, Conflicts::Keep] {
        let mut host = died_after(&changes());
        host.on_command("reset-mtu", |_, _| CommandOutput {
            exit_code: Some(1),
            ..CommandOutput::default()
        });
        let report = restore_by(&mut host, conflicts).unwrap().unwrap();
        let is_wanted = conflicts == Conflicts::Keep;
        assert_eq!(report.is_complete(), is_wanted, "{report:?}");
        assert_eq!(report.leaves_something(), is_wanted, "{report:?}");
        let journal = Path::new(JOURNAL);
        assert_eq!(host.files.contains_key(journal), !is_wanted);
        // The others are restored nevertheless.
        assert_eq!(host.text(RMEM_MAX), machine().text(RMEM_MAX));
    }
}

#[test]
fn without_root_a_change_fails_and_nothing_remains() {
    let mut host = machine();
    host.root = false;
    let mut transaction = begin(&mut host).unwrap();
    let error = transaction
        .change(&mut host, &sysctl("net.core.rmem_max", "1"))
        .unwrap_err();
    assert!(error.to_string().contains("net.core.rmem_max"), "{error}");
    assert!(transaction.restore_all(&mut host).is_complete());
    assert_as_before(&host, "not root");
    host.read_only.insert(FOLDER.into());
    let error = begin(&mut host).unwrap_err();
    assert!(matches!(error, SafetyError::Lock { .. }), "{error}");
}

#[test]
fn a_resource_that_cannot_be_changed_is_refused_by_name() {
    let mut host = machine();
    host.files
        .insert("/proc/sys/vm/dirty_ratio".into(), b"20\n".to_vec());
    host.files
        .insert("/proc/sys/vm/dirty_bytes".into(), b"0\n".to_vec());
    host.on_setting("/proc/sys/net/core/write_only", |_| {
        Err(io::ErrorKind::InvalidInput.into())
    });
    host.files
        .insert("/proc/sys/net/core/write_only".into(), b"1\n".to_vec());
    let before = host.files.clone();
    let mut transaction = begin(&mut host).unwrap();
    for (change, why) in [
        (
            sysctl("net.core.no_such", "1"),
            "net.core.no_such: cannot be read",
        ),
        (
            sysctl("../../etc/passwd", "1"),
            "is not the name of a kernel setting",
        ),
        (sysctl("vm.dirty_bytes", "4096"), "vary that one instead"),
        (
            sysctl("kernel.threads-max", "many"),
            "the kernel refuses many",
        ),
        (sysctl("net.core.write_only", "2"), "could not be restored"),
        (file("relative", ""), "is not an absolute path"),
        (
            file("/big", &"x".repeat(experiment::FILE_SIZE_MAX + 1)),
            "bytes",
        ),
        (
            command("fail", "1"),
            "mtu: `fail` failed with exit code 1: no such interface",
        ),
    ] {
        let error = transaction
            .change(&mut host, &change)
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    transaction
        .change(&mut host, &sysctl("vm.dirty_ratio", "30"))
        .unwrap();
    assert!(transaction.restore_all(&mut host).is_complete());
    assert_eq!(text(&host.files), text(&before));
}

#[test]
fn the_command_for_the_end_runs_last_and_only_if_anything_was_changed() {
    let restarted = |host: &mut Fake| {
        host.on_command("restart", |files, environment| {
            assert_eq!(environment.get("DIR").map(String::as_str), Some("/plans"));
            let now = files.get(Path::new(CONF)).cloned().unwrap_or_default();
            files.insert(PathBuf::from(RESTARTS), now);
            succeeded()
        });
    };
    let started = |host: &mut Fake| {
        let mut transaction = begin(host).unwrap();
        let environment = BTreeMap::from([("DIR".to_owned(), "/plans".to_owned())]);
        let command = "restart".to_owned();
        let at_end = Change::AtEnd {
            command,
            environment,
            limit: MINUTE,
        };
        transaction.change(host, &at_end).unwrap();
        transaction
    };
    let mut host = machine();
    restarted(&mut host);
    assert!(started(&mut host).restore_all(&mut host).is_complete());
    assert_as_before(&host, "nothing was changed");

    for dies in [false, true] {
        let mut host = machine();
        restarted(&mut host);
        let mut transaction = started(&mut host);
        transaction.change(&mut host, &file(CONF, "x")).unwrap();
        if dies {
            drop(transaction);
            host.revive();
            restore_fully(&mut host, "with a command for the end");
        } else {
            assert!(transaction.restore_all(&mut host).is_complete());
        }
        assert_eq!(host.text(RESTARTS), machine().text(CONF));
        host.files.remove(Path::new(RESTARTS));
        assert_as_before(&host, "after the restart");
    }

    // A restart also follows a late restore.
    let mut host = machine();
    restarted(&mut host);
    let mut transaction = started(&mut host);
    transaction.change(&mut host, &file(CONF, "x")).unwrap();
    host.files.insert(CONF.into(), b"edited".to_vec());
    assert!(!transaction.restore_all(&mut host).is_complete());
    assert_eq!(host.text(RESTARTS).as_deref(), Some("edited"));
    let report = restore_by(&mut host, Conflicts::Overwrite)
        .unwrap()
        .unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(host.text(RESTARTS), machine().text(CONF));
}

#[test]
fn after_a_refused_value_other_values_still_belong_to_someone_else() {
    let mut host = machine();
    let mut transaction = begin(&mut host).unwrap();
    let refused = sysctl("kernel.threads-max", "many");
    transaction.change(&mut host, &refused).unwrap_err();
    host.files.insert(THREADS_MAX.into(), b"5\n".to_vec());
    drop(transaction);
    host.revive();
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(!report.is_complete(), "{report:?}");
    assert_eq!(host.text(THREADS_MAX).as_deref(), Some("5\n"));
}

#[test]
fn a_command_that_cannot_be_undone_stays_in_the_journal() {
    let mut host = died_after(&[command("set-mtu", "9000"), file(CONF, "x")]);
    host.on_command("reset-mtu", |_, _| CommandOutput {
        exit_code: Some(2),
        stderr: b"busy\n".to_vec(),
        ..CommandOutput::default()
    });
    let report = restore_by(&mut host, Conflicts::Report).unwrap().unwrap();
    assert!(!report.is_complete());
    let line = report.steps.last().unwrap().to_string();
    assert!(
        line.contains("NOT restored") && line.contains("busy"),
        "{line}"
    );
    assert_eq!(host.text(CONF), machine().text(CONF), "the others are back");
    host.on_command("reset-mtu", |files, _| {
        files.insert(MTU.into(), b"1500".to_vec());
        succeeded()
    });
    restore_fully(&mut host, "when it works again");
    assert_as_before(&host, "when it works again");
}
