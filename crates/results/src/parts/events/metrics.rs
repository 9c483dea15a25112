//! The metrics of events.

use crate::RunResult;
use crate::Samples;
use crate::metric::Better::{self, Higher, Lower, Neither};
use crate::metric::{Getter, MetricRow, Needs, TimeRow, Unit, answered, measured, row};

fn needs(run: &RunResult, otherwise: &'static str) -> &'static str {
    if run.recording.parts.events.is_none() {
        return "events were not measured (--events)";
    }
    otherwise
}

const TOPIC: &str = "streams of events (--events)";

const EVENTS: Needs = Needs::new(TOPIC, |run| needs(run, "no response had an event"));
const COMPLETE_STREAMS: Needs = Needs::new(TOPIC, |run| needs(run, "no stream was complete"));
const EVENT_GAPS: Needs = Needs::new(TOPIC, |run| needs(run, "no response had two events"));
const OPEN_STREAMS: Needs = Needs::new(TOPIC, |run| {
    needs(run, "no stream with an event was open at the end")
});

const EVENT_COUNT: (Unit, Better, Needs) = (Unit::Count, Higher, EVENTS);

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 4] = [
    row("events_per_sec", &[], "events/s", (Unit::EventsPerSec, Higher, EVENTS),
        Getter::PerSec(|run| Some(run.recording.parts.events.as_ref()?.arrived))),
    row("events_per_response", &[], "events per response",
        (Unit::Events, Neither, COMPLETE_STREAMS),
        Getter::Number(|run| run.recording.parts.events.as_ref()?.per_response_mean())),
    row("event_streams", &[], "event_streams", EVENT_COUNT,
        Getter::Part(|run| Some(run.recording.parts.events.as_ref()?.streams), answered)),
    row("unfinished_streams", &[], "unfinished streams",
        (Unit::Count, Lower, COMPLETE_STREAMS),
        Getter::Part(|run| Some(run.recording.parts.events.as_ref()?.cut_off()),
                     |run| run.recording.parts.events.as_ref().map_or(0, |events| events.streams))),
];

#[rustfmt::skip]
pub(super) static TIMES: [TimeRow; 3] = [
    TimeRow { name: "first_event", needs: EVENTS,
        samples: |it| it.parts.events.as_ref().map(|it| Samples::new(&it.first_event, &it.waiting)) },
    TimeRow { name: "event_gap", needs: EVENT_GAPS,
        samples: |it| measured(&it.parts.events.as_ref()?.gap) },
    TimeRow { name: "time_since_last_event",
        needs: OPEN_STREAMS,
        samples: |it| measured(&it.parts.events.as_ref()?.since_last_event) },
];
