//! Formats records as lines.
//!
//! A run makes up to some hundred thousand records per second, so numbers and times are written by
//! hand: a record takes a few hundred nanoseconds.

use super::{Column, Layout, RecordForm, RequestRecord};

const NS_PER_SEC: u64 = 1_000_000_000;
const SECS_PER_DAY: u64 = 86_400;

/// The same moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The wall clock, nanoseconds since 1970.
    pub unix_ns: u64,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
}

impl Clock {
    /// The wall clock at another time of the monotonic clock, if nobody sets it in between.
    fn unix_ns_at(self, monotonic_ns: u64) -> u64 {
        let base_ns = self.unix_ns.saturating_sub(self.monotonic_ns);
        base_ns.saturating_add(monotonic_ns)
    }
}

/// Turns records into lines of one form.
#[derive(Debug)]
pub struct Formatter {
    form: RecordForm,
    columns: Vec<Column>,
    /// What is before each value: the name of a column in JSON, a comma in CSV.
    before: Vec<Box<[u8]>>,
    /// The names of requests as they are written.
    names: Vec<Box<[u8]>>,
    clock: Clock,
    /// The second of the last wall-clock time, and its text.
    second: (u64, [u8; 20]),
}

/// The values of a record that are the same for all records of a batch.
#[derive(Debug, Clone, Copy)]
struct Batch {
    thread: u32,
    measure_ns: u64,
}

impl Formatter {
    /// `clock` is for wall-clock times.
    #[must_use]
    pub fn new(form: RecordForm, layout: &Layout, clock: Clock) -> Self {
        let columns: Vec<Column> = layout.columns().collect();
        let before = columns.iter().enumerate().map(|(index, column)| {
            let text = match (form, index) {
                (RecordForm::JsonLines, 0) => format!("{{\"{}\":", column.name()),
                (RecordForm::JsonLines, _) => format!(",\"{}\":", column.name()),
                (RecordForm::Csv, 0) => String::new(),
                (RecordForm::Csv, _) => ",".to_owned(),
            };
            text.into_bytes().into()
        });
        let names = layout.names.iter().map(|name| match form {
            RecordForm::JsonLines => serde_json::Value::from(name.as_str()).to_string(),
            RecordForm::Csv => quoted(name),
        });
        Self {
            before: before.collect(),
            names: names.map(|name| name.into_bytes().into()).collect(),
            form,
            columns,
            clock,
            second: (0, date_and_time(0)),
        }
    }

    /// Appends what is before the first record.
    pub fn header(&self, output: &mut Vec<u8>) {
        if self.form == RecordForm::Csv {
            let names: Vec<&str> = self.columns.iter().map(|it| it.name()).collect();
            output.extend_from_slice(names.join(",").as_bytes());
            output.push(b'\n');
        }
    }

    /// Appends a record of this thread as a line. The window began at `measure_ns`
    /// (CLOCK_MONOTONIC).
    pub fn line(
        &mut self,
        record: &RequestRecord,
        (thread, measure_ns): (u32, u64),
        output: &mut Vec<u8>,
    ) {
        let batch = Batch { thread, measure_ns };
        for index in 0..self.columns.len() {
            output.extend_from_slice(&self.before[index]);
            self.value(self.columns[index], record, batch, output);
        }
        if self.form == RecordForm::JsonLines {
            output.push(b'}');
        }
        output.push(b'\n');
    }

    fn value(
        &mut self,
        column: Column,
        record: &RequestRecord,
        batch: Batch,
        output: &mut Vec<u8>,
    ) {
        let since_ns = |ns: u64| (ns > 0).then(|| ns.saturating_sub(batch.measure_ns));
        let known = |number: u64, unknown: u64| (number != unknown).then_some(number);
        match column {
            Column::DueTime => self.time(record.due_ns, output),
            Column::Due => self.us(since_ns(record.due_ns), output),
            Column::Sent => self.us(since_ns(record.sent_ns), output),
            Column::FirstByte => self.us(since_ns(record.first_byte_ns), output),
            Column::FirstToken => self.us(since_ns(record.first_token_ns), output),
            Column::Ended => self.us(since_ns(record.ended_ns), output),
            Column::Own => self.us(Some(record.own_ns), output),
            Column::Status => self.number(known(record.status.into(), 0), output),
            Column::Error => match record.without_response {
                Some(reason) => self.plain_text(reason.name(), output),
                None => self.nothing(output),
            },
            Column::Bytes => self.number(known(record.bytes, RequestRecord::UNKNOWN), output),
            Column::TokensIn => self.number(known(record.tokens_in.into(), 0), output),
            Column::TokensOut => self.number(known(record.tokens_out.into(), 0), output),
            Column::Conversation => {
                let number = (record.turn > 0).then_some(record.conversation.into());
                self.number(number, output);
            }
            Column::Turn => self.number(known(record.turn.into(), 0), output),
            Column::Name => match self.names.get(record.name as usize) {
                Some(name) => output.extend_from_slice(name),
                None => self.nothing(output),
            },
            Column::Thread => push_number(batch.thread.into(), output),
            Column::Connection => push_number(record.connection.into(), output),
            Column::TraceId if record.trace == 0 => self.nothing(output),
            Column::TraceId => self.plain_text(&format!("{:032x}", record.trace), output),
        }
    }

    /// An unknown value.
    fn nothing(&self, output: &mut Vec<u8>) {
        if self.form == RecordForm::JsonLines {
            output.extend_from_slice(b"null");
        }
    }

    /// A text without special characters.
    fn plain_text(&self, text: &str, output: &mut Vec<u8>) {
        let quote: &[u8] = match self.form {
            RecordForm::JsonLines => b"\"",
            RecordForm::Csv => b"",
        };
        output.extend_from_slice(quote);
        output.extend_from_slice(text.as_bytes());
        output.extend_from_slice(quote);
    }

    fn number(&self, number: Option<u64>, output: &mut Vec<u8>) {
        match number {
            Some(number) => push_number(number, output),
            None => self.nothing(output),
        }
    }

    /// Microseconds with three decimals.
    fn us(&self, ns: Option<u64>, output: &mut Vec<u8>) {
        match ns {
            Some(ns) => {
                push_number(ns / 1_000, output);
                output.push(b'.');
                push_digits::<3>(ns % 1_000, output);
            }
            None => self.nothing(output),
        }
    }

    /// A wall-clock time (RFC 3339).
    fn time(&mut self, monotonic_ns: u64, output: &mut Vec<u8>) {
        let unix_ns = self.clock.unix_ns_at(monotonic_ns);
        let second = unix_ns / NS_PER_SEC;
        if self.second.0 != second {
            self.second = (second, date_and_time(second));
        }
        let quote: &[u8] = match self.form {
            RecordForm::JsonLines => b"\"",
            RecordForm::Csv => b"",
        };
        output.extend_from_slice(quote);
        output.extend_from_slice(&self.second.1);
        push_digits::<6>(unix_ns % NS_PER_SEC / 1_000, output);
        output.push(b'Z');
        output.extend_from_slice(quote);
    }
}

/// `2026-11-30T18:31:47.`
fn date_and_time(unix_secs: u64) -> [u8; 20] {
    let (days, second) = (unix_secs / SECS_PER_DAY, unix_secs % SECS_PER_DAY);
    // Days to a date of the Gregorian calendar: Howard Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms", civil_from_days. A year begins in March there.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut text = Vec::with_capacity(20);
    push_digits::<4>(year.min(9_999), &mut text);
    for (mark, value) in [
        (b'-', month),
        (b'-', day),
        (b'T', second / 3_600),
        (b':', second / 60 % 60),
        (b':', second % 60),
    ] {
        text.push(mark);
        push_digits::<2>(value, &mut text);
    }
    text.push(b'.');
    let mut all = [0; 20];
    all.copy_from_slice(&text);
    all
}

/// A number with this many digits, the first of which may be zeros.
fn push_digits<const DIGITS: usize>(mut number: u64, output: &mut Vec<u8>) {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    output.extend_from_slice(&digits);
}

fn push_number(mut number: u64, output: &mut Vec<u8>) {
    // `u64::MAX` has 20 digits.
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    output.extend_from_slice(&digits[first..]);
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::WithoutResponse;
    use super::*;
    use crate::ErrorKind;

    /// The monotonic clock shows 5 s at 2026-11-30T18:31:47.
    const CLOCK: Clock = Clock {
        unix_ns: 1_796_063_507 * NS_PER_SEC,
        monotonic_ns: 5 * NS_PER_SEC,
    };
    const WINDOW_NS: u64 = 6 * NS_PER_SEC;

    fn answered() -> RequestRecord {
        RequestRecord {
            due_ns: WINDOW_NS + 1_500,
            sent_ns: WINDOW_NS + 2_007,
            first_byte_ns: WINDOW_NS + 1_000_000,
            first_token_ns: 0,
            ended_ns: WINDOW_NS + 1_000_001,
            own_ns: 507,
            bytes: 138,
            trace: 0,
            tokens_in: 0,
            tokens_out: 0,
            conversation: 0,
            turn: 0,
            name: 0,
            connection: 7,
            status: 200,
            without_response: None,
        }
    }

    fn in_flight() -> RequestRecord {
        RequestRecord {
            first_byte_ns: 0,
            bytes: RequestRecord::UNKNOWN,
            status: 0,
            without_response: Some(WithoutResponse::InFlight),
            ..answered()
        }
    }

    fn text(form: RecordForm, layout: &Layout, records: &[RequestRecord]) -> String {
        let mut formatter = Formatter::new(form, layout, CLOCK);
        let mut output = Vec::new();
        formatter.header(&mut output);
        for record in records {
            formatter.line(record, (1, WINDOW_NS), &mut output);
        }
        String::from_utf8(output).expect("it is text")
    }

    fn everything() -> (Layout, RequestRecord) {
        let layout = Layout {
            has_tokens: true,
            has_conversations: true,
            has_traces: true,
            names: vec!["plain".to_owned(), "a \"b\", c".to_owned()],
        };
        let record = RequestRecord {
            first_token_ns: WINDOW_NS + 999_000,
            tokens_in: 50,
            tokens_out: 20,
            conversation: 4,
            turn: 2,
            name: 1,
            trace: 0xabc,
            ..answered()
        };
        (layout, record)
    }

    #[test]
    fn json_lines_have_the_same_keys_in_each_line() {
        let lines = text(
            RecordForm::JsonLines,
            &Layout::default(),
            &[answered(), in_flight()],
        );
        assert_eq!(
            lines,
            "{\"due_time\":\"2026-11-30T18:31:48.000001Z\",\"due_us\":1.500,\"sent_us\":2.007,\
             \"first_byte_us\":1000.000,\"ended_us\":1000.001,\"own_us\":0.507,\"status\":200,\
             \"error\":null,\"bytes\":138,\"thread\":1,\"connection\":7}\n\
             {\"due_time\":\"2026-11-30T18:31:48.000001Z\",\"due_us\":1.500,\"sent_us\":2.007,\
             \"first_byte_us\":null,\"ended_us\":1000.001,\"own_us\":0.507,\"status\":null,\
             \"error\":\"in_flight\",\"bytes\":null,\"thread\":1,\"connection\":7}\n"
        );
    }

    #[test]
    fn csv_has_a_header_and_leaves_unknown_values_empty() {
        let lines = text(
            RecordForm::Csv,
            &Layout::default(),
            &[answered(), in_flight()],
        );
        assert_eq!(
            lines,
            "due_time,due_us,sent_us,first_byte_us,ended_us,own_us,status,error,bytes,thread,\
             connection\n\
             2026-11-30T18:31:48.000001Z,1.500,2.007,1000.000,1000.001,0.507,200,,138,1,7\n\
             2026-11-30T18:31:48.000001Z,1.500,2.007,,1000.001,0.507,,in_flight,,1,7\n"
        );
    }

    #[test]
    fn tokens_names_and_traces_have_columns_if_the_run_has_them() {
        let (layout, record) = everything();
        let lines = text(RecordForm::Csv, &layout, &[record]);
        assert_eq!(
            lines,
            "due_time,due_us,sent_us,first_byte_us,first_token_us,ended_us,own_us,status,error,\
             bytes,tokens_in,tokens_out,conversation,turn,name,thread,connection,trace_id\n\
             2026-11-30T18:31:48.000001Z,1.500,2.007,1000.000,999.000,1000.001,0.507,200,,138,50,\
             20,4,2,\"a \"\"b\"\", c\",1,7,00000000000000000000000000000abc\n"
        );
        let lines = text(RecordForm::JsonLines, &layout, &[record]);
        let read: serde_json::Value = serde_json::from_str(&lines).expect("it is JSON");
        assert_eq!(read["name"], "a \"b\", c");
        assert_eq!(read["trace_id"], "00000000000000000000000000000abc");
        assert_eq!(read["first_token_us"], 999.0);
    }

    #[test]
    fn what_failed_has_the_kind_of_the_error() {
        let record = RequestRecord {
            without_response: Some(WithoutResponse::Failed(ErrorKind::Timeout)),
            ..in_flight()
        };
        let lines = text(RecordForm::Csv, &Layout::default(), &[record]);
        assert!(lines.contains(",timeout,"), "{lines}");
        for reason in [
            WithoutResponse::InFlight,
            WithoutResponse::Unsent,
            WithoutResponse::Failed(ErrorKind::Reset),
        ] {
            assert_eq!(WithoutResponse::from_name(reason.name()), Some(reason));
        }
    }

    #[test]
    fn dates_are_right_in_leap_years_and_at_the_ends_of_years() {
        for (secs, expected) in [
            (0, "1970-01-01T00:00:00."),
            (951_782_399, "2000-02-28T23:59:59."),
            (951_782_400, "2000-02-29T00:00:00."),
            (1_709_251_199, "2024-02-29T23:59:59."),
            (1_767_225_599, "2025-12-31T23:59:59."),
            (4_107_542_400, "2100-03-01T00:00:00."),
        ] {
            let text = date_and_time(secs);
            assert_eq!(std::str::from_utf8(&text), Ok(expected));
        }
    }

    #[test]
    fn numbers_have_all_of_their_digits() {
        let mut output = Vec::new();
        for number in [0, 9, 10, u64::MAX] {
            push_number(number, &mut output);
            output.push(b' ');
        }
        assert_eq!(output, b"0 9 10 18446744073709551615 ");
    }
}
