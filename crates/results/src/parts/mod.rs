//! Optional measurements, a folder for each.
//!
//! A run has counters, latencies and errors; anything else that it may measure is a *part*. The
//! folder of a part has what is recorded, and how that is merged and checked. A new part is a folder
//! and a field of [`Parts`].
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
pub mod events;
pub mod good;
pub mod llm;
pub mod log;
pub mod names;
pub mod profile;
pub mod quic;
pub mod telemetry;

use serde::{Deserialize, Serialize};

use crate::Histogram;

/// What workers record of a part.
pub(crate) trait Measurement: Default {
    /// Adds what another worker or machine has recorded.
    fn merge(&mut self, other: &Self);

    /// Its histograms.
    fn histograms_mut(&mut self) -> Vec<&mut Histogram>;
}

/// A field of [`Parts`].
trait Part {
    fn is_absent(&self) -> bool;
    fn merge(&mut self, other: &Self);
    fn histograms_mut(&mut self) -> Vec<&mut Histogram>;
}

impl<M: Measurement> Part for Option<M> {
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
}

/// Makes the struct [`Parts`] from the list of its fields.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident: $part:ty,)*) => {
        /// What workers record of the optional measurements. A field is empty, and absent from
        /// documents, if the run did not measure it.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct Parts {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Part::is_absent")]
                pub $name: $part,
            )*
        }

        impl Parts {
            /// Adds what another worker or machine has recorded.
            pub(crate) fn merge(&mut self, other: &Self) {
                $(Part::merge(&mut self.$name, &other.$name);)*
            }

            /// Packs all of its histograms ([`Histogram::pack`]).
            pub(crate) fn pack(&mut self) {
                $(Part::histograms_mut(&mut self.$name).into_iter().for_each(Histogram::pack);)*
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
    /// If requests are judged (`--good`): how many were good.
    good: Option<good::GoodRecording>,
    /// With HTTP/3: what QUIC tells about its packets.
    quic: Option<quic::QuicRecording>,
    /// With `--server-timing`, `--traceparent` or `--profile`: what the latency consists of.
    breakdown: Option<breakdown::BreakdownRecording>,
}
