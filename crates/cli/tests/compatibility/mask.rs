//! Masks the numbers of a report and keeps its columns, so that reports can be compared.
//!
//! A report has two kinds of numbers. In a **cell** (the statistics, the distribution, the rates)
//! the number is right-aligned in a column, followed by one or two spaces where its unit has fewer
//! letters than the longest; the end of the cell and the number of decimals must agree. In a
//! **sentence** (`1234 requests in 1.00s, 5.70MB read`) the number has no fixed width; the words,
//! the number of decimals and the presence of a unit must agree.

/// The report with its numbers masked.
pub(crate) fn masked(report: &str) -> String {
    report
        .lines()
        .map(|line| masked_line(line) + "\n")
        .collect()
}

fn masked_line(line: &str) -> String {
    let cells_begin = match line {
        _ if line.starts_with("    Latency   ") || line.starts_with("    Req/Sec   ") => 14,
        _ if line.starts_with("Requests/sec:") || line.starts_with("Transfer/sec:") => 13,
        // `     50%   27.00us`: the percentage is text, the value after it a cell.
        _ if line.starts_with("   ") && line.get(7..8) == Some("%") => 8,
        _ => return masked_sentence(line),
    };
    let (label, cells) = line.split_at(cells_begin);
    format!("{label}{}", masked_cells(cells))
}

/// Every cell as spaces, its decimals as `0`, and `|` where it ends.
fn masked_cells(cells: &str) -> String {
    let mut masked = String::new();
    let mut rest = cells;
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let value = &rest[blanks..];
        let number_length = number_length(value);
        if number_length == 0 {
            // Not a number: kept, so that the comparison shows it.
            masked.push_str(rest);
            break;
        }
        let letters = value[number_length..]
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let padding = pad_after(&value[number_length..], letters);
        let decimals = decimals(&value[..number_length]);
        let end = number_length + letters + padding;
        masked.push_str(&" ".repeat((blanks + end).saturating_sub(decimals + 1)));
        masked.push_str(&"0".repeat(decimals));
        masked.push('|');
        rest = &value[end..];
        if let Some(after) = rest.strip_prefix('%') {
            masked.push('%');
            rest = after;
        }
    }
    masked
}

/// The spaces that belong to the cell: a unit takes two columns. A percentage and a value at the
/// end of a line have none.
fn pad_after(after_number: &str, letters: usize) -> usize {
    let after_unit = &after_number[letters..];
    let wanted = 2_usize.saturating_sub(letters);
    let there = after_unit.len() - after_unit.trim_start_matches(' ').len();
    if after_unit.starts_with('%') {
        0
    } else {
        wanted.min(there)
    }
}

/// Every number as `N`, with its decimals as `0` and a unit as `u`.
fn masked_sentence(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
        masked.push_str(&rest[..begin]);
        let number = &rest[begin..];
        let length = number_length(number);
        masked.push('N');
        if decimals(&number[..length]) > 0 {
            masked.push('.');
            masked.push_str(&"0".repeat(decimals(&number[..length])));
        }
        rest = &number[length..];
        // `5.70MB`, `586.11KB`, `0.00B`: the prefix depends on the size, the B is text.
        let unit = rest
            .bytes()
            .take_while(|byte| b"numskKMGTPh".contains(byte))
            .count();
        let is_bytes = rest[unit..].starts_with('B');
        if unit > 0 && !is_bytes {
            masked.push('u');
        }
        rest = &rest[unit..];
    }
    masked + rest
}

/// The length of the number at the start of a text: digits with a fraction, or `nan` as C prints
/// it.
fn number_length(text: &str) -> usize {
    if text.starts_with("-nan") {
        return 4;
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    match text[whole..].strip_prefix('.') {
        Some(fraction) if whole > 0 => whole + 1 + digits(fraction),
        _ => whole,
    }
}

fn decimals(number: &str) -> usize {
    number
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len())
}

#[test]
fn cells_of_a_column_are_masked_alike_whatever_their_unit() {
    let forms = [
        "    Latency   510.87us    1.39ms  16.23ms   90.71%",
        "    Latency     1.00s    12.00us   0.85m     0.00%",
    ];
    assert_eq!(masked_line(forms[0]), masked_line(forms[1]));
    assert_eq!(
        masked_line(forms[0]),
        "    Latency        00|       00|      00|     00|%"
    );
}

#[test]
fn a_shifted_column_a_missing_decimal_and_another_word_are_found() {
    let right = "    Req/Sec    20.56k    13.72k   55.83k    75.00%";
    for wrong in [
        "    Req/Sec     20.56k    13.72k   55.83k    75.00%",
        "    Req/Sec    20.56k    13.72k   55.83k   75.00%",
        "    Req/Sec    20.56k    13.7k   55.83k    75.00%",
        "    Req/Sec    20.56k    13.72k   55.83k    75.00",
    ] {
        assert_ne!(masked_line(right), masked_line(wrong), "{wrong}");
    }
    let right = "  40933 requests in 1.01s, 5.70MB read";
    for same in [
        "  0 requests in 999.00ms, 0.00B read",
        "  1 requests in 0.85m, 870.00B read",
        "  4093 requests in 1.01s, 586.11KB read",
    ] {
        assert_eq!(masked_line(right), masked_line(same));
    }
    for wrong in [
        "  40933 requests in 1.01, 5.70MB read",
        "  40933 requests in 1.01s, 5.7MB read",
        "  40933 requests in 1.01s, 5.70M read",
        " 40933 requests in 1.01s, 5.70MB read",
    ] {
        assert_ne!(masked_line(right), masked_line(wrong), "{wrong}");
    }
}
