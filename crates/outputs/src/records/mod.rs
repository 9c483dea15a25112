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

/// What the records of a run with this plan and these names of requests have.
#[must_use]
pub fn layout_of(plan: &RunPlan, names: Option<&[String]>) -> Layout {
    let events = plan.events.as_ref();
    Layout {
        has_tokens: events.is_some_and(|events| events.format == EventsFormat::Llm),
        has_traces: plan.tracing.traceparent_one_in.is_some(),
        names: names.unwrap_or_default().to_vec(),
    }
}

impl RecordFile {
    /// Starts the thread. `file` is with whether nobody else writes to it; it is empty then. `clock`
    /// is for wall-clock times.
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
