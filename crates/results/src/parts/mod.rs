//! Optional measurements, a folder for each.
//!
//! A run has counters, latencies and errors; anything else that it may measure is a *part*. The
//! folder of a part has everything about it: what is recorded and how that is merged and checked
//! (`mod.rs`), its metrics, also those that other programs get during a run (`metrics.rs`), and
//! what texts and pages show of it, as data (`view.rs`). Recordings, snapshots, the registry of
//! metrics, texts and pages iterate over the parts. A new part is a folder, a field of
//! [`PartRecordings`] if workers record it, and a row of [`ALL`].
//!
//! ```
//! use results::{EventRecording, Recording};
//!
//! let mut run = Recording::new();
//! run.parts.events = Some(EventRecording { arrived: 7, ..EventRecording::default() });
//! let other_worker = run.clone();
//! run.merge(&other_worker);
//! assert_eq!(run.parts.events.map(|events| events.arrived), Some(14));
//! ```

pub mod breakdown;
mod charts;
pub mod conversations;
pub mod events;
pub mod good;
pub mod llm;
pub mod log;
pub mod names;
pub mod profile;
pub mod quic;
pub mod scrape;
pub mod server;
pub mod telemetry;

use std::time::Duration;

use presentation::{Block, TableBlock, TextBlock, Tone};
use serde::{Deserialize, Serialize};

use crate::exported::ExportedMetric;
use crate::metric::{MetricRow, TimeRow};
use crate::{Contradiction, Histogram, Recording, RunResult};

/// What workers record of a part.
trait Measurement: Default {
    /// Adds what another worker or machine has recorded.
    fn merge(&mut self, other: &Self);

    /// All histograms of the recording, which are packed before they are sent or saved.
    fn histograms_mut(&mut self) -> Vec<&mut Histogram>;

    /// What is known of it during a run, and shown then. It is copied once a second.
    fn so_far(&self) -> Option<Self> {
        None
    }

    /// The counts since `earlier`. Both are made by [`Self::so_far`].
    fn since(&self, _earlier: &Self) -> Self {
        Self::default()
    }
}

/// A field of [`PartRecordings`].
trait PartField {
    fn is_absent(&self) -> bool;
    fn merge(&mut self, other: &Self);
    fn histograms_mut(&mut self) -> Vec<&mut Histogram>;
    fn so_far(&self) -> Self;
    fn since(&self, earlier: &Self) -> Self;
}

impl<M: Measurement> PartField for Option<M> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn merge(&mut self, other: &Self) {
        if let Some(other) = other {
            self.get_or_insert_default().merge(other);
        }
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        self.iter_mut().flat_map(M::histograms_mut).collect()
    }

    fn so_far(&self) -> Self {
        self.as_ref().and_then(M::so_far)
    }

    fn since(&self, earlier: &Self) -> Self {
        let nothing = M::default();
        let earlier = earlier.as_ref().unwrap_or(&nothing);
        self.as_ref().map(|known| known.since(earlier))
    }
}

/// Makes the struct [`PartRecordings`] from the list of its fields.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident: $part:ty,)*) => {
        /// What workers record of the optional measurements. A field is empty, and absent from
        /// documents, if the run did not measure it.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct PartRecordings {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "PartField::is_absent")]
                pub $name: $part,
            )*
        }

        impl PartRecordings {
            /// Adds what another worker or machine has recorded.
            pub fn merge(&mut self, other: &Self) {
                $(PartField::merge(&mut self.$name, &other.$name);)*
            }

            /// Packs all of its histograms ([`Histogram::pack`]).
            pub fn pack(&mut self) {
                $(
                    let histograms = PartField::histograms_mut(&mut self.$name);
                    histograms.into_iter().for_each(Histogram::pack);
                )*
            }

            /// What is known of them during a run, and shown then
            /// ([`crate::snapshot::Snapshot::parts`]).
            #[must_use]
            pub fn so_far(&self) -> Self {
                Self { $($name: PartField::so_far(&self.$name),)* }
            }

            /// The counts since `earlier`. Both are made by [`Self::so_far`].
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: PartField::since(&self.$name, &earlier.$name),)* }
            }
        }
    };
}

parts! {
    /// If requests have names: what is counted and timed for each of them.
    by_name: Vec<names::NameRecording>,
    /// If connections go to several addresses, or may change theirs: what is counted and timed for
    /// each of them. `name` is the address with its port.
    by_address: Vec<names::NameRecording>,
    /// In a replay: the responses beside those of the log, if it has their statuses.
    compared_with_log: Option<log::ComparedWithLog>,
    /// If responses are split into events: what is counted and timed for these.
    events: Option<events::EventRecording>,
    /// If the events are a language model's: what is counted and timed for its tokens.
    llm: Option<llm::LlmRecording>,
    /// If requests are turns of conversations: what is counted and timed for these.
    conversations: Option<conversations::ConversationRecording>,
    /// If requests are judged (`--good`): how many were good.
    good: Option<good::GoodRecording>,
    /// With HTTP/3: what QUIC tells about its packets.
    quic: Option<quic::QuicRecording>,
    /// With `--server-timing`, `--traceparent` or `--profile`: what the latency consists of.
    breakdown: Option<breakdown::BreakdownRecording>,
    /// With `--server`: the CPU time of the server.
    server: Option<server::ServerRecording>,
    /// With `--scrape`: what the server's own metrics were.
    scraped: Option<scrape::ScrapeRecording>,
}

/// What a part adds to metrics, texts and pages. All of it is data or makes data; whatever shows
/// results renders it.
pub struct PartView {
    /// Rows of the registry: the metrics that only this part has.
    pub(crate) metrics: &'static [MetricRow],
    /// The times that it has distributions of.
    pub(crate) times: &'static [TimeRow],
    /// What other programs get of it during a run.
    pub(crate) exported: fn() -> Vec<ExportedMetric>,
    /// Checks that what it has recorded does not contradict itself or the result.
    pub(crate) check: fn(&RunResult) -> Result<(), Contradiction>,
    /// What the text of a run has below its totals; empty if there is nothing to show.
    pub text: fn(&RunResult) -> Vec<TextBlock>,
    /// Whether the text is shown only with `--by-name`.
    pub is_text_of_names: bool,
    /// Notes for stderr, a line each.
    pub notes: fn(&RunResult) -> Vec<String>,
    /// Its section of a page, if it has one of its own.
    pub section: Option<PartSection>,
}

impl PartView {
    /// A part that shows nothing.
    const NONE: Self = Self {
        metrics: &[],
        times: &[],
        exported: Vec::new,
        check: |_| Ok(()),
        text: |_| Vec::new(),
        is_text_of_names: false,
        notes: |_| Vec::new(),
        section: None,
    };
}

/// All parts, in the order of metrics, texts and notes.
pub static ALL: [&PartView; 13] = [
    &events::VIEW,
    &llm::VIEW,
    &conversations::VIEW,
    &good::VIEW,
    &breakdown::VIEW,
    &names::VIEW_BY_NAME,
    &names::VIEW_BY_ADDRESS,
    &log::VIEW,
    &quic::VIEW,
    &server::VIEW,
    &scrape::VIEW,
    &profile::VIEW,
    &telemetry::VIEW,
];

/// The section of a page that a part fills.
pub struct PartSection {
    /// Letters, digits and hyphens; unique on the page.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How to read it, one or two sentences.
    pub lead: &'static str,
    /// Between which sections of every page the section stands.
    pub position: SectionPosition,
    /// Sentences of a group of runs with their evidence. The result is that of the page's only run.
    pub findings: fn(&Recording, Option<&RunResult>) -> Option<PartFinding>,
    /// Its tables, in their order.
    pub tables: &'static [PartTable],
    /// What follows the tables on the page of a single run.
    pub details: fn(&RunResult) -> Vec<Block>,
}

impl PartSection {
    /// A section of tables, without findings.
    const fn of_tables(
        (id, title): (&'static str, &'static str),
        lead: &'static str,
        position: SectionPosition,
        tables: &'static [PartTable],
    ) -> Self {
        Self {
            id,
            title,
            lead,
            position,
            findings: |_, _| None,
            tables,
            details: |_| Vec::new(),
        }
    }
}

/// Where the section of a part stands on a page: between those that every page has. Those of one
/// position are in the order of [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionPosition {
    /// Below the latency: what it consists of.
    LatencyParts,
    /// Below these: the latency of each name.
    Names,
    /// Below these: what arrived within responses.
    Contents,
    /// Below these: the latency of each address.
    Addresses,
    /// Below the responses: what the server did.
    Server,
    /// Below the load generator: what its connections did.
    Connections,
}

/// A table of a section. It is left out if it has no rows.
pub enum PartTable {
    /// Of the merged recording of each group of runs, and of how long these were measured.
    OfGroups(fn(&Recording, Duration) -> TableBlock),
    /// A table of each run; several runs are joined to one table.
    OfRuns(fn(&RunResult) -> TableBlock),
    /// Of the only run of a page.
    OfSingleRun(fn(&RunResult) -> TableBlock),
}

/// A sentence with its evidence.
pub struct PartFinding {
    /// How serious it is.
    pub tone: Tone,
    /// The sentence, with a capital letter and a full stop where it is one.
    pub text: String,
    /// Its evidence, a line each.
    pub details: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_has_its_own_name() {
        let mut names: Vec<&str> = Vec::new();
        for section in ALL.iter().filter_map(|part| part.section.as_ref()) {
            assert!(!names.contains(&section.id), "{}", section.id);
            names.push(section.id);
        }
    }
}
