//! What is counted and timed for the events of streaming responses.

mod metrics;
mod view;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartSection, PartTable, PartView, SectionPosition};
use crate::counters::is_zero;
use crate::parts::llm;
use crate::{Contradiction, ErrorKind, Histogram, RunResult};

/// The events of streaming responses, which are those with a status of 2xx. Only requests of the
/// window count, as in the rest of the result, except where a field says otherwise: a stream that
/// began in the warm-up may last for the whole window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventRecording {
    /// Events that arrived within the window, also those of requests of the warm-up and of
    /// responses that are not complete.
    pub arrived: u64,
    /// Complete responses with a status of 2xx.
    pub streams: u64,
    /// Those of `streams` that ended without the end marker; 0 if there is no marker.
    /// [`Self::cut_off`] says whether they count.
    pub unfinished: u64,
    /// Whether a missing end marker is a fault: the marker was given (`--events-end`), or a
    /// complete response of the run had it, also one to a request of the warm-up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_end_marker: bool,
    /// Those of `streams` without a single event.
    pub empty: u64,
    /// Those of `streams` whose body was compressed, so that its events were not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compressed: u64,
    /// Until the first event of a response arrived, nanoseconds: with a rate from when the request
    /// was due, otherwise from when it was sent. One sample per response with an event.
    pub first_event: Histogram,
    /// Age of requests that ended in a timeout before their first event, nanoseconds, and with a
    /// rate of those that were unsent or in flight without an event at the end: lower bounds of
    /// `first_event`.
    pub waiting: Histogram,
    /// Between an event and the next one of the same response, nanoseconds. 0 if both arrived in
    /// one read. All that ended within the window, also those of requests of the warm-up.
    pub gap: Histogram,
    /// How long ago the last event of a stream had come, nanoseconds, at the end or when its
    /// request was given up at the timeout: how long the stream had been silent. One sample per
    /// response that was then incomplete and had an event, also those to requests of the warm-up.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub since_last_event: Histogram,
    /// Events of each complete response, as a number and not as a time.
    pub per_response: Histogram,
}

impl EventRecording {
    /// Streams that were cut off: they ended without the end marker. If the default marker is in no
    /// stream of the run, the server does not use it, and 0 were.
    #[must_use]
    pub fn cut_off(&self) -> u64 {
        let is_used = self.has_end_marker || self.unfinished < self.streams;
        if is_used { self.unfinished } else { 0 }
    }

    /// Measured times to the first event and lower bounds together, as reports show them.
    #[must_use]
    pub fn first_event_with_bounds(&self) -> Histogram {
        let mut all = self.first_event.clone();
        all.merge(&self.waiting);
        all
    }

    /// Events per complete response; `None` without one.
    #[must_use]
    pub fn per_response_mean(&self) -> Option<f64> {
        (!self.per_response.is_empty()).then(|| self.per_response.mean_ns())
    }
}

impl Measurement for EventRecording {
    fn merge(&mut self, other: &Self) {
        let Self {
            arrived,
            streams,
            unfinished,
            has_end_marker,
            empty,
            compressed,
            first_event,
            waiting,
            gap,
            since_last_event,
            per_response,
        } = other;
        self.arrived = self.arrived.saturating_add(*arrived);
        self.streams = self.streams.saturating_add(*streams);
        self.unfinished = self.unfinished.saturating_add(*unfinished);
        self.has_end_marker |= has_end_marker;
        self.empty = self.empty.saturating_add(*empty);
        self.compressed = self.compressed.saturating_add(*compressed);
        self.first_event.merge(first_event);
        self.waiting.merge(waiting);
        self.gap.merge(gap);
        self.since_last_event.merge(since_last_event);
        self.per_response.merge(per_response);
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        vec![
            &mut self.first_event,
            &mut self.waiting,
            &mut self.gap,
            &mut self.since_last_event,
            &mut self.per_response,
        ]
    }
}

pub(super) static VIEW: PartView = PartView {
    metrics: &metrics::METRICS,
    times: &metrics::TIMES,
    check,
    text: view::text_of_run,
    section: Some(PartSection {
        details: llm::view::first_token_over_time,
        ..PartSection::of_tables(
            ("events", "Events"),
            "The responses are streams of events. The time to the first event or token is counted \
             from the same moment as latency. What arrived together has gaps of 0.",
            SectionPosition::Contents,
            &[
                PartTable::OfGroups(llm::view::times),
                PartTable::OfGroups(llm::view::numbers),
                PartTable::OfGroups(llm::view::first_error),
                PartTable::OfGroups(view::times),
                PartTable::OfGroups(view::numbers),
            ],
        )
    }),
    ..PartView::NONE
};

/// Checks that counts and samples of events agree.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let recording = &result.recording;
    let Some(events) = &recording.parts.events else {
        return Ok(());
    };
    let counters = &recording.counters;
    let first = events.first_event.count();
    let timed = first.saturating_add(events.gap.count());
    let timed_out = recording.errors.count(ErrorKind::Timeout).exchanges;
    let without_response = if result.plan.pacing.is_open() {
        counters.in_flight.saturating_add(counters.unsent)
    } else {
        0
    };
    // The first events of responses that were read after the window did not arrive in it.
    let arrived = match result.window.drained_ns {
        None => events.arrived,
        Some(_) => events.arrived.saturating_add(first),
    };
    let waiting_max = timed_out.saturating_add(without_response);
    // A stream with an error within it is complete, but its request has failed.
    let with_error = recording.errors.count(ErrorKind::StreamError).exchanges;
    let ended = counters.answered.saturating_add(with_error);
    let at_most = [
        ("streams", events.streams, "answered + with an error", ended),
        ("unfinished", events.unfinished, "streams", events.streams),
        ("empty", events.empty, "streams", events.streams),
        ("first_event samples", first, "sent", counters.sent),
        ("timed events", timed, "arrived", arrived),
        (
            "waiting samples",
            events.waiting.count(),
            "timed out + in flight + unsent",
            waiting_max,
        ),
        (
            "streams with an event",
            events.streams.saturating_sub(events.empty),
            "first_event samples",
            first,
        ),
    ];
    for (part_name, part, whole_name, whole) in at_most {
        if part > whole {
            return Err(Contradiction(format!(
                "events: {part_name} is {part}, but {whole_name} is {whole}"
            )));
        }
    }
    let samples = events.per_response.count();
    if samples != events.streams {
        return Err(Contradiction(format!(
            "events: per_response has {samples} samples, streams is {}",
            events.streams
        )));
    }
    Ok(())
}
