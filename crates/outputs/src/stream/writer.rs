//! Writes lines in a thread of its own, from a queue with a limit.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

/// Seconds wait for a slow reader up to this many, a minute. Then they are lost.
const SECONDS_MAX: usize = 60;

/// Lines of events have this much room in addition: a sweep of hundreds of trials in which nobody
/// reads.
const EVENTS_MAX: usize = 1000;

/// What may be lost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Importance {
    /// A second of a run; another one follows.
    Second,
    /// A start, an end, a verdict.
    Event,
}

/// Where lines go.
#[derive(Debug)]
pub struct Sink {
    file: File,
    /// A file of this program alone, from which the beginning of a line can be removed again.
    is_own: bool,
    /// The beginning of a line was written, and its end was not.
    is_torn: bool,
}

impl Sink {
    /// A descriptor that other programs may write to as well.
    #[must_use]
    pub fn shared(file: File) -> Self {
        Self {
            file,
            is_own: false,
            is_torn: false,
        }
    }

    /// A regular file that nobody else writes to.
    #[must_use]
    pub fn own(file: File) -> Self {
        Self {
            is_own: true,
            ..Self::shared(file)
        }
    }

    /// Writes a whole line, or as far as nobody can tell nothing at all.
    fn write_line(&mut self, line: &str) -> io::Result<()> {
        let separator = if self.is_torn { "\n" } else { "" };
        let text = format!("{separator}{line}\n");
        let mut written = 0;
        while written < text.len() {
            match self.file.write(&text.as_bytes()[written..]) {
                Ok(0) => return self.tear(written, io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
                    if let Err(error) = poll(&mut fds, None)
                        && error != rustix::io::Errno::INTR
                    {
                        return self.tear(written, error.into());
                    }
                }
                Err(error) => return self.tear(written, error),
            }
        }
        self.is_torn = false;
        Ok(())
    }

    /// Removes the beginning of a line that could not be completed, if possible.
    fn tear(&mut self, written: usize, error: io::Error) -> io::Result<()> {
        if written > 0 {
            self.is_torn = !(self.is_own && self.cut(written).is_ok());
        }
        Err(error)
    }

    fn cut(&mut self, written: usize) -> io::Result<()> {
        let end = self.file.stream_position()?.saturating_sub(written as u64);
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end))?;
        Ok(())
    }
}

#[derive(Debug, Default)]
struct LineQueue {
    lines: VecDeque<String>,
    /// A line is being written.
    is_writing: bool,
    is_closed: bool,
    /// Lines that were not written.
    lost: u64,
    /// The first error of writing.
    failure: Option<io::Error>,
    /// Nobody can read any more.
    has_ended: bool,
}

#[derive(Debug, Default)]
struct SharedLineQueue {
    queue: Mutex<LineQueue>,
    /// The queue has changed.
    changed: Condvar,
}

impl SharedLineQueue {
    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next line; `None` when all were written.
    fn next(&self) -> Option<String> {
        let mut queue = self.lock();
        queue.is_writing = false;
        self.changed.notify_all();
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.is_writing = true;
                return Some(line);
            }
            if queue.is_closed {
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Hands lines to the thread that writes them.
pub(super) struct Writer {
    shared: Arc<SharedLineQueue>,
}

impl Writer {
    /// # Errors
    /// When the system cannot create a thread.
    pub(super) fn start(mut sink: Sink) -> io::Result<Self> {
        let shared = Arc::new(SharedLineQueue::default());
        let writer = Self {
            shared: shared.clone(),
        };
        let body = move || {
            while let Some(line) = shared.next() {
                if shared.lock().has_ended {
                    shared.lock().lost += 1;
                    continue;
                }
                if let Err(error) = sink.write_line(&line) {
                    let mut queue = shared.lock();
                    queue.lost += 1;
                    queue.has_ended = error.kind() == io::ErrorKind::BrokenPipe;
                    queue.failure.get_or_insert(error);
                }
            }
        };
        // It ends with the process: a reader that does not read may never let it go.
        std::thread::Builder::new()
            .name("stream".to_owned())
            .spawn(body)?;
        Ok(writer)
    }

    /// Adds a line without a newline. If the queue is full, it is lost.
    pub(super) fn add(&self, line: String, importance: Importance) {
        let mut queue = self.shared.lock();
        let room = match importance {
            Importance::Second => SECONDS_MAX,
            Importance::Event => SECONDS_MAX + EVENTS_MAX,
        };
        if queue.lines.len() < room {
            queue.lines.push_back(line)
        } else {
            queue.lost += 1
        }
        self.shared.changed.notify_all();
    }

    /// Lines that were not written so far.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lock().lost
    }

    /// Waits for the last lines, up to a limit. Returns what went wrong, in one line.
    pub(super) fn close(&self, limit: Duration) -> Option<String> {
        let mut queue = self.shared.lock();
        queue.is_closed = true;
        self.shared.changed.notify_all();
        let is_busy = |queue: &mut LineQueue| queue.is_writing || !queue.lines.is_empty();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(queue, limit, is_busy);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let unread = queue.lines.len() as u64 + u64::from(queue.is_writing);
        let lost = queue.lost + unread;
        if lost == 0 {
            return None;
        }
        let lines = plan::readable::counted(lost, "line");
        Some(match &queue.failure {
            Some(error) => format!("--stream: {lines} could not be written ({error})"),
            None => format!("--stream: {lines} lost, since the reader was too slow"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use super::*;

    /// Longer than anything here takes.
    const LONG: Duration = Duration::from_secs(60);

    fn pipe() -> (File, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().expect("there are descriptors");
        (reader.into(), writer)
    }

    fn text(mut file: File) -> String {
        let mut text = String::new();
        file.read_to_string(&mut text).expect("it is text");
        text
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let (reader, pipe) = pipe();
        let writer = Writer::start(Sink::shared(pipe.into())).expect("it starts");
        writer.add("one".to_owned(), Importance::Event);
        writer.add("two".to_owned(), Importance::Second);
        assert_eq!(writer.close(LONG), None);
        assert_eq!(text(reader), "one\ntwo\n");
    }

    #[test]
    fn a_reader_that_does_not_read_loses_seconds_and_keeps_events() {
        let (reader, pipe) = pipe();
        let writer = Writer::start(Sink::shared(pipe.into())).expect("it starts");
        // As much as a pipe holds, so that the thread waits in the first of them (pipe(7)).
        let long = "x".repeat(1 << 20);
        writer.add(long.clone(), Importance::Event);
        testkit::eventually(|| {
            if writer.shared.lock().lines.is_empty() {
                Ok(())
            } else {
                Err("it takes the line".to_owned())
            }
        });
        for number in 0..SECONDS_MAX + 5 {
            writer.add(number.to_string(), Importance::Second);
        }
        assert_eq!(writer.lost(), 5);
        writer.add("the end".to_owned(), Importance::Event);
        let unread = writer.close(Duration::from_millis(1));
        let lines = SECONDS_MAX + 5 + 2;
        let expected = format!("--stream: {lines} lines lost, since the reader was too slow");
        assert_eq!(unread, Some(expected));
        // It goes on reading after all.
        let text = text(reader);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.first(), Some(&long.as_str()));
        assert_eq!(lines[1..3], ["0", "1"]);
        assert_eq!(lines.last(), Some(&"the end"));
        assert_eq!(lines.len(), 1 + SECONDS_MAX + 1);
    }

    #[test]
    fn without_a_reader_all_lines_are_lost_and_said_once() {
        let (reader, pipe) = pipe();
        drop(reader);
        let writer = Writer::start(Sink::shared(pipe.into())).expect("it starts");
        for _ in 0..3 {
            writer.add("line".to_owned(), Importance::Second);
        }
        let problem = writer.close(LONG).expect("nothing was written");
        assert!(
            problem.contains("3 lines could not be written"),
            "{problem}"
        );
        assert!(problem.contains("Broken pipe"), "{problem}");
    }

    #[test]
    fn the_beginning_of_a_line_that_does_not_fit_is_removed_from_a_file() {
        let folder = testkit::Folder::new();
        let path = folder.file("stream.jsonl");
        let mut sink = Sink::own(File::create(&path).expect("the folder is writable"));
        sink.write_line("whole").expect("it fits");
        sink.file.write_all(b"torn").expect("it fits");
        let refused = sink.tear(4, io::ErrorKind::StorageFull.into());
        assert!(refused.is_err());
        sink.write_line("next").expect("it fits");
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, "whole\nnext\n");
    }

    #[test]
    fn elsewhere_a_torn_line_ends_before_the_next_one() {
        let (reader, pipe) = pipe();
        let mut sink = Sink::shared(pipe.into());
        sink.file.write_all(b"torn").expect("there is room");
        assert!(sink.tear(4, io::ErrorKind::StorageFull.into()).is_err());
        sink.write_line("next").expect("there is room");
        drop(sink);
        assert_eq!(text(reader), "torn\nnext\n");
    }
}
