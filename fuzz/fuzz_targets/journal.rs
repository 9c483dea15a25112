//! Any bytes as the journal of a sweep, or a real one with some pieces replaced: previewing it
//! changes nothing, and a restore that completes removes it.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use experiment::fake::{Fake, Files};
use experiment::{Change, CommandOutput, Conflicts, Transaction, preview, restore};
use libfuzzer_sys::fuzz_target;

const FOLDER: &str = "/var/lib/wrkbench";
const JOURNAL: &str = "/var/lib/wrkbench/journal";

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let mut host = machine();
    host.files.clone_from(&DIED.0);
    let journal = match how % 3 {
        0 => rest.to_vec(),
        1 => with_sums(rest),
        _ => with_sums(&given::with_pieces_replaced(&DIED.1, rest)),
    };
    host.files.insert(JOURNAL.into(), journal);
    let conflicts = match how / 3 % 3 {
        0 => Conflicts::Report,
        1 => Conflicts::Overwrite,
        _ => Conflicts::Keep,
    };
    check(&mut host, conflicts);
});

fn check(host: &mut Fake, conflicts: Conflicts) {
    // The lock is taken and released.
    let others = |files: &Files| -> Files {
        let others = files.iter().filter(|(path, _)| !path.ends_with("lock"));
        others
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    };
    let before = others(&host.files);
    match preview(host, Path::new(FOLDER), conflicts) {
        Ok(lines) => lines
            .iter()
            .flatten()
            .for_each(|line| given::one_line(line)),
        Err(error) => given::one_line(&error.to_string()),
    }
    assert_eq!(others(&host.files), before, "a preview changes nothing");
    match restore(host, Path::new(FOLDER), conflicts) {
        Ok(Some(report)) if report.is_complete() => {
            assert_eq!(host.files.get(Path::new(JOURNAL)), None);
        }
        Ok(_) => {}
        Err(error) => given::one_line(&error.to_string()),
    }
}

fn machine() -> Fake {
    let mut host = Fake::with(&[
        ("/proc/sys/net/core/rmem_max", "212992\n"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("/etc/nginx/nginx.conf", "worker_processes auto;\n"),
    ]);
    for command in ["apply", "undo"] {
        host.on_command(command, |_, _| CommandOutput {
            exit_code: Some(0),
            ..CommandOutput::default()
        });
    }
    host
}

/// The files of a machine whose sweep died, and the records of its journal without checksums.
static DIED: LazyLock<(Files, Vec<u8>)> = LazyLock::new(|| {
    let mut host = machine();
    let mut transaction =
        Transaction::begin(&mut host, Path::new(FOLDER), "n").expect("nothing prevents it");
    for change in changes() {
        transaction
            .change(&mut host, &change)
            .expect("nothing prevents it");
    }
    drop(transaction);
    host.revive();
    let journal = host.files.remove(Path::new(JOURNAL)).expect("it died");
    let records: Vec<&[u8]> = journal
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.get(9..))
        .collect();
    (host.files, records.join(&b'\n'))
});

fn changes() -> [Change; 4] {
    [
        Change::Sysctl {
            key: "net.core.rmem_max".to_owned(),
            value: "262144".to_owned(),
        },
        Change::File {
            path: "/etc/nginx/nginx.conf".into(),
            content: b"worker_processes 2;\n".to_vec(),
        },
        Change::Command {
            name: "mtu".to_owned(),
            apply: "apply".to_owned(),
            restore: "undo".to_owned(),
            environment: BTreeMap::from([("WRKBENCH_MTU".to_owned(), "9000".to_owned())]),
            limit: Duration::from_secs(1),
        },
        Change::Sysctl {
            key: "net.ipv4.tcp_rmem".to_owned(),
            value: "4096 16384 65536".to_owned(),
        },
    ]
}

/// Each line as a record: with its checksum. Without it, nearly every input would be damaged.
fn with_sums(records: &[u8]) -> Vec<u8> {
    let lines = records.split(|byte| *byte == b'\n');
    lines
        .flat_map(|json| [format!("{:08x} ", crc32(json)).as_bytes(), json, b"\n"].concat())
        .collect()
}

/// CRC-32 of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
