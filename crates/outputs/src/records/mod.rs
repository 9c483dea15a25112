//! Writes a record for each request to a file while the run goes on (`--records`).

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use engine::{RecordBatch, RecordLimits, RecordMessage, RecordSender};
use plan::{EventsFormat, RunPlan};
use results::records::{Clock, Formatter, Layout, RecordForm};

/// A file of records that a thread of its own writes.
#[derive(Debug)]
pub struct RecordFile {
    sender: RecordSender,
    thread: JoinHandle<Written>,
}

/// What became of the records of a run.
#[derive(Debug, Default)]
pub struct Written {
    /// Records in the file.
    pub records: u64,
    /// Records lost because they could not be written as fast as requests ended.
    pub lost: u64,
    /// Records that were not written because of `failure`.
    pub unwritten: u64,
    /// Why writing ended early.
    pub failure: Option<io::Error>,
}

impl Written {
    /// The records that the run has made.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.records + self.lost + self.unwritten
    }
}

/// What the records of a run with this plan and these names of requests have. `has_conversations`
/// if requests are turns of conversations.
#[must_use]
pub fn layout_of(plan: &RunPlan, names: Option<&[String]>, has_conversations: bool) -> Layout {
    let events = plan.events.as_ref();
    Layout {
        has_tokens: events.is_some_and(|events| events.format == EventsFormat::Llm),
        has_conversations,
        has_traces: plan.tracing.traceparent_one_in.is_some(),
        names: names.unwrap_or_default().to_vec(),
    }
}

impl RecordFile {
    /// Starts the thread. `file` is with whether nobody else writes to it; it is empty then.
    /// `clock` is for wall-clock times.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(
        file: (File, bool),
        form: RecordForm,
        layout: &Layout,
        clock: Clock,
    ) -> io::Result<Self> {
        let formatter = Formatter::new(form, layout, clock);
        Self::with_limits(file, formatter, RecordLimits::default())
    }

    fn with_limits(
        (file, is_own): (File, bool),
        formatter: Formatter,
        limits: RecordLimits,
    ) -> io::Result<Self> {
        let (sender, messages) = RecordSender::new(limits);
        let writer = Writer {
            file,
            is_own,
            formatter,
            lines: Vec::new(),
            written: Written::default(),
        };
        let thread = std::thread::Builder::new().name("records".to_owned());
        let thread = thread.spawn(move || writer.run(&messages))?;
        Ok(Self { sender, thread })
    }

    /// For the workers of the run.
    #[must_use]
    pub fn sender(&self) -> RecordSender {
        self.sender.clone()
    }

    /// The run is over: waits until everything is written.
    #[must_use]
    pub fn finish(self) -> Written {
        self.sender.end();
        let died = || Written {
            failure: Some(io::Error::other("the thread that writes them died")),
            ..Written::default()
        };
        self.thread.join().unwrap_or_else(|_| died())
    }
}

struct Writer {
    file: File,
    is_own: bool,
    formatter: Formatter,
    /// The lines of one batch. Kept, so that its memory is.
    lines: Vec<u8>,
    written: Written,
}

impl Writer {
    fn run(mut self, messages: &Receiver<RecordMessage>) -> Written {
        self.formatter.header(&mut self.lines);
        self.write_lines();
        for message in messages {
            match message {
                RecordMessage::Batch(batch) => self.write(batch),
                RecordMessage::End => break,
            }
        }
        self.written
    }

    fn write(&mut self, batch: RecordBatch) {
        let records = batch.records.len() as u64;
        self.written.lost += batch.lost;
        self.lines.clear();
        if self.written.failure.is_none() {
            let of = (batch.worker, batch.measure_ns);
            for record in &batch.records {
                self.formatter.line(record, of, &mut self.lines);
            }
        }
        // The worker may need it again before the file has taken the lines.
        batch.give_back();
        let whole = match self.write_lines() {
            None => records,
            Some(bytes) => self.lines[..bytes]
                .iter()
                .filter(|it| **it == b'\n')
                .count() as u64,
        };
        self.written.records += whole;
        self.written.unwritten += records - whole;
    }

    /// Writes the lines. If it fails, returns how many bytes of whole lines are in the file.
    fn write_lines(&mut self) -> Option<usize> {
        let mut done = 0;
        while done < self.lines.len() && self.written.failure.is_none() {
            match self.file.write(&self.lines[done..]) {
                Ok(0) => self.written.failure = Some(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.written.failure = Some(error),
            }
        }
        self.written.failure.as_ref()?;
        let is_end = |byte: &u8| *byte == b'\n';
        let whole = self.lines[..done].iter().rposition(is_end);
        let whole = whole.map_or(0, |last| last + 1);
        self.remove_torn(done - whole);
        Some(whole)
    }

    /// Removes the beginning of a line that did not fit. There is nothing to do if that fails.
    fn remove_torn(&mut self, bytes: usize) {
        if bytes > 0
            && self.is_own
            && let Ok(end) = self.file.stream_position()
        {
            let end = end.saturating_sub(bytes as u64);
            let _ = self.file.set_len(end);
            let _ = self.file.seek(SeekFrom::Start(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use plan::Target;
    use rustix::pipe::pipe;
    use testkit::Folder;

    use super::*;

    fn start(file: File, is_own: bool) -> RecordFile {
        let clock = Clock {
            unix_ns: 1,
            monotonic_ns: 1,
        };
        let layout = Layout::default();
        let started = RecordFile::start((file, is_own), RecordForm::Csv, &layout, clock);
        started.expect("a thread")
    }

    #[test]
    fn a_file_without_records_has_its_header() {
        let folder = Folder::new();
        let path = folder.join("r.csv");
        let file = start(File::create(&path).expect("a file"), true);
        let written = file.finish();
        assert_eq!((written.all(), written.failure.is_none()), (0, true));
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(text.starts_with("due_time,due_us,"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_full_disk_ends_writing_with_its_error() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let written = start(full.expect("a device"), false).finish();
        let error = written.failure.expect("nothing fits").to_string();
        assert_eq!(error, "No space left on device (os error 28)");
        assert_eq!(written.records, 0);
    }

    #[test]
    fn a_reader_that_leaves_ends_writing_with_an_error() {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let written = start(writer.into(), false).finish();
        let error = written.failure.expect("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_beginning_of_a_line_that_did_not_fit_is_removed() {
        let folder = Folder::new();
        let path = folder.join("r.csv");
        let mut file = File::create(&path).expect("a file");
        file.write_all(b"whole\nhal").expect("there is room");
        let mut writer = Writer {
            file,
            is_own: true,
            formatter: Formatter::new(
                RecordForm::Csv,
                &Layout::default(),
                Clock {
                    unix_ns: 1,
                    monotonic_ns: 1,
                },
            ),
            lines: Vec::new(),
            written: Written::default(),
        };
        writer.remove_torn(3);
        let text = fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, "whole\n");
    }

    #[test]
    fn the_columns_follow_from_the_plan() {
        let mut plan = RunPlan::new(Target::parse("http://h/").expect("a URL"));
        assert_eq!(layout_of(&plan, None, false), Layout::default());
        plan.tracing.traceparent_one_in = Some(10);
        let names = ["a".to_owned()];
        let layout = layout_of(&plan, Some(&names), false);
        assert!(layout.has_traces && !layout.has_tokens);
        assert_eq!(layout.names, names);
    }
}
