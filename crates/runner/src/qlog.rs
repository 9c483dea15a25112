//! The log of one HTTP/3 connection (`--qlog`), from the plan to the result.
//!
//! The library for QUIC writes an event when it happens, in the middle of a worker's work. So the
//! worker only hands over batches of whole records, and a thread writes them to the file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use results::QuicLog;

use crate::RunnerError;

/// Bytes of the records of a batch, roughly: some 100 records. Waking the thread for each record
/// takes longer than making the record.
const BATCH_BYTES: usize = 16 << 10;

/// Batches that wait for the thread: at 100,000 packets/s, what a disk may stall for half a second.
const QUEUE_BATCHES: usize = 640;

/// How long the end of the run waits until the connection has passed on its last records. A worker
/// that is stuck never does.
const LAST_RECORDS_WAIT: Duration = Duration::from_secs(1);

/// A folder has no more logs.
const FILES_MAX: u32 = 100_000;

/// Records, none of which is cut.
#[derive(Debug, Default, PartialEq, Eq)]
struct Batch {
    bytes: Vec<u8>,
    records: u64,
}

/// `None` is the end of the log.
type Message = Option<Batch>;

/// A log that is being written.
pub(crate) struct RunningQlog {
    path: PathBuf,
    queue: SyncSender<Message>,
    /// Disconnected when the connection has passed on its last records.
    connection: Receiver<()>,
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
/// If the system cannot create the folder, the file or the thread.
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
    let (queue, batches) = sync_channel(QUEUE_BATCHES);
    let (lives, connection) = sync_channel(0);
    let left_out = Arc::new(AtomicU64::new(0));
    let writer = Records {
        batch: Batch::default(),
        whole_bytes: 0,
        queue: queue.clone(),
        left_out: Arc::clone(&left_out),
        _lives: lives,
    };
    let thread = std::thread::Builder::new()
        .name("qlog".to_owned())
        .spawn(move || write_all(file, &batches))
        .map_err(|error| RunnerError::Thread {
            task: "writes the log of --qlog",
            error,
        })?;
    let running = RunningQlog {
        path,
        queue,
        connection,
        left_out,
        thread,
    };
    Ok(Some((running, Box::new(writer))))
}

impl RunningQlog {
    /// The run is over. Workers end their connections after they have handed over their results. A
    /// connection that is still open after the wait logs nothing any more.
    pub(crate) fn finish(self) -> QuicLog {
        // Nothing is ever sent: this waits for the end of the connection.
        let _ = self.connection.recv_timeout(LAST_RECORDS_WAIT);
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

fn write_all(file: impl Write, batches: &Receiver<Message>) -> (u64, Option<io::Error>) {
    let mut file = BufWriter::new(file);
    let mut count = 0;
    while let Ok(Some(batch)) = batches.recv() {
        if let Err(error) = file.write_all(&batch.bytes) {
            return (count, Some(error));
        }
        count += batch.records;
    }
    (count, file.flush().err())
}

/// Collects records, which end with a line feed, and passes them on.
struct Records {
    batch: Batch,
    /// Where the last whole record in the batch ends.
    whole_bytes: usize,
    queue: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
    /// Dropped with this value, after the last records were passed on.
    _lives: SyncSender<()>,
}

impl Records {
    fn pass_on(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let records = batch.records;
        self.whole_bytes = 0;
        // After an error of the file nobody takes records.
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Some(batch)) {
            self.left_out.fetch_add(records, Ordering::Relaxed);
        }
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.batch.bytes.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.batch.records += 1;
                self.whole_bytes = self.batch.bytes.len();
                if self.whole_bytes >= BATCH_BYTES {
                    self.pass_on();
                }
            }
        }
        Ok(bytes.len())
    }

    /// Does nothing, since the library flushes after each record.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Records {
    /// The connection is over: passes on the last whole records.
    fn drop(&mut self) {
        self.batch.bytes.truncate(self.whole_bytes);
        if self.batch.records > 0 {
            self.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(room: usize) -> (Records, Receiver<Message>) {
        let (queue, taken) = sync_channel(room);
        let records = Records {
            batch: Batch::default(),
            whole_bytes: 0,
            queue,
            left_out: Arc::default(),
            _lives: sync_channel(0).0,
        };
        (records, taken)
    }

    fn write(writer: &mut Records, parts: &[&[u8]]) {
        for part in parts {
            writer.write_all(part).expect("it never fails");
        }
    }

    #[test]
    fn whole_records_are_passed_on_in_batches_and_the_last_ones_at_the_end() {
        let (mut writer, taken) = records(9);
        let long = vec![b'x'; BATCH_BYTES];
        let parts: [&[u8]; 5] = [b"\x1e{\"a\"", b":1}\n", &long, b"\n\x1e{}\n", b"\x1e{"];
        write(&mut writer, &parts);
        let first = taken
            .try_recv()
            .expect("a batch is full")
            .expect("it goes on");
        assert_eq!(first.bytes, [b"\x1e{\"a\":1}\n", &long[..], b"\n"].concat());
        assert_eq!(first.records, 2);
        assert!(taken.try_recv().is_err());
        drop(writer);
        let bytes = b"\x1e{}\n".to_vec();
        assert_eq!(
            taken.iter().collect::<Vec<Message>>(),
            [Some(Batch { bytes, records: 1 })]
        );
    }

    #[test]
    fn records_that_find_no_room_are_counted() {
        let (mut writer, taken) = records(1);
        let half = vec![b'x'; BATCH_BYTES / 2];
        for _ in 0..6 {
            write(&mut writer, &[&half, b"\n"]);
        }
        assert_eq!(writer.left_out.load(Ordering::Relaxed), 4);
        let batch = taken.try_recv().expect("there is one").expect("it goes on");
        assert_eq!(batch.records, 2);
    }

    #[test]
    fn an_error_of_the_file_ends_the_log_and_not_the_connection() {
        let (mut writer, taken) = records(9);
        let record = [vec![b'x'; BATCH_BYTES], b"\n".to_vec()].concat();
        write(&mut writer, &[&record]);
        let full = File::create("/dev/full").expect("Linux has it");
        let (written, error) = write_all(full, &taken);
        assert_eq!(written, 0);
        assert_eq!(error.map(|it| it.kind()), Some(io::ErrorKind::StorageFull));
        drop(taken);
        write(&mut writer, &[&record]);
        assert_eq!(writer.left_out.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_end_waits_for_the_last_records_of_the_connection() {
        let folder = testkit::Folder::new();
        let created = create(Some(folder.path())).expect("it is writable");
        let (running, mut writer) = created.expect("a log was asked for");
        let queue = running.queue.clone();
        let (running_ends, ends) = sync_channel(0);
        let worker = std::thread::spawn(move || {
            writer
                .write_all(b"\x1e{}\n\x1e{}\n")
                .expect("it never fails");
            ends.recv().expect("the run ends");
            // Without the wait, the thread of the log ends now, and then nothing takes batches.
            for _ in 0..100 {
                if let Err(TrySendError::Disconnected(_)) = queue.try_send(Some(Batch::default())) {
                    break;
                }
                std::thread::yield_now();
            }
        });
        running_ends.send(()).expect("the worker waits");
        let log = running.finish();
        worker.join().expect("it does not fail");
        assert_eq!((log.events, log.events_left_out, log.error), (1, 0, None));
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
