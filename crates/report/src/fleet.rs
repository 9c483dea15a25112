//! The places and agents of a run by a fleet, a row each, below the text of the whole.

use std::io::{self, Write};

use judging::sentences::verdict_word;
use plan::readable::{count, counted, time_ns};
use plan::units;
use results::{AgentOutcome, AgentResult, LostShare, PlaceResult, RunResult, Verdict};

/// The text shows at most this many agents: lost and saturated ones first.
const AGENTS_SHOWN_MAX: usize = 32;

/// A place or an agent.
pub(crate) struct Part<'a> {
    pub(crate) name: &'a str,
    /// Where an agent is; for a place, how many agents it has.
    pub(crate) about: String,
    pub(crate) result: Option<&'a RunResult>,
    /// The lost share, if the part is an agent that was lost.
    pub(crate) lost: Option<&'a LostShare>,
    /// The result lacks something of the planned load.
    is_partial: bool,
}

/// The places of a fleet; none of a single machine.
pub(crate) fn places(result: &RunResult) -> Vec<Part<'_>> {
    result.places.iter().map(of_place).collect()
}

fn of_place(place: &PlaceResult) -> Part<'_> {
    Part {
        name: &place.place,
        about: counted(place.agents.len() as u64, "agent"),
        result: place.result.as_deref(),
        lost: None,
        is_partial: place.result.as_deref().is_some_and(is_partial),
    }
}

/// The agents of a fleet; none of a single machine.
pub(crate) fn agents(result: &RunResult) -> Vec<Part<'_>> {
    result.agents.iter().map(of_agent).collect()
}

fn of_agent(agent: &AgentResult) -> Part<'_> {
    Part {
        name: &agent.id,
        about: agent.place.clone(),
        result: agent.result(),
        lost: match &agent.outcome {
            AgentOutcome::Lost(share) => Some(share),
            AgentOutcome::Delivered(_) => None,
        },
        is_partial: agent.early.is_some(),
    }
}

fn is_partial(result: &RunResult) -> bool {
    result.warnings.iter().any(|it| it.data.is_partial())
}

impl Part<'_> {
    /// Whether the load generator of this part was saturated, or what became of it.
    pub(crate) fn verdict(&self) -> String {
        match (self.result, self.lost) {
            (Some(result), _) => {
                let verdict = verdict_word(&result.generator.verdict);
                match self.is_partial {
                    true => format!("{verdict}, partial"),
                    false => verdict.to_owned(),
                }
            }
            (None, Some(share)) => {
                let after = time_ns(share.after_ms.saturating_mul(1_000_000));
                match share.sent {
                    0 => format!("lost after {after}, before it reported any request"),
                    sent => format!(
                        "lost after {after}; it had sent at least {}, which are not counted",
                        counted(sent, "request")
                    ),
                }
            }
            (None, None) => "no result".to_owned(),
        }
    }

    /// The order in which agents are shown: lost ones first, then saturated ones, then disturbed
    /// ones.
    fn urgency(&self) -> u8 {
        match self.result {
            None => 0,
            Some(result) => match result.generator.verdict {
                Verdict::Saturated { .. } => 1,
                Verdict::Disturbed { .. } => 2,
                Verdict::Undisturbed | Verdict::Unknown => 3,
            },
        }
    }

    fn cells(&self) -> [String; 7] {
        let unknown = || "-".to_owned();
        let [rate, p50, p99, errors] = match self.result {
            None => [unknown(), unknown(), unknown(), unknown()],
            Some(result) => {
                let latency = result.recording.latency();
                let percentile = |percent| match latency.is_empty() {
                    true => unknown(),
                    false => units::time_us(latency.value_at_percentile(percent) as f64 / 1e3),
                };
                [
                    format!("{:.2}", result.requests_per_sec()),
                    percentile(50.0),
                    percentile(99.0),
                    count(result.recording.errors.failures()),
                ]
            }
        };
        let name = self.name.replace(char::is_control, " ");
        let about = self.about.replace(char::is_control, " ");
        [name, about, rate, p50, p99, errors, self.verdict()]
    }
}

/// Writes a row for each place and each agent after an empty line; nothing for a single machine.
pub(crate) fn write(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    if result.agents.is_empty() {
        return Ok(());
    }
    let agents = agents(result);
    let mut shown: Vec<&Part<'_>> = agents.iter().collect();
    if shown.len() > AGENTS_SHOWN_MAX {
        shown.sort_by_key(|part| part.urgency());
        shown.truncate(AGENTS_SHOWN_MAX);
    }
    write_table(
        "Place",
        "",
        &places(result).iter().collect::<Vec<_>>(),
        output,
    )?;
    write_table("Agent", "Place", &shown, output)?;
    match agents.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(output, "  and {} more", counted(more as u64, "agent")),
    }
}

fn write_table(
    name: &str,
    about: &str,
    parts: &[&Part<'_>],
    output: &mut dyn Write,
) -> io::Result<()> {
    let heading = [
        name,
        about,
        "Requests/sec",
        "p50",
        "p99",
        "Errors",
        "Load generator",
    ];
    let rows: Vec<[String; 7]> = std::iter::once(heading.map(str::to_owned))
        .chain(parts.iter().map(|part| part.cells()))
        .collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    writeln!(output)?;
    for row in &rows {
        let [name, about, rate, p50, p99, errors, verdict] = row;
        let [
            name_width,
            about_width,
            rate_width,
            p50_width,
            p99_width,
            errors_width,
            _,
        ] = widths;
        writeln!(
            output,
            "  {name:name_width$}  {about:about_width$}  {rate:>rate_width$}  {p50:>p50_width$}  \
             {p99:>p99_width$}  {errors:>errors_width$}  {verdict}"
        )?;
    }
    Ok(())
}
