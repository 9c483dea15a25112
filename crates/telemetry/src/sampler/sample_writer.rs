//! Writes samples as lines of JSON.

use std::fmt;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::sockets::Socket;

/// When a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleTime {
    /// Milliseconds since 1970 (UTC); informational.
    pub(crate) unix_ms: i64,
    /// Milliseconds since the start of the window, by the monotonic clock.
    pub(crate) at_ms: u64,
}

/// The most closed sockets that are written per interval: a server that closes each connection
/// after one response would fill any disk. The others are counted, and all are in the summary.
pub(crate) const CLOSED_MAX: usize = 1_000;

/// Writes one line per sample and flushes it, so that a concurrent reader sees complete lines.
/// After the first error nothing more is written.
pub(crate) struct SampleWriter {
    output: Option<BufWriter<Box<dyn Write + Send>>>,
    failure: Option<io::Error>,
    /// How many more closed sockets may be written in this interval.
    room: usize,
}

#[derive(Serialize)]
struct SampleLine<'a> {
    time: String,
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sockets: Option<&'a [Socket]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<&'a [Socket]>,
    #[serde(skip_serializing_if = "is_none_left_out")]
    closed_left_out: usize,
}

impl fmt::Debug for SampleWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleWriter")
            .field("is_open", &self.output.is_some())
            .field("failure", &self.failure)
            .field("room", &self.room)
            .finish()
    }
}

impl SampleWriter {
    /// Without an output nothing is written.
    pub(crate) fn new(output: Option<Box<dyn Write + Send>>) -> Self {
        Self {
            output: output.map(BufWriter::new),
            failure: None,
            room: CLOSED_MAX,
        }
    }

    /// Writes the open sockets, and starts a new interval.
    pub(crate) fn sample(&mut self, moment: SampleTime, sockets: &[Socket]) {
        self.room = CLOSED_MAX;
        self.write(moment, Some(sockets), None, 0);
    }

    /// Writes closed sockets, up to the limit of the interval.
    pub(crate) fn closed(&mut self, moment: SampleTime, sockets: &[Socket]) {
        let written = sockets.len().min(self.room);
        self.room -= written;
        if !sockets.is_empty() {
            let left_out = sockets.len() - written;
            self.write(moment, None, sockets.get(..written), left_out);
        }
    }

    /// The error that ended writing.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    fn write(
        &mut self,
        moment: SampleTime,
        sockets: Option<&[Socket]>,
        closed: Option<&[Socket]>,
        closed_left_out: usize,
    ) {
        let Some(mut output) = self.output.take() else {
            return;
        };
        let line = SampleLine {
            time: rfc3339(moment.unix_ms),
            at_ms: moment.at_ms,
            sockets,
            closed,
            closed_left_out,
        };
        let written = serde_json::to_writer(&mut output, &line)
            .map_err(io::Error::from)
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush());
        match written {
            Ok(()) => self.output = Some(output),
            Err(error) => {
                self.failure = Some(error);
                // The rest of the line must not be written when the buffer is dropped.
                let _ = output.into_parts();
            }
        }
    }
}

fn is_none_left_out(count: &usize) -> bool {
    *count == 0
}

/// As `2026-11-21T12:40:00.123Z`; empty for a time outside the calendar.
fn rfc3339(unix_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms).map_or_else(
        |_| String::new(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::sampler::fixtures::{SharedBuffer, socket};
    use crate::sockets::TcpState;

    const SAMPLE_TIME: SampleTime = SampleTime {
        unix_ms: 1_795_265_400_007,
        at_ms: 1_500,
    };

    fn sockets(count: u64) -> Vec<Socket> {
        (0..count)
            .map(|cookie| socket(cookie, TcpState::Established, None))
            .collect()
    }

    #[test]
    fn each_sample_is_a_line_with_its_time() {
        let page = SharedBuffer::default();
        let mut lines = SampleWriter::new(Some(Box::new(page.clone())));
        lines.sample(SAMPLE_TIME, &sockets(2));
        lines.closed(SAMPLE_TIME, &[]);
        lines.closed(SAMPLE_TIME, &sockets(1));
        lines.sample(SAMPLE_TIME, &[]);
        let written = page.lines();
        assert_eq!(written.len(), 3);
        for line in &written {
            assert_eq!(line["time"], "2026-11-21T12:50:00.007Z");
            assert_eq!(line["at_ms"], 1_500);
            assert_eq!(line.as_object().map(serde_json::Map::len), Some(3));
        }
        assert_eq!(written[0]["sockets"].as_array().map(Vec::len), Some(2));
        assert_eq!(written[0]["sockets"][1]["cookie"], 1);
        assert_eq!(written[1]["closed"].as_array().map(Vec::len), Some(1));
        assert_eq!(written[2]["sockets"], Value::Array(Vec::new()));
    }

    #[test]
    fn the_number_of_closed_sockets_written_per_interval_is_limited() {
        let page = SharedBuffer::default();
        let mut lines = SampleWriter::new(Some(Box::new(page.clone())));
        let count = |line: &Value| {
            let closed = line["closed"].as_array().map(Vec::len);
            (closed, line["closed_left_out"].as_u64())
        };
        let many = sockets(CLOSED_MAX as u64 - 1);
        lines.closed(SAMPLE_TIME, &many);
        lines.closed(SAMPLE_TIME, &many);
        lines.closed(SAMPLE_TIME, &many);
        lines.sample(SAMPLE_TIME, &[]);
        lines.closed(SAMPLE_TIME, &many);
        let written = page.lines();
        assert_eq!(count(&written[0]), (Some(999), None));
        assert_eq!(count(&written[1]), (Some(1), Some(998)));
        assert_eq!(count(&written[2]), (Some(0), Some(999)));
        assert_eq!(count(&written[4]), (Some(999), None));
    }

    #[test]
    fn after_an_error_nothing_more_is_written() {
        struct Full(SharedBuffer);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes)?;
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let page = SharedBuffer::default();
        let mut lines = SampleWriter::new(Some(Box::new(Full(page.clone()))));
        assert!(lines.failure().is_none());
        lines.sample(SAMPLE_TIME, &[]);
        let failure = lines.failure().map(io::Error::kind);
        assert_eq!(failure, Some(io::ErrorKind::StorageFull));
        let length = page.bytes().len();
        lines.sample(SAMPLE_TIME, &[]);
        drop(lines);
        assert_eq!(page.bytes().len(), length);
    }

    #[test]
    fn without_an_output_nothing_happens() {
        let mut lines = SampleWriter::new(None);
        lines.sample(SAMPLE_TIME, &sockets(1));
        lines.closed(SAMPLE_TIME, &sockets(1));
        assert!(lines.failure().is_none());
    }

    #[test]
    fn a_time_outside_of_the_calendar_is_empty() {
        assert_eq!(rfc3339(i64::MAX), "");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
    }
}
