//! The rules by which a run warns that its numbers may be wrong.

use std::cmp::Reverse;

use plan::AskedTokens;
use results::{
    Counters, ErrorKind, EventRecording, FinishCounts, LatencyParts, LlmRecording, Recording,
    RunResult, SAMPLES_ABOVE_MIN, Settling, Warning, enough_samples,
};

use crate::episodes;
use crate::verdict::{connects_failed, datagrams_dropped, server_unsent};

/// Samples that the 99th percentile needs, the last one of wrk's report: [`enough_samples`].
const SAMPLES_FOR_P99: u64 = 1000;

/// Stale connections are reported if there is more than one in this many responses.
const STALE_SHARE: u64 = 100;

/// Requests in flight at the end are reported if the oldest has waited longer than this multiple of
/// the slowest finished request, and longer than [`LONG_WAIT_NS`].
const LONG_WAIT_FACTOR: u64 = 2;

/// Shorter waits of requests in flight are not reported: in a fast run with few samples the slowest
/// one says little.
const LONG_WAIT_NS: u64 = 100_000_000;

/// Requests in flight at the end are reported if they are more than one for this many responses.
const OPEN_SHARE: u64 = 10;

/// The number of requests in flight has grown if it is this multiple of its average at the end.
const GROWN_FACTOR: f64 = 1.5;

/// Requests in flight are not reported if they are a smaller share of those that were due.
const GROWN_SHARE: f64 = 0.01;

/// Pauses before a reconnect are reported if at least one request in this many met one,
const PAUSED_SHARE: u64 = 100;

/// and if the longest is more than the median response time divided by this.
const PAUSE_SHARE: u64 = 20;

/// Requests waited for a connection if they waited for longer than this,
const WAITED_MIN_NS: u64 = 1_000_000;

/// longer than the usual service time divided by this,
const WAITED_SHARE: u64 = 20;

/// and longer than the load generator's part divided by this, which is attributed that precisely.
const OWN_PRECISION: u64 = 5;

/// Fewer reconnects are not reported,
const RECONNECTS_MIN: u64 = 10;

/// nor those of a server that sends more than this many responses on each connection: connecting
/// then takes less time than the rest.
const RESPONSES_PER_RECONNECT: u64 = 2;

/// The end of a window is the last part of it: its duration divided by this.
const END_SHARE: u64 = 10;

/// Responses that ended before their limit of tokens are reported from one in this many.
const EARLY_SHARE: u64 = 10;

/// The fewest responses with a finish reason for that warning: a share of fewer says little.
const ENDS_MIN: u64 = 5;

/// A difference of this many standard deviations is not chance, whatever the distribution.
pub(crate) const SIGMAS: f64 = 6.0;

/// The warnings that follow from the numbers of a result. Those that only the run itself can know,
/// such as a stuck script, are not among them.
#[must_use]
pub fn warnings(result: &RunResult) -> Vec<Warning> {
    if result.agents.is_empty() {
        let contradictions = crate::consistency::contradictions(result);
        [about_numbers(result, 0), contradictions].concat()
    } else {
        crate::fleet::warnings(result)
    }
}

/// Whether a warning says that the server, or a small number of connections, delayed requests. A
/// thread whose script does not return neither sends nor reads, so that this is not known then.
pub(crate) fn blames_server(warning: &Warning) -> bool {
    matches!(
        warning,
        Warning::RateNotReached { .. }
            | Warning::RateNotSustained { .. }
            | Warning::WaitedForConnection { .. }
            | Warning::ServerStalled { .. }
            | Warning::OverdueInFlight { .. }
            | Warning::LongInFlight { .. }
    )
}

/// The warnings that follow from the totals alone, without those of so many connections.
pub(crate) fn about_numbers(result: &RunResult, lost_connections: u64) -> Vec<Warning> {
    [
        about_responses(result),
        about_events(result),
        about_connections(result, lost_connections),
        about_waiting(result),
        about_stalls(result).into_iter().collect(),
        about_warmup(result).into_iter().collect(),
        crate::settling::slow_start(result).into_iter().collect(),
        about_rate(result),
    ]
    .concat()
}

/// The warning about a warm-up that was to last until the server has settled.
fn about_warmup(result: &RunResult) -> Option<Warning> {
    let is_known = match result.window.settling? {
        Settling::Settled => return None,
        Settling::NotSettled => true,
        Settling::Unknown => false,
    };
    Some(Warning::WarmupLimit {
        limit_ms: result.window.warmup_ns / 1_000_000,
        is_known,
    })
}

fn about_responses(result: &RunResult) -> Vec<Warning> {
    let counters = &result.recording.counters;
    let (sent, answered) = (counters.sent, counters.answered);
    let samples = result.recording.latency().count();
    let mut found = Vec::new();
    if answered > 0 {
        found.extend(about_statuses(result));
    } else if result.window.interrupted {
        found.push(Warning::InterruptedEarly {
            sent,
            in_warmup: result.window.duration_ns == 0,
        });
    } else if !result.has_answers() {
        found.push(Warning::NothingAnswered { sent });
    }
    if samples > 0 && !enough_samples(99.0, samples) {
        found.push(Warning::FewSamples {
            samples,
            needed: SAMPLES_FOR_P99,
        });
    }
    found
}

/// The warning about a run without a single success. A 304 is a success: the client already has the
/// content.
fn about_statuses(result: &RunResult) -> Option<Warning> {
    let recording = &result.recording;
    let answered = recording.counters.answered;
    let (mut redirects, mut bad) = (0, 0);
    let mut counts: Vec<(u16, u64)> = recording.statuses.iter().collect();
    for &(status, count) in &counts {
        match status {
            301..=303 | 307 | 308 => redirects += count,
            400.. => bad += count,
            _ => {}
        }
    }
    if redirects + bad < answered {
        return None;
    }
    counts.sort_by_key(|(status, count)| (Reverse(*count), *status));
    let statuses = counts.into_iter().map(|(status, _)| status).collect();
    Some(match bad {
        0 => Warning::OnlyRedirects {
            answered,
            statuses,
            location: recording.redirect_location.clone(),
        },
        _ => Warning::OnlyBadStatuses { answered, statuses },
    })
}

/// The warnings about streams of events.
fn about_events(result: &RunResult) -> Vec<Warning> {
    let (Some(events), Some(spec)) = (&result.recording.parts.events, &result.plan.events) else {
        return Vec::new();
    };
    let (streams, unfinished) = (events.streams, events.cut_off());
    let mut found = Vec::new();
    let answers = result.recording.parts.llm.as_ref();
    if events.compressed > 0 {
        found.push(Warning::CompressedStreams {
            compressed: events.compressed,
            streams,
        });
    } else if streams > 0 && events.arrived == 0 {
        found.push(Warning::NoEvents { streams });
    } else if let Some(llm) = answers {
        found.extend(about_tokens(llm, events));
        let asked = result.plan.request.file.as_ref();
        let asked = asked.and_then(|file| file.asked.as_ref());
        found.extend(asked.and_then(|asked| ended_early(asked, llm)));
    } else if unfinished > 0 {
        found.push(Warning::UnfinishedStreams {
            unfinished,
            streams,
            end_marker: spec.end_marker().to_owned(),
        });
    }
    found.extend(silent_streams(events));
    found
}

/// The warnings about the responses of a language model.
fn about_tokens(llm: &LlmRecording, events: &EventRecording) -> Vec<Warning> {
    let (streams, cut_off) = (llm.responses, events.unfinished);
    let mut found = Vec::new();
    // Streams that have not ended may have had some.
    if streams > 0 && llm.without_tokens == streams && llm.first_token.is_empty() {
        found.push(Warning::NoTokens {
            streams,
            malformed_events: llm.malformed_events,
        });
    } else if llm.without_tokens > 0 {
        found.push(Warning::WithoutTokens {
            without: llm.without_tokens,
            streams,
        });
    }
    if cut_off > 0 && llm.without_tokens < streams {
        found.push(Warning::CutOffStreams { cut_off, streams });
    }
    found
}

/// Responses that ended before the limit of tokens that was asked for.
///
/// Their finish reasons say so. Some servers report `stop` at the limit, too, so responses with as
/// many tokens as a fixed limit are not early, whatever their reasons.
fn ended_early(asked: &AskedTokens, llm: &LlmRecording) -> Option<Warning> {
    let FinishCounts {
        stop,
        length,
        tool_calls,
        content_filter,
        other,
        none: _,
    } = llm.finish;
    let output_tokens = asked.output_tokens.as_ref()?;
    let ended = stop + tool_calls + content_filter + other;
    let responses = ended + length;
    let early = match output_tokens.parse::<u64>() {
        Ok(limit) => {
            let lengths = llm.output_per_response.distinct();
            let below = lengths.filter(|(tokens, _)| *tokens < limit);
            ended.min(below.map(|(_, count)| count).sum())
        }
        Err(_) => ended,
    };
    let are_many = responses >= ENDS_MIN && early.saturating_mul(EARLY_SHARE) >= responses;
    are_many.then(|| Warning::FewerTokens {
        early,
        responses,
        output_tokens: output_tokens.clone(),
        ignore_eos: asked.ignore_eos,
    })
}

/// Streams that had not ended and were silent for much longer than between any two events. Without
/// a time between two events it is not known what is long.
fn silent_streams(events: &EventRecording) -> Option<Warning> {
    let largest_gap_ns = events.gap.max_ns()?;
    let limit_ns = largest_gap_ns
        .saturating_mul(LONG_WAIT_FACTOR)
        .max(LONG_WAIT_NS);
    let silent = events.since_last_event.distinct();
    let streams = silent.filter(|(silent_ns, _)| *silent_ns > limit_ns);
    let streams = streams.map(|(_, count)| count).sum();
    (streams > 0).then(|| Warning::SilentStreams {
        streams,
        longest_ms: whole_ms(events.since_last_event.max_ns().unwrap_or_default()),
        largest_gap_ms: whole_ms(largest_gap_ns),
    })
}

fn about_connections(result: &RunResult, lost_connections: u64) -> Vec<Warning> {
    // The window never began: connections of the warm-up are not counted.
    if result.window.interrupted && result.window.duration_ns == 0 {
        return Vec::new();
    }
    let counters = &result.recording.counters;
    let events = |kind| result.recording.errors.count(kind).events;
    let mut found = Vec::new();
    let (opened, wanted) = (
        counters.connections_opened + counters.connections_at_start,
        u64::from(result.plan.load.connections).saturating_sub(lost_connections),
    );
    // With stages, the run need not have come to the largest number.
    if opened < wanted && result.plan.load.connection_stages.is_empty() {
        found.push(Warning::ConnectionsMissing {
            opened,
            wanted,
            connect_rate_per_sec: result.limiting_connect_rate(),
        });
    }
    if let Some(limit) = result.recording.streams_limit {
        let wanted = result.plan.load.streams;
        found.push(Warning::StreamsLimited { limit, wanted });
    }
    if let Some(quic) = &result.recording.parts.quic
        && quic.datagrams_dropped > 0
        && datagrams_dropped(result).is_none()
    {
        found.push(Warning::DatagramsDropped {
            dropped: quic.datagrams_dropped,
            arrived: quic.datagrams_arrived(),
        });
    }
    // If it limited the load, the verdict reports it.
    let is_rare = |kind| events(kind) > 0 && connects_failed(result, kind).is_none();
    if is_rare(ErrorKind::FileLimit) {
        found.push(Warning::FileLimit {
            events: events(ErrorKind::FileLimit),
        });
    }
    if is_rare(ErrorKind::AddressUnavailable) {
        found.push(Warning::AddressesExhausted {
            events: events(ErrorKind::AddressUnavailable),
        });
    }
    let stale = events(ErrorKind::Stale);
    if stale > counters.answered / STALE_SHARE {
        found.push(Warning::ManyStaleConnections {
            events: stale,
            answered: counters.answered,
        });
    }
    found.extend(many_reconnects(result));
    found
}

/// Connections that the server ended, if there were not many more responses.
fn many_reconnects(result: &RunResult) -> Option<Warning> {
    let counters = &result.recording.counters;
    let (reconnects, answered) = (counters.reconnects, counters.responses());
    let are_many = reconnects >= RECONNECTS_MIN
        && reconnects.saturating_mul(RESPONSES_PER_RECONNECT) >= answered;
    are_many.then_some(Warning::ManyReconnects {
        reconnects,
        answered,
        window_ms: whole_ms(result.window.duration_ns),
    })
}

fn about_waiting(result: &RunResult) -> Vec<Warning> {
    let recording = &result.recording;
    let counters = &recording.counters;
    let timeout_ns = u64::try_from(result.plan.time_limit().as_nanos()).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    found.extend(answers_of_warmup(result));
    let requests = recording.errors.count(ErrorKind::Timeout).exchanges;
    if requests > 0 {
        found.push(Warning::TimedOutRequests {
            requests,
            timeout_ms: whole_ms(timeout_ns),
        });
    }
    let (requests, oldest_ns) = (counters.in_flight, counters.oldest_in_flight_ns);
    let slowest_ns = recording
        .service_time
        .max_ns()
        .max(recording.timed_out.max_ns())
        .unwrap_or(u64::MAX);
    let oldest_ms = whole_ms(oldest_ns);
    if requests > 0 && oldest_ns > timeout_ns {
        let timeout_ms = whole_ms(timeout_ns);
        found.push(Warning::OverdueInFlight {
            requests,
            oldest_ms,
            timeout_ms,
        });
    } else if requests > 0
        // With a rate they are in the latency at their age.
        && !result.plan.pacing.is_open()
        && oldest_ns > LONG_WAIT_NS
        && oldest_ns > slowest_ns.saturating_mul(LONG_WAIT_FACTOR)
    {
        let slowest_ms = whole_ms(slowest_ns);
        found.push(Warning::LongInFlight {
            requests,
            oldest_ms,
            slowest_ms,
        });
    }
    let is_said = |warning: &Warning| !matches!(warning, Warning::TimedOutRequests { .. });
    if !found.iter().any(is_said) {
        found.extend(outlasted(result));
    }
    found
}

/// Many requests were in flight at the end, and nobody waited for their responses. These take
/// longer than those that ended in time, whatever is measured of them.
fn outlasted(result: &RunResult) -> Option<Warning> {
    let Counters {
        in_flight,
        answered,
        ..
    } = result.recording.counters;
    let window = &result.window;
    let has_ended = !window.interrupted && !window.is_hopeless;
    let are_many = answered > 0 && in_flight.saturating_mul(OPEN_SHARE) > answered;
    (has_ended && window.drained_ns.is_none() && are_many).then_some(Warning::Outlasted {
        in_flight,
        answered,
    })
}

/// The times in which the server did not answer, as a warning. Times in which the load generator
/// did not run are left out, unless they are within such a time.
fn about_stalls(result: &RunResult) -> Option<Warning> {
    let in_ms = |time_s: f64| (time_s * 1e3).round() as u64;
    let times_ms: Vec<(u64, u64)> = episodes::stalls_of(result)
        .iter()
        .map(|stall| (in_ms(stall.begin_s), in_ms(stall.end_s)))
        .collect();
    (!times_ms.is_empty()).then_some(Warning::ServerStalled { times_ms })
}

/// A closed loop begins its window with a request in flight on each connection. By Little's law,
/// these are most of its responses if the window is shorter than two mean response times, and what
/// takes longer than the window is never seen, unless it is drained. With a rate, requests without
/// a response are in the latency at their age.
fn answers_of_warmup(result: &RunResult) -> Option<Warning> {
    let Counters {
        answered,
        answered_of_warmup: of_warmup,
        ..
    } = result.recording.counters;
    let is_closed = !result.plan.pacing.is_open();
    let is_drained = result.window.drained_ns.is_some() && answered > 0;
    (!is_drained && of_warmup > answered && (is_closed || answered == 0)).then_some(
        Warning::AnswersOfWarmup {
            of_warmup,
            answered,
        },
    )
}

/// Requests that were not sent or answered in time because of the server, or because of too few
/// connections. What the load generator delayed is not among them.
fn about_rate(result: &RunResult) -> Vec<Warning> {
    // Users have a connection each, and no rate.
    if !result.plan.pacing.is_scheduled() {
        return Vec::new();
    }
    let counters = &result.recording.counters;
    let Counters {
        due,
        answered,
        answered_in_drain: drained,
        in_flight,
        ..
    } = *counters;
    // When the window ended.
    let (answered, in_flight) = (answered.saturating_sub(drained), in_flight + drained);
    let mut found = Vec::new();
    found.extend(paused_before_reconnect(&result.recording));
    if let Some(unsent) = server_unsent(result) {
        found.push(Warning::RateNotReached {
            due,
            unsent,
            connect_rate_per_sec: result.limiting_connect_rate(),
        });
    } else if let Some((percent, waited_ns)) = waited_for_connection(&result.recording) {
        found.push(Warning::WaitedForConnection {
            percent,
            waited_ms: whole_ms(waited_ns),
            connect_rate_per_sec: result.limiting_connect_rate(),
        });
    }
    let is_of_rate = |warning: &Warning| !matches!(warning, Warning::PausedBeforeReconnect { .. });
    if !found.iter().any(is_of_rate)
        && grew(in_flight, counters.in_flight_time_ns, result)
        && !stood_still_at_end(result)
    {
        found.push(Warning::RateNotSustained {
            due,
            answered,
            in_flight,
        });
    }
    found
}

/// Pauses that many requests met, and that are long compared with the median response time.
fn paused_before_reconnect(recording: &Recording) -> Option<Warning> {
    let pauses = &recording.lags.reconnect;
    let longest_ns = pauses.max_ns()?;
    let latency = recording.latency();
    let median_ns = latency.value_at_percentile(50.0);
    let matters = pauses.count().saturating_mul(PAUSED_SHARE) >= latency.count()
        && longest_ns.saturating_mul(PAUSE_SHARE) > median_ns;
    matters.then_some(Warning::PausedBeforeReconnect {
        requests: pauses.count(),
        longest_us: longest_ns / 1_000,
    })
}

/// How long requests waited for a connection because the server was slow: a percentile, and its
/// value in nanoseconds, if it is long compared with the usual service time. Of what the load
/// generator delayed, a small part may be attributed to the server.
fn waited_for_connection(recording: &Recording) -> Option<(u32, u64)> {
    let percent = highest_reliable(recording.latency().count())?;
    let parts = recording.latency_parts_at(&[f64::from(percent)]);
    let LatencyParts {
        waiting_ns, own_ns, ..
    } = *parts.first()?;
    let sent_late_ns = recording.lags.send.value_at_percentile(f64::from(percent));
    let waiting_ns = waiting_ns.min(sent_late_ns);
    let service_ns = recording.uncorrected().value_at_percentile(50.0);
    let least_ns = [
        WAITED_MIN_NS,
        service_ns / WAITED_SHARE,
        own_ns / OWN_PRECISION,
    ];
    least_ns
        .iter()
        .all(|least_ns| waiting_ns > *least_ns)
        .then_some((percent, waiting_ns))
}

/// The highest whole percentile from the median to 99 that has [`enough_samples`].
fn highest_reliable(count: u64) -> Option<u32> {
    (50..=99)
        .rev()
        .find(|percent| enough_samples(f64::from(*percent), count))
}

/// Whether the load generator did not run shortly before the end, so that what was in flight then
/// is a matter of what it could not read.
fn stood_still_at_end(result: &RunResult) -> bool {
    let end_ns = result.window.duration_ns;
    let late_ns = (end_ns - end_ns / END_SHARE, end_ns);
    let standstills = &result.recording.attribution.standstills;
    standstills.iter().any(|it| it.overlap_ns(late_ns) > 0)
}

/// Whether more requests are in flight at the end than on average, beyond chance. A number that
/// grows steadily is twice its average at the end; one that does not grow has a Poisson
/// distribution. Arrivals of a shape below 1 come in bursts of `1 / shape`, whose number has one.
fn grew(in_flight: u64, in_flight_time_ns: u64, result: &RunResult) -> bool {
    let duration_ns = result.window.duration_ns;
    if duration_ns == 0 || result.window.interrupted {
        return false;
    }
    let mean = in_flight_time_ns as f64 / duration_ns as f64;
    let shape = result
        .plan
        .pacing
        .arrivals()
        .and_then(plan::Arrivals::shape);
    let burst = shape.map_or(1.0, |shape| (1.0 / shape).max(1.0));
    let in_flight = in_flight as f64;
    in_flight > mean * GROWN_FACTOR
        && in_flight > mean + SIGMAS * (mean * burst).sqrt() + SAMPLES_ABOVE_MIN as f64 * burst
        && in_flight > result.recording.counters.due as f64 * GROWN_SHARE
}

fn whole_ms(ns: u64) -> u64 {
    ns / 1_000_000
}
