//! Access logs: which requests were sent, and when.
//!
//! Formats are those of nginx's `log_format` and of Apache's `LogFormat`. A line is read into its
//! fields; the requests of all lines become a [`RequestSet`] with a moment for each. The log is
//! read line by line, and equal requests are kept once.

mod format;
mod input;
mod known;
mod line;

use std::io::{self, BufRead};

use plan::RequestOrder;

use crate::compile::{Compiler, Defaults};
use crate::entry::{Header, Inputs, RequestEntry};
use crate::error::{Fault, FileError, quoted};
use crate::moments::{Arrival, MAX_ARRIVALS, SECOND_NS, in_order, too_many};
use crate::scope::Scope;
use crate::set::RequestSet;
use crate::template::Template;
use format::{LogFormat, SAMPLE_LINES};
pub use input::LogError;
use input::{Lines, NumberedLine};
use known::KnownRequests;
use line::LogEntry;

/// How to read a log.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions<'a> {
    /// Name or text of its format; `None` finds out which of the well-known ones it is.
    pub format: Option<&'a str>,
    /// Also send requests that may change something on the server, without their bodies.
    pub all_methods: bool,
    /// How many times as fast as in the log; above 0.
    pub speed: f64,
}

/// What became of the lines of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Lines that have text and are no comments.
    pub lines: u64,
    /// Requests that are sent.
    pub requests: u64,
    /// Requests that are sent without the body that they may have had.
    pub without_body: u64,
    /// Requests left out because they may change something on the server.
    pub unsafe_left_out: u64,
    /// Lines that cannot be read or sent, and what is wrong with the first one.
    pub unusable: u64,
    /// The first of the `unusable` lines; `None` if there are none.
    pub first_unusable: Option<FileError>,
    /// Whether moments are known to the second only, so that requests are spread evenly over each
    /// second.
    pub in_seconds: bool,
}

/// Methods that change nothing on the server (RFC 9110 section 9.2.1) and have no body.
const SAFE_METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// If the format fits none of so many lines, the rest is not read.
const HOPELESS_LINES: u64 = 100_000;

/// Reads the requests of a log, which is called `file` in messages.
///
/// # Errors
/// If it cannot be read, the format is not known, most lines have another one, or there is nothing
/// to send.
pub fn load_log(
    file: &str,
    input: &mut dyn BufRead,
    defaults: &Defaults<'_>,
    options: &LogOptions<'_>,
) -> Result<(RequestSet, LogSummary), LogError> {
    let inputs = Inputs {
        file,
        text: b"",
        read: &|_| Err(io::Error::other("a log names no files")),
        variable: &|_| None,
    };
    let mut lines = Lines::new(file, input);
    let beginning = Beginning::read(file, &mut lines, options.format)?;
    let mut reader = Reader {
        file,
        format: &beginning.format,
        compiler: Compiler::new(defaults),
        scope: Scope::new(&inputs),
        known: KnownRequests::default(),
        arrivals: Vec::new(),
        summary: LogSummary::default(),
        unreadable: 0,
        all_methods: options.all_methods,
    };
    reader
        .compiler
        .read_default_headers(&mut reader.scope)
        .map_err(|fault| fault.in_file(file, b""))?;
    reader.read_all(&beginning.sample, &mut lines)?;
    reader.check_format()?;
    reader.check_arrivals()?;
    Ok(reader.finish(defaults.order, options.speed)?)
}

/// The format of a log, and the lines from which the format is known.
struct Beginning {
    format: LogFormat,
    /// With their numbers. Empty if the format was given.
    sample: Vec<(usize, Vec<u8>)>,
}

impl Beginning {
    fn read(file: &str, lines: &mut Lines<'_>, format: Option<&str>) -> Result<Self, LogError> {
        let mut sample: Vec<(usize, Vec<u8>)> = Vec::new();
        if let Some(text) = format {
            let format = LogFormat::parse(text).map_err(|problem| FileError {
                file: "--log-format".to_owned(),
                line: 1,
                column: problem.at + 1,
                message: problem.message,
            })?;
            return Ok(Self { format, sample });
        }
        while sample.len() < SAMPLE_LINES
            && let Some(line) = lines.next()?
        {
            sample.push((line.number, line.bytes.to_vec()));
        }
        let is_json = |(_, line): &(usize, Vec<u8>)| line.starts_with(b"{");
        if sample.first().is_some_and(is_json) {
            let problem = "this is JSON: --requests FILE sends a request file at its moments \
                           (key at), and --log-format says how to read a log";
            return Err(Fault::new(0, problem).in_file(file, b"").into());
        }
        let format = LogFormat::of_lines(sample.iter().map(|(_, line)| line.as_slice()));
        Ok(Self { format, sample })
    }
}

struct Reader<'a> {
    file: &'a str,
    format: &'a LogFormat,
    compiler: Compiler<'a>,
    scope: Scope<'a>,
    known: KnownRequests,
    arrivals: Vec<Arrival>,
    summary: LogSummary,
    /// Lines that are not in the format.
    unreadable: u64,
    all_methods: bool,
}

impl Reader<'_> {
    /// Reads the lines of the sample, which `lines` does not give again, and then the others.
    fn read_all(
        &mut self,
        sample: &[(usize, Vec<u8>)],
        lines: &mut Lines<'_>,
    ) -> Result<(), LogError> {
        for (number, bytes) in sample {
            let (number, bytes) = (*number, bytes.as_slice());
            self.read(NumberedLine { number, bytes })?;
        }
        // What comes through a pipe may never end.
        while !self.is_hopeless()
            && let Some(line) = lines.next()?
        {
            self.read(line)?;
        }
        Ok(())
    }

    fn is_hopeless(&self) -> bool {
        self.unreadable >= HOPELESS_LINES && self.unreadable == self.summary.lines
    }

    /// Reads a line; counts it if it cannot be sent.
    ///
    /// # Errors
    /// If there are too many requests.
    fn read(&mut self, numbered: NumberedLine<'_>) -> Result<(), FileError> {
        self.summary.lines += 1;
        let read = self.format.read(numbered.bytes);
        let read = read.inspect_err(|_| self.unreadable += 1);
        let added = read.and_then(|line| self.add(&line));
        if let Err(problem) = added {
            self.summary.unusable += 1;
            if self.summary.first_unusable.is_none() {
                self.summary.first_unusable = Some(numbered.fault(problem, self.file));
            }
        }
        if self.arrivals.len() > MAX_ARRIVALS {
            return Err(numbered.fault(Fault::new(0, too_many("requests")), self.file));
        }
        Ok(())
    }

    fn add(&mut self, line: &LogEntry<'_>) -> Result<(), Fault> {
        let is_safe = SAFE_METHODS.contains(&line.method.as_ref());
        if !is_safe && !self.all_methods {
            self.summary.unsafe_left_out += 1;
            return Ok(());
        }
        let hash = self
            .known
            .hash(&(&line.method, &line.target, &line.headers));
        let request = match self.known.find(hash) {
            Some(request) => request,
            None => {
                let request = self.compiler.len() as u32;
                self.compiler.add(entry(line)?, &mut self.scope)?;
                self.known.add(hash);
                request
            }
        };
        self.summary.without_body += u64::from(!is_safe);
        self.arrivals.push(Arrival {
            unix_ns: line.moment.unix_ns,
            request,
            status: line.status,
            is_exact: line.moment.is_exact,
        });
        Ok(())
    }

    /// Refuses a log of which most lines are not in the format.
    fn check_format(&self) -> Result<(), FileError> {
        let (lines, unreadable) = (self.summary.lines, self.unreadable);
        match &self.summary.first_unusable {
            Some(first) if unreadable * 2 > lines => {
                let message = format!(
                    "{} ({unreadable} of {lines} lines are not in the format {}; give it with \
                     --log-format)",
                    first.message,
                    self.format.name()
                );
                Err(FileError {
                    message,
                    ..first.clone()
                })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a log of which no request is sent.
    fn check_arrivals(&self) -> Result<(), FileError> {
        if !self.arrivals.is_empty() {
            return Ok(());
        }
        let message = match (self.summary.lines, self.summary.unsafe_left_out) {
            (0, _) => "the log is empty".to_owned(),
            (_, 0) => "the log has no request that can be sent".to_owned(),
            (_, left_out) => format!(
                "all {left_out} requests may change something on the server; --all-methods sends \
                 them, without bodies"
            ),
        };
        Err(Fault::new(0, message).in_file(self.file, b""))
    }

    /// The requests with their moments, after the last line.
    fn finish(
        self,
        order: Option<RequestOrder>,
        speed: f64,
    ) -> Result<(RequestSet, LogSummary), FileError> {
        let Self {
            file,
            compiler,
            scope,
            known,
            arrivals,
            mut summary,
            ..
        } = self;
        drop(known);
        summary.requests = arrivals.len() as u64;
        summary.in_seconds = arrivals.iter().any(|arrival| !arrival.is_exact);
        let recorded = in_order(arrivals, speed);
        let set = compiler
            .finish(scope.tables, order)
            .map_err(|fault| fault.in_file(file, b""))?;
        Ok((set.with_recorded(recorded), summary))
    }
}

/// The request of a line. Its only position is the line's, which the caller adds.
fn entry(line: &LogEntry<'_>) -> Result<RequestEntry, Fault> {
    let path = path_of(&line.target)
        .ok_or_else(|| Fault::new(0, format!("{} is not a path", quoted(&line.target))))?;
    let headers = line.headers.iter().map(|(name, value)| Header {
        name: (*name).to_owned(),
        value: Template::literal(value.as_ref()),
        at: 0,
    });
    Ok(RequestEntry {
        at: 0,
        method: line.method.clone().into_owned(),
        address: Template::literal(path),
        address_at: 0,
        headers: headers.collect(),
        body: None,
        name: None,
        weight: None,
        due: None,
        captures: Vec::new(),
        conversation: None,
        is_call: false,
    })
}

/// The path with its query; of a URL, as proxies log it, the part behind the host.
fn path_of(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return Some(target);
    }
    let (scheme, rest) = target.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    Some(rest.find('/').map_or("/", |at| &rest[at..]))
}
