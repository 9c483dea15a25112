//! Access logs: which requests were sent, and when.
//!
//! Formats are those of nginx's `log_format` and of Apache's `LogFormat`. A line is read into its
//! fields; the requests of all lines become a [`RequestSet`] with a moment for each.

mod format;
mod line;

use std::collections::HashMap;

use crate::compile::{Compiler, Defaults};
use crate::entry::{Entry, Header, Inputs};
use crate::error::{Fault, FileError, quoted};
use crate::scope::Scope;
use crate::set::{RecordedRequests, RequestSet};
use crate::template::Template;
use format::LogFormat;
use line::{Line, Moment};

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

const SECOND_NS: i64 = 1_000_000_000;

/// One request of the log.
struct Arrival {
    moment: Moment,
    request: u32,
    /// The status of the response; 0 if the log does not have it.
    status: u16,
}

/// Reads the requests of a log.
///
/// # Errors
/// If the format is not known, most lines have another one, or there is nothing to send.
pub fn load_log(
    inputs: &Inputs<'_>,
    defaults: &Defaults<'_>,
    options: &LogOptions<'_>,
) -> Result<(RequestSet, LogSummary), FileError> {
    let in_file = |fault: Fault| fault.in_file(inputs.file, inputs.text);
    let format = match options.format {
        Some(text) => LogFormat::parse(text).map_err(|problem| FileError {
            file: "--log-format".to_owned(),
            line: 1,
            column: problem.at + 1,
            message: problem.message,
        })?,
        None => LogFormat::of_lines(lines(inputs.text).map(|(_, line)| line)),
    };
    let mut reader = Reader {
        compiler: Compiler::new(defaults),
        scope: Scope::new(inputs),
        known: HashMap::new(),
        arrivals: Vec::new(),
        summary: LogSummary::default(),
        all_methods: options.all_methods,
    };
    let mut unreadable = 0_u64;
    for (at, text) in lines(inputs.text) {
        reader.summary.lines += 1;
        let read = format.read(text).inspect_err(|_| unreadable += 1);
        let added = read.and_then(|line| reader.add(&line));
        if let Err(problem) = added {
            reader.summary.unusable += 1;
            if reader.summary.first_unusable.is_none() {
                let fault = Fault::new(at + problem.at, problem.message);
                reader.summary.first_unusable = Some(in_file(fault));
            }
        }
    }
    let Reader {
        compiler,
        scope,
        arrivals,
        mut summary,
        ..
    } = reader;
    if unreadable * 2 > summary.lines
        && let Some(first) = summary.first_unusable
    {
        let message = format!(
            "{} ({unreadable} of {} lines are not in the format {}; give it with --log-format)",
            first.message,
            summary.lines,
            format.name()
        );
        return Err(FileError { message, ..first });
    }
    if arrivals.is_empty() {
        let message = match (summary.lines, summary.unsafe_left_out) {
            (0, _) => "the log is empty".to_owned(),
            (_, 0) => "the log has no request that can be sent".to_owned(),
            (_, left_out) => format!(
                "all {left_out} requests may change something on the server; --all-methods sends \
                 them, without bodies"
            ),
        };
        return Err(in_file(Fault::new(0, message)));
    }
    summary.requests = arrivals.len() as u64;
    summary.in_seconds = arrivals.iter().any(|arrival| !arrival.moment.is_exact);
    let recorded = in_order(arrivals, options.speed);
    let set = compiler
        .finish(scope.tables, defaults.order)
        .map_err(in_file)?;
    Ok((set.with_recorded(recorded), summary))
}

/// The lines that have text, and where each begins. Lines with `#` at the start are comments, as in
/// the Extended Log File Format of W3C.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        if begin >= text.len() {
            return None;
        }
        let rest = &text[begin..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let at = begin;
        begin += end + 1;
        let line = &rest[..end];
        Some((at, line.strip_suffix(b"\r").unwrap_or(line)))
    })
    .filter(|(_, line)| !line.trim_ascii().is_empty() && !line.starts_with(b"#"))
}

struct Reader<'a> {
    compiler: Compiler,
    scope: Scope<'a>,
    /// Requests by what distinguishes them: most lines of a log repeat others.
    known: HashMap<Vec<u8>, u32>,
    arrivals: Vec<Arrival>,
    summary: LogSummary,
    all_methods: bool,
}

impl Reader<'_> {
    fn add(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let is_safe = SAFE_METHODS.contains(&line.method.as_ref());
        if !is_safe && !self.all_methods {
            self.summary.unsafe_left_out += 1;
            return Ok(());
        }
        let key = line.key();
        let request = match self.known.get(&key) {
            Some(request) => *request,
            None => {
                let request = self.compiler.len() as u32;
                self.compiler.add(entry(line)?, &self.scope)?;
                self.known.insert(key, request);
                request
            }
        };
        self.summary.without_body += u64::from(!is_safe);
        self.arrivals.push(Arrival {
            moment: line.moment,
            request,
            status: line.status,
        });
        Ok(())
    }
}

/// The request of a line. Its only position is the line's, which the caller adds.
fn entry(line: &Line<'_>) -> Result<Entry, Fault> {
    let path = path_of(&line.target)
        .ok_or_else(|| Fault::new(0, format!("{} is not a path", quoted(&line.target))))?;
    let headers = line.headers.iter().map(|(name, value)| Header {
        name: (*name).to_owned(),
        value: Template::literal(value.as_ref()),
        at: 0,
    });
    Ok(Entry {
        at: 0,
        method: line.method.clone().into_owned(),
        address: Template::literal(path),
        address_at: 0,
        headers: headers.collect(),
        body: None,
        name: None,
        weight: None,
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

/// Sorts requests by their moments, since a server writes its log when it has responded.
fn in_order(mut arrivals: Vec<Arrival>, speed: f64) -> RecordedRequests {
    // A stable sort: within a second, the order of the log is all that is known.
    arrivals.sort_by_key(|arrival| arrival.moment.unix_ns);
    spread_seconds(&mut arrivals);
    arrivals.sort_by_key(|arrival| arrival.moment.unix_ns);
    let first_ns = arrivals.first().map_or(0, |first| first.moment.unix_ns);
    let due_ns = arrivals.iter().map(|arrival| {
        let since_ns = arrival.moment.unix_ns.saturating_sub(first_ns);
        (since_ns as f64 / speed).round() as u64
    });
    RecordedRequests {
        due_ns: due_ns.collect::<Vec<u64>>().into(),
        requests: arrivals.iter().map(|arrival| arrival.request).collect(),
        statuses: arrivals.iter().map(|arrival| arrival.status).collect(),
    }
}

/// Spreads the requests evenly over each second whose moments are known no better.
fn spread_seconds(arrivals: &mut [Arrival]) {
    let same = |a: &Arrival, b: &Arrival| {
        !a.moment.is_exact && !b.moment.is_exact && a.moment.unix_ns == b.moment.unix_ns
    };
    for second in arrivals.chunk_by_mut(same) {
        let count = second.len() as i64;
        for (number, arrival) in (0..).zip(second) {
            if !arrival.moment.is_exact {
                arrival.moment.unix_ns += SECOND_NS * number / count;
            }
        }
    }
}
