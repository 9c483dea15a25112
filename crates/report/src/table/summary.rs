//! Each target's rounds side by side: `x86_64: Latency 573.06ms, 582.82ms  Requests/sec: 534.55,
//! 534.29`.

use std::io::{self, Write};

use analysis::table::{Group, GroupLine};
use plan::{printable, units};

/// Writes a group for each profile with a line for each target; a section's heading comes before
/// its groups.
pub(super) fn render(groups: &[Group], output: &mut dyn Write) -> io::Result<()> {
    let mut section = None;
    for (at, group) in groups.iter().enumerate() {
        if at > 0 {
            output.write_all(b"\n")?;
        }
        if group.section != section {
            section.clone_from(&group.section);
            if let Some(section) = &section {
                writeln!(output, "{}:\n", printable(section))?;
            }
        }
        if !group.title.is_empty() {
            writeln!(output, "{}:", printable(&group.title))?;
        }
        for line in &group.lines {
            write_line(line, output)?;
        }
    }
    Ok(())
}

fn write_line(line: &GroupLine, output: &mut dyn Write) -> io::Result<()> {
    let list = |values: &[Option<f64>], show: fn(f64) -> String| -> String {
        let shown = values
            .iter()
            .map(|value| value.map_or_else(|| "-".to_owned(), show));
        shown.collect::<Vec<_>>().join(", ")
    };
    if !line.target.is_empty() {
        write!(output, "{}: ", printable(&line.target))?;
    }
    if !line.requests_per_sec.is_empty() {
        let latencies = list(&line.latencies_us, units::time_us);
        let rates = list(&line.requests_per_sec, |rate| format!("{rate:.2}"));
        write!(output, "Latency {latencies}  Requests/sec: {rates}")?;
    }
    let gap = if line.requests_per_sec.is_empty() {
        ""
    } else {
        "  "
    };
    match line.failed {
        0 => writeln!(output),
        1 => writeln!(output, "{gap}1 run failed"),
        failed => writeln!(output, "{gap}{failed} runs failed"),
    }
}
