//! The records of a journal. Each is a line: a checksum, a space, and JSON.
//!
//! The format is text so that a person with an editor can restore what the program cannot.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::host::Host;

/// Version of the records. Later versions are refused; fields that version 1 lacked are optional.
pub(crate) const FORMAT_VERSION: u32 = 2;

/// Which sweep and which machine the journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) version: u32,
    /// Name of the experiment.
    #[serde(rename = "plan")]
    pub(crate) experiment: String,
    pub(crate) pid: u32,
    /// Wall-clock time, RFC 3339; informational.
    pub(crate) since: Option<String>,
    pub(crate) boot_id: String,
    pub(crate) network_namespace: String,
    /// Host name and kernel release as uname(1) shows them. Not in version 1.
    #[serde(default)]
    pub(crate) host_name: Option<String>,
    #[serde(default)]
    pub(crate) kernel: Option<String>,
}

/// What can be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resource {
    Sysctl {
        key: String,
    },
    File {
        path: PathBuf,
    },
    /// Whatever a command changes.
    Command {
        name: String,
    },
    /// The command that runs when everything else is restored.
    AtEnd,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { key } => f.write_str(key),
            Self::File { path } => write!(f, "{}", path.display()),
            Self::Command { name } => write!(f, "command {name:?}"),
            Self::AtEnd => f.write_str("restart hook"),
        }
    }
}

impl Resource {
    /// A content of it for messages: a value, or how large a file is.
    pub(crate) fn shown(&self, content: &Content) -> String {
        match self {
            Self::File { .. } => format!("{} bytes", content.0.len()),
            _ => content.to_string(),
        }
    }
}

/// How a command is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undo {
    pub(crate) command: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) limit_ms: u64,
    /// Working directory of the sweep: its commands may use relative paths.
    pub(crate) folder: Option<PathBuf>,
}

impl Undo {
    /// What undoes a command that runs on this machine.
    pub(crate) fn new(
        host: &dyn Host,
        command: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Self {
        Self {
            command: command.to_owned(),
            environment: environment.clone(),
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            folder: host.working_folder(),
        }
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }

    /// A command line that works in any directory.
    pub(crate) fn line(&self) -> String {
        match self.folder.as_deref().and_then(Path::to_str) {
            // If the folder is gone, the command may still work without it.
            Some(folder) => format!(
                "cd -- '{}' 2>/dev/null; {}",
                folder.replace('\'', "'\\''"),
                self.command
            ),
            None => self.command.clone(),
        }
    }
}

/// A content within a record. Repeated contents are stored once: otherwise the journal of a long
/// sweep would contain each level of a file every time it was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredContent {
    New(Content),
    /// An earlier content of the same resource, by its index.
    Earlier {
        again: usize,
    },
}

/// One step of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    Begin(Begin),
    /// The state of a resource before its first change.
    Save {
        id: u32,
        #[serde(rename = "thing")]
        resource: Resource,
        /// `None` for a file that does not exist, and for commands.
        old: Option<Content>,
    },
    /// Values of related settings just before a write, as far as earlier records do not have them.
    #[serde(rename = "near")]
    Related {
        values: BTreeMap<PathBuf, Content>,
    },
    /// What is written next.
    Write {
        id: u32,
        new: StoredContent,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<Undo>,
    },
    /// What was read back after the write; `None` for commands.
    #[serde(rename = "took")]
    ReadBack {
        id: u32,
        now: Option<StoredContent>,
    },
    /// A write of resource `by` has also changed this one, to `now`.
    #[serde(rename = "moved")]
    SideEffect {
        id: u32,
        by: u32,
        now: StoredContent,
    },
    /// The resource is restored.
    Restored {
        id: u32,
    },
}

/// What a line of a journal says. A line that another version of the program wrote is not damaged:
/// nothing of its journal is used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JournalLine {
    Record(Box<Record>),
    /// A complete line of an unknown version.
    OtherVersion(u64),
    Damaged,
}

pub(super) fn encode(record: &Record) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(record)?;
    let mut line = format!("{:08x} ", crc32(&json)).into_bytes();
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

/// The complete lines, and their total length. A last line without a line feed was cut off while it
/// was written, and is left out. So are zeros at the end, with which file systems fill blocks that
/// did not reach the disk.
pub(super) fn lines(bytes: &[u8]) -> (Vec<JournalLine>, usize) {
    let mut found = Vec::new();
    let mut whole_bytes = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let Some(line_only) = line.strip_suffix(b"\n") else {
            break;
        };
        found.push(decode(line_only));
        whole_bytes += line.len();
    }
    (found, whole_bytes)
}

fn decode(line: &[u8]) -> JournalLine {
    let Some((sum, json)) = line.split_at_checked(9) else {
        return JournalLine::Damaged;
    };
    if sum != format!("{:08x} ", crc32(json)).as_bytes() {
        return JournalLine::Damaged;
    }
    // The version is checked first: the rest of a later version need not be understood.
    let version = serde_json::from_slice::<serde_json::Value>(json)
        .ok()
        .and_then(|value| value["begin"]["version"].as_u64());
    match version {
        Some(version) if version == 0 || version > u64::from(FORMAT_VERSION) => {
            JournalLine::OtherVersion(version)
        }
        _ => serde_json::from_slice(json).map_or(JournalLine::Damaged, |record| {
            JournalLine::Record(Box::new(record))
        }),
    }
}

/// CRC-32 of IEEE 802.3 (reflected, polynomial 0xEDB88320), as in gzip and `crc32`.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let low = crc & 1;
            crc >>= 1;
            if low == 1 {
                crc ^= 0xEDB8_8320;
            }
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_gzip() {
        // The check value from the catalogue of CRCs, and the sum of an empty input.
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn contents_are_saved_byte_for_byte() {
        for bytes in [
            &b""[..],
            b"4096\t131072\t6291456\n",
            b"\0\x01\x02",
            b"\xff\xfe\x00 not text \xc3",
            "äöü\r\n\"\\\u{2028}".as_bytes(),
        ] {
            let record = Record::ReadBack {
                id: 7,
                now: Some(StoredContent::New(Content(bytes.to_vec()))),
            };
            let line = encode(&record).unwrap();
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            let (found, length) = lines(&line);
            assert_eq!(found, [JournalLine::Record(Box::new(record))]);
            assert_eq!(length, line.len());
        }
    }

    #[test]
    fn a_later_version_is_recognized_whatever_it_contains() {
        let json = br#"{"begin":{"version":3,"news":[]}}"#;
        let line = format!("{:08x} {}\n", crc32(json), String::from_utf8_lossy(json));
        assert_eq!(lines(line.as_bytes()).0, [JournalLine::OtherVersion(3)]);
    }

    #[test]
    fn a_journal_of_version_1_is_read() {
        let json = "{\"begin\":{\"version\":1,\"plan\":\"p\",\"pid\":7,\"since\":null,\
                    \"boot_id\":\"b\",\"network_namespace\":\"n\"}}";
        let line = format!("{:08x} {json}\n", crc32(json.as_bytes()));
        let (found, _) = lines(line.as_bytes());
        let [JournalLine::Record(record)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(matches!(&**record, Record::Begin(begin) if begin.host_name.is_none()));
    }

    #[test]
    fn a_command_is_undone_in_the_folder_where_it_ran() {
        let undo = |folder: Option<&str>| Undo {
            command: "./undo".to_owned(),
            environment: BTreeMap::new(),
            limit_ms: 1,
            folder: folder.map(Into::into),
        };
        assert_eq!(undo(None).line(), "./undo");
        assert_eq!(
            undo(Some("/it's")).line(),
            "cd -- '/it'\\''s' 2>/dev/null; ./undo"
        );
    }

    #[test]
    fn a_flipped_bit_is_damage() {
        let line = encode(&Record::Restored { id: 3 }).unwrap();
        for at in 0..line.len() - 1 {
            let mut bytes = line.clone();
            bytes[at] ^= 1;
            let (found, _) = lines(&bytes);
            assert!(
                found.contains(&JournalLine::Damaged),
                "byte {at}: {found:?}"
            );
        }
    }

    #[test]
    fn values_are_shown_on_one_short_line() {
        let shown = |bytes: &[u8]| Content(bytes.to_vec()).to_string();
        assert_eq!(shown(b"4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(shown(b"\n"), "empty");
        assert_eq!(shown(b"a\x1b[31mb"), "a\\u{1b}[31mb");
        assert_eq!(shown(&[b'x'; 200]), format!("{}...", "x".repeat(80)));
    }
}
