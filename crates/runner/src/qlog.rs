//! The log of one HTTP/3 connection (`--qlog`), from the plan to the result.
//!
//! The library for QUIC writes an event when it happens, in the middle of a worker's work. So the
//! worker only hands over whole records, and a thread writes them to the file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use results::QuicLog;

use crate::RunnerError;

/// Records that wait for the thread, of some 150 bytes each: at 100,000 packets/s, what a disk may
/// stall for half a second.
const QUEUE_RECORDS: usize = 65_536;

/// A folder has no more logs.
const FILES_MAX: u32 = 100_000;

/// A record, or the end of the log.
type Message = Option<Vec<u8>>;

/// A log that is being written.
pub(crate) struct RunningQlog {
    path: PathBuf,
    queue: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
    /// Returns the number of records that were written, the first of which is no event, and the
    /// error that ended it.
    thread: JoinHandle<(u64, Option<io::Error>)>,
}

/// What the connection writes to.
pub(crate) type QlogWriter = Box<dyn Write + Send + Sync>;

/// Creates a new file in this folder, and the folder if it does not exist.
///
/// # Errors
/// The system's.
pub(crate) fn create(
    folder: Option<&Path>,
) -> Result<Option<(RunningQlog, QlogWriter)>, RunnerError> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let created = fs::create_dir_all(folder).and_then(|()| new_file(folder));
    let (path, file) = created.map_err(|error| RunnerError::File {
        option: "--qlog",
        path: folder.to_owned(),
        error,
    })?;
    let (queue, records) = sync_channel(QUEUE_RECORDS);
    let left_out = Arc::new(AtomicU64::new(0));
    let writer = Records {
        record: Vec::new(),
        queue: queue.clone(),
        left_out: Arc::clone(&left_out),
    };
    let thread = std::thread::Builder::new()
        .name("qlog".to_owned())
        .spawn(move || write_all(file, &records))
        .map_err(|error| RunnerError::File {
            option: "--qlog",
            path: path.clone(),
            error,
        })?;
    let running = RunningQlog {
        path,
        queue,
        left_out,
        thread,
    };
    Ok(Some((running, Box::new(writer))))
}

impl RunningQlog {
    /// The run is over. Connections that are still open log nothing any more.
    pub(crate) fn finish(self) -> QuicLog {
        // An error means that the thread has ended.
        let _ = self.queue.send(None);
        let (records, error) = self
            .thread
            .join()
            .unwrap_or_else(|_| (0, Some(io::Error::other("its thread has failed"))));
        QuicLog {
            file: self.path.display().to_string(),
            events: records.saturating_sub(1),
            events_left_out: self.left_out.load(Ordering::Relaxed),
            error: error.map(|error| error.to_string()),
        }
    }
}

/// A file that did not exist before, with the first number that is free.
fn new_file(folder: &Path) -> io::Result<(PathBuf, File)> {
    for number in 1..=FILES_MAX {
        let path = folder.join(format!("connection-{number}.sqlog"));
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (path, file)),
        }
    }
    let problem = format!("has {FILES_MAX} logs already; remove some, or use another folder");
    Err(io::Error::other(problem))
}

fn write_all(file: impl Write, records: &Receiver<Message>) -> (u64, Option<io::Error>) {
    let mut file = BufWriter::new(file);
    let mut count = 0;
    while let Ok(Some(record)) = records.recv() {
        if let Err(error) = file.write_all(&record) {
            return (count, Some(error));
        }
        count += 1;
    }
    (count, file.flush().err())
}

/// Collects records, which end with a line feed, and passes them on.
struct Records {
    record: Vec<u8>,
    queue: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.record.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let record = std::mem::take(&mut self.record);
                // After an error of the file nobody takes records.
                if let Err(TrySendError::Full(_)) = self.queue.try_send(Some(record)) {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(room: usize) -> (Records, Receiver<Message>) {
        let (queue, taken) = sync_channel(room);
        let records = Records {
            record: Vec::new(),
            queue,
            left_out: Arc::default(),
        };
        (records, taken)
    }

    #[test]
    fn records_are_passed_on_whole_and_left_out_whole() {
        let (mut writer, taken) = records(2);
        for part in [
            "\x1e{\"a\"",
            ":1}\n\x1e{}",
            "\n\x1e{\"left",
            " out\":1}\n",
            "\x1e{",
        ] {
            writer.write_all(part.as_bytes()).expect("it never fails");
        }
        assert_eq!(writer.left_out.load(Ordering::Relaxed), 1);
        drop(writer);
        let taken: Vec<Message> = taken.iter().collect();
        assert_eq!(
            taken,
            [
                Some(b"\x1e{\"a\":1}\n".to_vec()),
                Some(b"\x1e{}\n".to_vec())
            ]
        );
    }

    #[test]
    fn an_error_of_the_file_ends_the_log_and_not_the_connection() {
        let (mut writer, taken) = records(9);
        let record = vec![b'x'; 100_000];
        writer.write_all(&record).expect("it never fails");
        writer.write_all(b"\n").expect("it never fails");
        let full = File::create("/dev/full").expect("Linux has it");
        let (written, error) = write_all(full, &taken);
        assert_eq!(written, 0);
        assert_eq!(error.map(|it| it.kind()), Some(io::ErrorKind::StorageFull));
        drop(taken);
        writer.write_all(b"more\n").expect("it never fails");
        assert_eq!(writer.left_out.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn existing_logs_are_never_overwritten() {
        let folder = testkit::Folder::new();
        for number in 1..=3 {
            let (path, _) = new_file(folder.path()).expect("it is writable");
            assert!(path.ends_with(format!("connection-{number}.sqlog")));
        }
    }
}
