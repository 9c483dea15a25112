//! What is counted and timed for the requests with one name.

mod view;

use serde::{Deserialize, Serialize};

use super::{PartField, PartSection, PartTable, PartView, SectionPosition};
use crate::counters::is_zero;
use crate::invariants;
use crate::{
    Contradiction, Counters, ErrorKind, Errors, Histogram, Recording, RunResult, Statuses,
};

/// The requests with one name: those of a file can have names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NameRecording {
    /// The name in the request file; of an address, the address with its port.
    pub name: String,
    /// Of an address: connections established.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connections_opened: u64,
    /// Requests whose sending started within the window; with a rate, those that were due within it
    /// and were sent. Each of them is in `answered`, in [`crate::ErrorCount::exchanges`] of one
    /// kind, or in `in_flight`.
    pub sent: u64,
    /// Those of `sent` with a complete response.
    pub answered: u64,
    /// Responses within the window to requests of the warm-up, as in
    /// [`Counters::answered_of_warmup`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answered_of_warmup: u64,
    /// Those of `answered` that were complete after the window, as in
    /// [`Counters::answered_in_drain`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answered_in_drain: u64,
    /// Bytes of responses that arrived within the window.
    pub bytes: u64,
    /// Requests sent and not yet answered at the end, as in [`Counters::in_flight`].
    pub in_flight: u64,
    /// Responses by status code; their sum is `answered`.
    pub statuses: Statuses,
    /// Errors that ended these requests, by kind. An error that ended requests with several names
    /// is an event of each.
    pub errors: Errors,
    /// One sample per response, nanoseconds: with a rate the response time, otherwise the service
    /// time.
    pub latency: Histogram,
    /// Age of requests without a response, nanoseconds: those that timed out and, with a rate,
    /// those in flight at the end. Lower bounds of their latency.
    pub unanswered: Histogram,
}

impl NameRecording {
    /// The recording of a name under which nothing has been sent yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Adds the recording of another worker or machine.
    fn merge(&mut self, other: &Self) {
        let Self {
            name: _,
            connections_opened,
            sent,
            answered,
            answered_of_warmup,
            answered_in_drain,
            bytes,
            in_flight,
            statuses,
            errors,
            latency,
            unanswered,
        } = other;
        self.connections_opened = self.connections_opened.saturating_add(*connections_opened);
        self.sent = self.sent.saturating_add(*sent);
        self.answered = self.answered.saturating_add(*answered);
        self.answered_of_warmup = self.answered_of_warmup.saturating_add(*answered_of_warmup);
        self.answered_in_drain = self.answered_in_drain.saturating_add(*answered_in_drain);
        self.bytes = self.bytes.saturating_add(*bytes);
        self.in_flight = self.in_flight.saturating_add(*in_flight);
        self.statuses.merge(statuses);
        self.errors.merge(errors);
        self.latency.merge(latency);
        self.unanswered.merge(unanswered);
    }

    /// Responses that were complete within the window: what the rate counts.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.answered
            .saturating_sub(self.answered_in_drain)
            .saturating_add(self.answered_of_warmup)
    }

    /// Measured latencies and lower bounds together, as reports show them.
    #[must_use]
    pub fn latency_with_bounds(&self) -> Histogram {
        let mut latency = self.latency.clone();
        latency.merge(&self.unanswered);
        latency
    }

    /// The recording as if these requests had been the only ones. What is not known by name is
    /// empty.
    fn as_recording(&self, is_open: bool) -> Recording {
        let mut recording = Recording {
            counters: Counters {
                sent: self.sent,
                answered: self.answered,
                answered_of_warmup: self.answered_of_warmup,
                answered_in_drain: self.answered_in_drain,
                bytes: self.bytes,
                in_flight: self.in_flight,
                ..Counters::default()
            },
            statuses: self.statuses.clone(),
            errors: self.errors.clone(),
            ..Recording::default()
        };
        if is_open {
            // Which requests would have been next is not known, so none of a name is unsent.
            recording.counters.due = self.sent;
            recording.response_time = self.latency.clone();
            recording.unanswered = self.unanswered.clone();
        } else {
            recording.service_time = self.latency.clone();
            recording.timed_out = self.unanswered.clone();
        }
        recording
    }
}

impl PartField for Vec<NameRecording> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn merge(&mut self, other: &Self) {
        for (at, other) in other.iter().enumerate() {
            // Workers have the same names in the same order.
            let is_same = self.get(at).is_some_and(|known| known.name == other.name);
            let found = if is_same {
                Some(at)
            } else {
                self.iter().position(|known| known.name == other.name)
            };
            match found {
                Some(at) => self[at].merge(other),
                None => self.push(other.clone()),
            }
        }
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        let names = self.iter_mut();
        names
            .flat_map(|of| [&mut of.latency, &mut of.unanswered])
            .collect()
    }

    fn so_far(&self) -> Self {
        Self::new()
    }

    fn since(&self, _earlier: &Self) -> Self {
        Self::new()
    }
}

impl RunResult {
    /// The names of requests; empty if they have none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.recording.parts.by_name.iter();
        named.map(|recording| recording.name.as_str())
    }

    /// The result as if the requests with this name had been the only ones. `None` if no request
    /// has it.
    #[must_use]
    pub fn of_name(&self, name: &str) -> Option<Self> {
        let named = self.recording.parts.by_name.iter();
        let recording = named.into_iter().find(|recording| recording.name == name)?;
        Some(Self {
            schema_version: self.schema_version,
            environment: self.environment.clone(),
            backend: self.backend.clone(),
            recording: recording.as_recording(self.plan.pacing.is_open()),
            generator: self.generator.clone(),
            ..Self::new(self.plan.clone(), self.window)
        })
    }
}

pub(super) static VIEW_BY_NAME: PartView = PartView {
    check: |result| check(result, &result.recording.parts.by_name),
    text: |result| view::text_of_run(view::by_name, result),
    is_text_of_names: true,
    section: Some(PartSection::of_tables(
        ("names", "Requests by name"),
        "The requests came from a file, and each has a name. Latency is counted as in the rest of \
         this page.",
        SectionPosition::Names,
        &[PartTable::OfGroups(view::by_name)],
    )),
    ..PartView::NONE
};

pub(super) static VIEW_BY_ADDRESS: PartView = PartView {
    check: |result| check(result, &result.recording.parts.by_address),
    text: |result| view::text_of_run(view::by_address, result),
    section: Some(PartSection::of_tables(
        ("addresses", "Requests by address"),
        "The connections went to several addresses, or their addresses could change. Latency is \
         counted as in the rest of this page.",
        SectionPosition::Addresses,
        &[PartTable::OfGroups(view::by_address)],
    )),
    ..PartView::NONE
};

/// Checks that the requests of all names, or to all addresses, together are those of the run, and
/// that those of each are counted once.
fn check(result: &RunResult, names: &[NameRecording]) -> Result<(), Contradiction> {
    if names.is_empty() {
        return Ok(());
    }
    for named in names {
        check_one(named, result.plan.pacing.is_open())?;
    }
    check_sums(names, &result.recording)
}

fn check_one(named: &NameRecording, is_open: bool) -> Result<(), Contradiction> {
    let name = &named.name;
    let [answered, in_flight] = [named.answered, named.in_flight].map(u128::from);
    let found = answered + u128::from(named.errors.exchanges()) + in_flight;
    equal(
        name,
        "sent",
        u128::from(named.sent),
        "answered + failed + in flight",
        found,
    )?;
    let statuses = u128::from(named.statuses.total());
    equal(name, "answered", answered, "responses by status", statuses)?;
    let samples = u128::from(named.latency.count());
    equal(name, "answered", answered, "latency samples", samples)?;
    let timeouts = u128::from(named.errors.count(ErrorKind::Timeout).exchanges);
    let waiting = if is_open { in_flight } else { 0 };
    equal(
        name,
        "unanswered samples",
        u128::from(named.unanswered.count()),
        "timed out + in flight",
        timeouts + waiting,
    )
}

fn check_sums(names: &[NameRecording], recording: &Recording) -> Result<(), Contradiction> {
    let counters = &recording.counters;
    let sum = |count: fn(&NameRecording) -> u64| -> u128 {
        names.iter().map(|named| u128::from(count(named))).sum()
    };
    for (what, total, of_names) in [
        ("sent", counters.sent, sum(|named| named.sent)),
        ("answered", counters.answered, sum(|named| named.answered)),
        (
            "answered of the warm-up",
            counters.answered_of_warmup,
            sum(|named| named.answered_of_warmup),
        ),
        (
            "answered in the drain",
            counters.answered_in_drain,
            sum(|named| named.answered_in_drain),
        ),
        ("bytes", counters.bytes, sum(|named| named.bytes)),
        (
            "in flight",
            counters.in_flight,
            sum(|named| named.in_flight),
        ),
        (
            "failed",
            recording.errors.exchanges(),
            sum(|named| named.errors.exchanges()),
        ),
    ] {
        equal(
            "all names",
            what,
            of_names,
            "that of the run",
            u128::from(total),
        )?;
    }
    Ok(())
}

fn equal(
    name: &str,
    left_name: &str,
    left: u128,
    right_name: &str,
    right: u128,
) -> Result<(), Contradiction> {
    invariants::equal(left_name, left, right_name, right).map_err(|error| error.within(name))
}
