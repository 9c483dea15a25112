//! Every sentence about a result: warnings, the verdict with its symptoms and remedies, and limits
//! that were not kept. The text report, JSON, pages and the live view take their words from here.

use std::fmt;

use plan::readable::{count, counted, decimal, list, percent, time_ns};
use results::{
    Attribution, Finding, OwnShare, RunResult, SAMPLES_ABOVE_MIN, Settling, SlowStart, Standstill,
    Symptom, Verdict, Warning,
};

use crate::remedy::Remedy;
use crate::verdict::{all_cpus_ns, are_others_notable, is_server_notable, others_ns};
use crate::{Criterion, LowerBounds, Purpose, ThinPercentiles};

/// A finding that has a sentence of its own.
pub trait Sentence {
    /// One line for people, without a full stop.
    fn sentence(&self) -> String;
}

/// A finding with its sentence.
#[must_use]
pub fn finding<T: Sentence>(data: T) -> Finding<T> {
    let text = data.sentence();
    Finding { data, text }
}

/// The word for what the measured numbers leave open, in every kind of report: it is neither an
/// effect nor the absence of one.
pub const UNDECIDED: &str = "undecided";

/// [`Verdict::Undisturbed`] in one line.
pub const UNDISTURBED: &str = "load generator OK: neither disturbed nor saturated";

/// [`Verdict::Saturated`] in one line.
pub const SATURATED: &str = "load generator saturated: the server may be faster than shown";

/// [`Verdict::Unknown`] in one line.
pub const UNKNOWN: &str = "load generator: not known whether it was saturated, since the run was \
     too short or the CPU time of a thread could not be read";

/// The verdict in one word.
#[must_use]
pub fn verdict_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Undisturbed => "OK",
        Verdict::Disturbed { .. } => "disturbed",
        Verdict::Saturated { .. } => "saturated",
        Verdict::Unknown => "unknown",
    }
}

/// The verdict in one line, without its remedy.
#[must_use]
pub fn verdict_headline(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Undisturbed => UNDISTURBED.to_owned(),
        Verdict::Unknown => UNKNOWN.to_owned(),
        Verdict::Saturated { .. } => SATURATED.to_owned(),
        Verdict::Disturbed { percentiles, .. } if percentiles.is_empty() => {
            "load generator disturbed: it did not always run when it should have, and how much of \
             the latency that caused is not known"
                .to_owned()
        }
        Verdict::Disturbed { percentiles, .. } => {
            format!("load generator disturbed: {}", own_shares(percentiles))
        }
    }
}

/// The evidence of a verdict, one line each: what the load generator caused of percentiles, unless
/// the headline says it, and the symptoms.
#[must_use]
pub fn verdict_details(verdict: &Verdict) -> Vec<String> {
    let shares = match verdict {
        Verdict::Saturated { percentiles, .. } if !percentiles.is_empty() => {
            Some(own_shares(percentiles))
        }
        _ => None,
    };
    let symptoms = verdict.evidence().0.iter().map(ToString::to_string);
    shares.into_iter().chain(symptoms).collect()
}

/// The verdict for a terminal: one line; if the load generator was disturbed or saturated, that
/// line ends with the remedy, and one for each detail follows.
#[must_use]
pub fn verdict_lines(verdict: &Verdict) -> Vec<String> {
    let remedy = verdict.evidence().1;
    let semicolon = if remedy.is_empty() { "" } else { "; " };
    let headline = format!("{}{semicolon}{remedy}", verdict_headline(verdict));
    let details = verdict_details(verdict).into_iter();
    let details = details.map(|detail| format!("load generator: {detail}"));
    std::iter::once(headline).chain(details).collect()
}

/// `it caused 413 ms of the p99 of 415 ms`, or `it caused at least 2 ms of the p90 of 8 ms`.
#[must_use]
pub fn own_shares(shares: &[OwnShare]) -> String {
    let share = |share: &OwnShare| {
        format!(
            "{} of the p{} of {}",
            time_ns(share.own_ns),
            share.percent,
            time_ns(share.shown_ns)
        )
    };
    let at_least = if shares.iter().any(|share| share.is_lower_bound) {
        "at least "
    } else {
        ""
    };
    format!(
        "it caused {at_least}{}",
        list(&shares.iter().map(share).collect::<Vec<_>>())
    )
}

/// A note on latency that includes waiting behind other responses of the same connection.
#[must_use]
pub fn shared_connections(result: &RunResult) -> Option<String> {
    let load = &result.plan.load;
    let limit = result.recording.streams_limit.unwrap_or(load.streams);
    let streams = load.streams.min(limit);
    let is_shared = load.protocol.has_streams() && streams > 1;
    (is_shared && result.recording.latency().count() > 0).then(|| {
        format!(
            "with {streams} streams per connection, latency includes waiting behind other \
             responses of the connection; -c{} -m1 has as many requests in flight without it",
            u64::from(load.connections) * u64::from(streams)
        )
    })
}

/// A note on the warm-up that was left out because the server had not settled before.
#[must_use]
pub fn settled(result: &RunResult) -> Option<String> {
    let window = &result.window;
    let has_settled = window.settling == Some(Settling::Settled);
    let warmup_ms = window.warmup_ns / 1_000_000;
    has_settled.then(|| format!("warm-up: settled after {}", seconds(warmup_ms)))
}

/// Why no connection was free for a request that was due.
fn why_no_connection(connect_rate_per_sec: Option<u32>) -> String {
    match connect_rate_per_sec {
        Some(per_sec) => format!("--connect-rate {per_sec} allowed no more connections"),
        None => "the server was slower than the rate, or -c is too low".to_owned(),
    }
}

impl Sentence for Warning {
    fn sentence(&self) -> String {
        match self {
            Self::NothingAnswered { sent } => format!(
                "no request succeeded ({} sent): check the URL and the server",
                counted(*sent, "request")
            ),
            Self::OnlyBadStatuses { answered, statuses } => format!(
                "none of {} was a success{}: check the URL and the server",
                counted(*answered, "response"),
                listed(statuses)
            ),
            Self::OnlyRedirects {
                answered,
                statuses,
                location,
            } => {
                let all = match answered {
                    1 => "the only response was a redirect".to_owned(),
                    _ => format!("all {} responses were redirects", count(*answered)),
                };
                let statuses = listed(statuses);
                match location {
                    Some(location) => format!("{all}{statuses} to {location}: measure that URL"),
                    None => format!("{all}{statuses}: measure the URL of their target"),
                }
            }
            Self::InterruptedEarly {
                in_warmup: true, ..
            } => "interrupted during the warm-up: nothing was measured".to_owned(),
            Self::InterruptedEarly { sent, .. } => format!(
                "interrupted before the first response ({} sent): nothing was measured",
                counted(*sent, "request")
            ),
            Self::FewSamples { samples, needed } => format!(
                "only {}: the 99th percentile needs {}; run longer",
                counted(*samples, "sample"),
                count(*needed)
            ),
            Self::StreamsLimited { limit: 0, .. } => {
                "the server allows no streams on a connection, so no request can be sent \
                 (SETTINGS_MAX_CONCURRENT_STREAMS of HTTP/2, initial_max_streams_bidi of HTTP/3)"
                    .to_owned()
            }
            Self::StreamsLimited { limit, wanted } => format!(
                "the server allows {} per connection, fewer than the {} asked for: the load was \
                 lighter",
                counted(u64::from(*limit), "stream"),
                count(u64::from(*wanted))
            ),
            Self::DatagramsDropped { dropped, arrived } => format!(
                "{}: raise net.core.rmem_max",
                dropped_datagrams(*dropped, *arrived)
            ),
            Self::NoEvents { streams } => format!(
                "no event in {}: is --events the format of the server?",
                counted(*streams, "response")
            ),
            Self::CompressedStreams {
                compressed,
                streams,
            } => format!(
                "{} of {} were compressed (Content-Encoding), so their events were not read: -H \
                 'Accept-Encoding: identity' asks the server, or a proxy before it, for plain ones",
                count(*compressed),
                counted(*streams, "stream")
            ),
            Self::NoTokens {
                streams,
                malformed_events,
            } => {
                let why = match malformed_events {
                    0 => "does the request ask for a stream (\"stream\": true)?".to_owned(),
                    events => format!(
                        "{} not JSON; is it a language model's stream?",
                        were(*events, "event")
                    ),
                };
                let none = match streams {
                    1 => "1 response had no token".to_owned(),
                    streams => format!("none of {} had a token", counted(*streams, "response")),
                };
                format!("{none}: {why}")
            }
            Self::WithoutTokens { without, streams } => format!(
                "{} of {} had no token: their times to the first token are missing",
                count(*without),
                counted(*streams, "response")
            ),
            Self::CutOffStreams { cut_off, streams } => format!(
                "{} of {} ended without a finish reason or the end of their format: they were cut \
                 off, or the server does not say why they end",
                count(*cut_off),
                counted(*streams, "stream")
            ),
            Self::FewerTokens {
                early,
                responses,
                output_tokens,
                ignore_eos,
            } => {
                let why = match ignore_eos {
                    Some(true) => "the server does not heed ignore_eos",
                    Some(false) => {
                        "the lengths depend on what the model says (--ignore-eos makes servers \
                         that have it go on)"
                    }
                    None => "the lengths depend on what the model says",
                };
                format!(
                    "{} of {} ended before --output-tokens {output_tokens}: {why}",
                    percent(*early as f64 / (*responses).max(1) as f64 * 100.0),
                    counted(*responses, "response")
                )
            }
            Self::UnfinishedStreams {
                unfinished,
                streams,
                end_marker,
            } => format!(
                "{} of {} ended without the end marker {end_marker:?}: they were cut off, or the \
                 server has another one (--events-end)",
                count(*unfinished),
                counted(*streams, "stream")
            ),
            Self::SilentStreams {
                streams,
                longest_ms,
                largest_gap_ms,
            } => format!(
                "{} had no event for up to {} until the end of the run or the timeout, but the \
                 largest gap between two events was {}: the server stopped sending \
                 (time_since_last_event)",
                counted(*streams, "open stream"),
                time_ms(*longest_ms),
                time_ms(*largest_gap_ms)
            ),
            Self::ConnectionsMissing {
                opened,
                wanted,
                connect_rate_per_sec,
            } => format!(
                "only {} of {} established{}: the load was lighter than asked for",
                count(*opened),
                were(*wanted, "connection"),
                match connect_rate_per_sec {
                    Some(per_sec) => format!(", as many as --connect-rate {per_sec} allows"),
                    None => String::new(),
                }
            ),
            Self::FileLimit { events } => format!(
                "the limit of open files was reached {}: raise it (ulimit -n) or use fewer \
                 connections",
                counted(*events, "time")
            ),
            Self::AddressesExhausted { events } => format!(
                "no local port was free {}: widen net.ipv4.ip_local_port_range, or keep \
                 connections open",
                counted(*events, "time")
            ),
            Self::ManyStaleConnections { events, answered } => format!(
                "the server closed {} just as they were used again ({}): its keep-alive timeout \
                 is short, or it closes after a response without saying so (-H 'Connection: \
                 close' loses no request)",
                counted(*events, "idle connection"),
                counted(*answered, "response")
            ),
            Self::ManyReconnects {
                reconnects,
                answered,
                window_ms,
            } => {
                let closed = counted(*reconnects, "connection");
                let rate = per_second(*reconnects, *window_ms);
                match answered {
                    0 => format!("the server ended {closed} ({rate}) without a response"),
                    _ => format!(
                        "the server ended {closed} ({rate}) after {}: much of the load was \
                         connecting",
                        counted(*answered, "response")
                    ),
                }
            }
            Self::TimedOutRequests {
                requests,
                timeout_ms,
            } => format!(
                "{} had no response within {}: latency includes their age at the timeout",
                counted(*requests, "request"),
                time_ms(*timeout_ms)
            ),
            Self::OverdueInFlight {
                requests,
                oldest_ms,
                timeout_ms,
            } => format!(
                "{} in flight at the end, the oldest for {}, longer than the timeout of {}: this \
                 machine was too busy",
                were(*requests, "request"),
                time_ms(*oldest_ms),
                time_ms(*timeout_ms)
            ),
            Self::LongInFlight {
                requests,
                oldest_ms,
                slowest_ms,
            } => format!(
                "{} in flight at the end, the oldest for {}, but the slowest finished request took \
                 {}: latency does not show this wait; run longer",
                were(*requests, "request"),
                time_ms(*oldest_ms),
                time_ms(*slowest_ms)
            ),
            Self::Outlasted {
                in_flight,
                answered,
            } => format!(
                "{} in flight at the end, beside {}: latency is that of the responses that were \
                 faster than the run was long (--drain 30s waits for the others)",
                were(*in_flight, "request"),
                counted(*answered, "response")
            ),
            Self::GaveUp {
                sent,
                wanted,
                is_refused,
            } => format!(
                "only {} of {} sent (-n): the run gave up, since {}",
                count(*sent),
                were(*wanted, "request"),
                match is_refused {
                    true => "every connection was refused, which another attempt does not change",
                    false => "no response came for 30 s or for the timeout",
                }
            ),
            Self::PausedBeforeReconnect {
                requests,
                longest_us,
            } => format!(
                "response times of {} include up to {} between two attempts to connect to a \
                 server that was down",
                counted(*requests, "request"),
                time_ns(longest_us.saturating_mul(1_000))
            ),
            Self::RateNotReached {
                due,
                unsent,
                connect_rate_per_sec,
            } => format!(
                "{} of {} due were not sent, since no connection was free: {}",
                count(*unsent),
                counted(*due, "request"),
                why_no_connection(*connect_rate_per_sec)
            ),
            Self::ServerStalled { times_ms } => {
                let times = times_ms
                    .iter()
                    .map(|(begin, end)| (begin * 1_000_000, end * 1_000_000));
                format!(
                    "the server stalled {}: few or no responses arrived",
                    spans(times)
                )
            }
            Self::WarmupLimit {
                limit_ms,
                is_known: true,
            } => format!(
                "the server did not settle within {} (--warmup-limit): rate or latency still \
                 changed when the window began",
                seconds(*limit_ms)
            ),
            Self::WarmupLimit { limit_ms, .. } => format!(
                "responses were too few to tell within {} (--warmup-limit) whether the server had \
                 settled: give the warm-up a time",
                seconds(*limit_ms)
            ),
            Self::SlowAtFirst(start) => slow_at_first(start),
            Self::NotSettled(start) => format!(
                "the run had not settled: it was slower by {} until {} of {}: run longer, with \
                 --warmup {}s",
                whole_percent_of(start.slower_by()),
                seconds(start.first_ms),
                seconds(start.first_ms.saturating_add(start.rest_ms)),
                start.warmup_needed_s()
            ),
            Self::WaitedForConnection {
                percent,
                waited_ms,
                connect_rate_per_sec,
            } => format!(
                "{} waited {} or more for a free connection: {}",
                share_above(*percent, "requests"),
                time_ms(*waited_ms),
                why_no_connection(*connect_rate_per_sec)
            ),
            Self::RateNotSustained {
                due,
                answered,
                in_flight,
            } => format!(
                "only {} of {} due were answered, and {} in flight at the end, more than ever \
                 before: the server was slower than the rate",
                count(*answered),
                counted(*due, "request"),
                match in_flight {
                    1 => "1 was".to_owned(),
                    many => format!("{} were", count(*many)),
                }
            ),
            Self::AnswersOfWarmup {
                of_warmup,
                answered: 0,
            } => format!(
                "no request of the window was answered within it, and {} to requests of the \
                 warm-up: latency is not known; run longer",
                were(*of_warmup, "response")
            ),
            Self::AnswersOfWarmup {
                of_warmup,
                answered,
            } => format!(
                "{} of {} in the window were to requests of the warm-up: the latency is that of \
                 the other {}, and slow responses are missing; run longer",
                count(*of_warmup),
                counted(of_warmup.saturating_add(*answered), "response"),
                count(*answered)
            ),
            Self::InconsistentSchedule { due, expected } => format!(
                "{} due where the rate asks for {}: {DEFECT}",
                were(*due, "request"),
                count(*expected)
            ),
            Self::InconsistentConcurrency {
                in_flight_time_ns,
                least_ns,
                most_ns,
                duration_ns,
            } => {
                let mean = |time_ns: &u64| *time_ns as f64 / (*duration_ns).max(1) as f64;
                format!(
                    "{:.3} requests were in flight on average where Little's law expects {:.3} to \
                     {:.3}: {DEFECT}",
                    mean(in_flight_time_ns),
                    mean(least_ns),
                    mean(most_ns)
                )
            }
            Self::Partial {
                agents,
                lost,
                agent,
                after_ms,
                reason,
                connections,
            } => {
                let (whose, they) = match lost {
                    0 | 1 => ("its", "it"),
                    _ => ("their", "they"),
                };
                let who = agents_that("was lost", "were lost", [*lost, *agents], agent, *after_ms);
                format!(
                    "partial result: {who}: {reason}; {whose} share of the load ({}) was not sent \
                     by others, and what {they} measured is missing",
                    counted(*connections, "connection")
                )
            }
            Self::EndedEarly {
                agents,
                early,
                agent,
                after_ms,
                reason,
            } => {
                let who = agents_that("ended", "ended early", [*early, *agents], agent, *after_ms);
                format!("partial result: {who}: {reason}")
            }
            Self::ScriptStuck { worker, agent } => {
                let of_agent = agent.as_ref().map(|agent| format!(" of agent {agent}"));
                format!(
                    "the script of thread {worker}{} did not return before the end of the run: its \
                     requests may be missing",
                    of_agent.unwrap_or_default()
                )
            }
        }
    }
}

/// A run that was slower at first, and what leaves that out.
fn slow_at_first(start: &SlowStart) -> String {
    let short = match start.warmup_ms {
        0 => String::new(),
        ms => format!("the warm-up of {} was too short: ", time_ms(ms)),
    };
    let (slower_by, first) = (whole_percent_of(start.slower_by()), seconds(start.first_ms));
    // With a rate, the rest has the responses that were late, and the backlog takes time as well.
    match start.first_due {
        Some(_) => format!(
            "{short}the run was slower by {slower_by} in its first {first}, when fewer requests \
             were answered than due: use a --warmup longer than {}s",
            start.warmup_needed_s()
        ),
        None => format!(
            "{short}the run was slower by {slower_by} in its first {first}; without them {} \
             requests/s: use --warmup {}s",
            rate(start.rest_per_sec()),
            start.warmup_needed_s()
        ),
    }
}

/// More spans of time than this are not shown.
const SPANS_SHOWN: usize = 3;

const DEFECT: &str = "this is a bug in wrkbench, please report it";

impl Sentence for Symptom {
    fn sentence(&self) -> String {
        match self {
            Self::WorkerBusy {
                worker,
                cpu_ns,
                elapsed_ns,
                busy_threads,
                threads,
                ..
            } => {
                let share = share_of_time(*cpu_ns, u128::from(*elapsed_ns));
                let others = match threads {
                    0 | 1 => String::new(),
                    _ => format!(" ({busy_threads} of {threads} threads were that busy)"),
                };
                format!("thread {worker} used {share} % of a CPU{others}")
            }
            Self::RunQueueWait {
                worker,
                run_queue_wait_ns,
                elapsed_ns,
                threads,
                cpus,
            } => {
                let share = share_of_time(*run_queue_wait_ns, u128::from(*elapsed_ns));
                let why = match cpus {
                    Some(cpus) if threads > cpus => shared_cpus(*threads, *cpus),
                    _ => "another program ran there".to_owned(),
                };
                format!("thread {worker} waited for a CPU {share} % of the time: {why}")
            }
            Self::SharedCpus {
                server_ns,
                generator_ns,
                busy_ns,
                elapsed_ns,
                cpus,
            } => {
                let others_ns = others_ns(*busy_ns, *server_ns, *generator_ns);
                let server = server_ns.filter(|ns| is_server_notable(*ns, *elapsed_ns));
                let others = Some(others_ns).filter(|ns| are_others_notable(*ns, *elapsed_ns));
                let users = [("the server", server), ("other programs", others)];
                let users = users.into_iter().filter_map(|(name, ns)| Some((name, ns?)));
                let names: Vec<String> = users.clone().map(|(name, _)| name.to_owned()).collect();
                let each: Vec<String> = users
                    .chain([("the load generator", *generator_ns)])
                    .map(|(name, ns)| format!("{name} {}", cpus_used(ns, *elapsed_ns)))
                    .collect();
                let such_as = match server_ns.and(others) {
                    Some(_) => " (processes behind the server are other programs here)",
                    None => "",
                };
                format!(
                    "it shared {} with {}, busy {} % of the time, by {}{such_as}",
                    counted(u64::from(*cpus), "CPU"),
                    list(&names),
                    share_of_time(*busy_ns, all_cpus_ns(*elapsed_ns, *cpus)),
                    list(&each),
                )
            }
            Self::Bursts {
                late_ns,
                service_ns,
            } => format!(
                "1 % of the requests were sent at least {} late, and then in bursts, which may \
                 have queued at a server that takes {} for one",
                time_ns(*late_ns),
                time_ns(*service_ns)
            ),
            Self::CgroupThrottled {
                throttled_periods,
                throttled_ns,
                ..
            } => format!(
                "the CPU quota of the control group stopped wrkbench {}, for {} in total",
                counted(*throttled_periods, "time"),
                time_ns(*throttled_ns)
            ),
            Self::Steal {
                steal_ns,
                elapsed_ns,
                cpus,
            } => format!(
                "the hypervisor gave {} % of this machine's CPU time to others",
                share_of_time(*steal_ns, all_cpus_ns(*elapsed_ns, *cpus))
            ),
            Self::Paused {
                standstills,
                pauses,
                paused_ns,
            } => {
                let span =
                    |it: &Standstill| (it.start_ns, it.start_ns.saturating_add(it.length_ns));
                let times: Vec<(u64, u64)> = standstills.iter().map(span).collect();
                if *pauses <= SPANS_SHOWN as u64 {
                    format!("it was paused {}", spans(times.into_iter()))
                } else {
                    format!(
                        "it was paused {}{}, for {} in total, the longest {}",
                        if *pauses >= Attribution::STANDSTILLS_MAX as u64 {
                            "at least "
                        } else {
                            ""
                        },
                        counted(*pauses, "time"),
                        time_ns(*paused_ns),
                        spans(longest(times).into_iter())
                    )
                }
            }
            Self::SlowScript {
                script_ns,
                elapsed_ns,
                calls,
            } => {
                let per_call = script_ns.checked_div(*calls);
                let per_call = per_call.map(|ns| format!(", {} a request", time_ns(ns)));
                format!(
                    "the script took {} % of the time of its threads{}",
                    share_of_time(*script_ns, u128::from(*elapsed_ns)),
                    per_call.unwrap_or_default()
                )
            }
            Self::Idle {
                idle_ns,
                elapsed_ns,
            } => {
                let used_ns = elapsed_ns.saturating_sub(*idle_ns);
                format!(
                    "connections waited for it {} % of the time: without that, requests/s could \
                     be up to {} higher",
                    whole_percent(*idle_ns, u128::from(*elapsed_ns)),
                    higher_by(*idle_ns, used_ns)
                )
            }
            Self::PortsExhausted { events, connects } => format!(
                "{} of {} failed: no local port was free",
                count(*events),
                counted(*connects, "connect")
            ),
            Self::FilesExhausted { events, connects } => format!(
                "{} of {} failed: the limit of open files was reached",
                count(*events),
                counted(*connects, "connect")
            ),
            Self::DatagramsDropped { dropped, arrived } => dropped_datagrams(*dropped, *arrived),
            Self::RateMissed { due, unsent } => format!(
                "{} of {} due were not sent although connections were free",
                count(*unsent),
                counted(*due, "request")
            ),
            Self::Other => String::new(),
        }
    }
}

impl Sentence for Remedy {
    fn sentence(&self) -> String {
        match *self {
            Self::RunAgain => {
                "run again; if it is paused again, another program or the machine stops it"
            }
            Self::FasterScript => "make the script's functions faster, or use more threads (-t)",
            Self::SeparateFromOthers => {
                "keep other programs, and processes behind the server, off the load generator's \
                 cores (taskset), or load the server from another machine"
            }
            Self::SeparateFromServer => {
                "keep the server and the load generator on different CPUs (taskset) or machines"
            }
            Self::RaiseFileLimit => {
                "raise the limit of open files (ulimit -n), or use fewer connections (-c)"
            }
            Self::AddPorts => {
                "widen net.ipv4.ip_local_port_range, connect from more addresses (-b), or keep \
                 connections open"
            }
            Self::RaiseReceiveBuffer => {
                "raise net.core.rmem_max to 4 MiB, which sockets ask for, or use more threads (-t)"
            }
            Self::RaiseQuota => "raise the CPU quota of the control group",
            Self::LeaveSharedHost => "measure on a machine with CPUs of its own",
            Self::FewerThreads { threads, cpus } => {
                return format!("use fewer threads (-t): {}", shared_cpus(threads, cpus));
            }
            Self::KeepOthersOff => {
                "keep other programs, the server too, off the load generator's cores (taskset)"
            }
            Self::AddMachine => {
                "no CPU is left for more threads: move the server to another machine, or load it \
                 from a larger one"
            }
            Self::MoreThreads => "use more threads (-t)",
            Self::KeepOthersOffOrLowerLoad => {
                "keep other programs, the server too, off the load generator's cores (taskset), \
                 or lower the load (-R, -c)"
            }
        }
        .to_owned()
    }
}

/// What this machine has lost of the datagrams that arrived.
fn dropped_datagrams(dropped: u64, arrived: u64) -> String {
    format!(
        "the load generator lost {} of {}, because the receive buffer of a socket was full",
        count(dropped),
        counted(arrived, "datagram")
    )
}

/// Why no limit is kept by a run in which nothing succeeded.
pub(crate) const NO_SUCCESS: &str = "no request succeeded, so no condition passes";

/// Why a limit on the rate cannot be judged.
pub(crate) const NO_RATE: &str = "the run had no rate (-R, --stages)";

/// A condition that fails good runs (`--fail-if`) or that only bad runs meet (`--slo`). `place` is
/// where the metric is then, and `other` the condition the other way round.
pub(crate) fn other_way_round(
    condition: &Criterion,
    purpose: Purpose,
    metric: &str,
    place: &str,
    other: &str,
) -> String {
    let (option, does, side) = match purpose {
        Purpose::FailsRun => ("--fail-if", "fails a run whose", "better"),
        Purpose::Required => ("--slo", "requires that", "worse"),
    };
    format!(
        "{option} {condition} {does} {metric} is {place}, which is the {side} side; the other way \
         round it is {other}"
    )
}

pub(crate) fn too_few_samples(samples: u64) -> String {
    let are = if samples == 1 { "is" } else { "are" };
    format!("{} {are} too few for it", counted(samples, "sample"))
}

/// Why a limit for some requests cannot be judged.
pub(crate) fn no_such_name(name: &str) -> String {
    format!("no request has the name {name:?}")
}

/// A value that depends on requests without a response; `upper` is absent if they may take forever.
pub(crate) fn uncertain_value(value: &str, upper: Option<&str>) -> String {
    let range = match upper {
        Some(upper) => format!("between {value} and {upper}"),
        None => format!("{value} or more"),
    };
    format!("it is {range}, since it depends on requests without a response")
}

impl fmt::Display for ThinPercentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.rows.iter().map(|(p, _)| format!("p{p}")).collect();
        let (are, them) = match names.len() {
            1 => ("is", "it"),
            _ => ("are", "them"),
        };
        write!(
            f,
            "{} {are} unreliable: fewer than {SAMPLES_ABOVE_MIN} of {} lie above {them}; run \
             longer",
            list(&names),
            counted(self.samples, "sample")
        )
    }
}

impl fmt::Display for LowerBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |percent: &f64| match percent {
            100.0.. => "the maximum".to_owned(),
            percent => format!("p{percent}"),
        };
        let names: Vec<String> = self.percents.iter().map(name).collect();
        let are = match names.len() {
            1 => "is a lower bound",
            _ => "are lower bounds",
        };
        write!(
            f,
            "{} {are}: {} of {} had no response and count with the time they had waited",
            list(&names),
            count(self.unanswered),
            counted(self.requests, "request")
        )
    }
}

/// The status codes in parentheses, at most three of them.
fn listed(statuses: &[u16]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = statuses.iter().take(SHOWN).map(u16::to_string).collect();
    match (shown.is_empty(), statuses.len() > SHOWN) {
        (true, _) => String::new(),
        (false, true) => format!(" (status {}, ...)", shown.join(", ")),
        (false, false) => format!(" (status {})", shown.join(", ")),
    }
}

/// `1 request was`, `7 requests were`.
fn were(number: u64, noun: &str) -> String {
    let verb = if number == 1 { "was" } else { "were" };
    format!("{} {verb}", counted(number, noun))
}

/// `agent a (1 of 4) was lost after 3 s`, or `2 of 4 agents were lost, a first, after 3 s`.
fn agents_that(one: &str, many: &str, [some, all]: [u64; 2], first: &str, after_ms: u64) -> String {
    let all = count(all);
    let after = match after_ms {
        // Before the window, or nobody knows when.
        0 => String::new(),
        _ => format!(" after {}", time_ms(after_ms)),
    };
    match some {
        0 | 1 => format!("agent {first} (1 of {all}) {one}{after}"),
        _ if after.is_empty() => format!("{} of {all} agents {many}, {first} first", count(some)),
        _ => format!(
            "{} of {all} agents {many}, {first} first,{after}",
            count(some)
        ),
    }
}

/// At most three spans of time in nanoseconds since the start of the window, in seconds: the
/// longest ones in the order of time.
fn spans(times_ns: impl Iterator<Item = (u64, u64)>) -> String {
    let all: Vec<(u64, u64)> = times_ns.collect();
    let others = all.len().saturating_sub(SPANS_SHOWN);
    let all = longest(all);
    let in_s = |ns: u64| ns as f64 / 1e9;
    let shown = all
        .iter()
        .map(|(begin_ns, end_ns)| format!("{:.2}-{:.2} s", in_s(*begin_ns), in_s(*end_ns)));
    let mut shown: Vec<String> = shown.collect();
    if others > 0 {
        shown.push(format!("{} more", count(others as u64)));
    }
    format!("at {}", list(&shown))
}

/// The longest [`SPANS_SHOWN`] spans of time, in the order of time.
fn longest(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_by_key(|(begin_ns, end_ns)| std::cmp::Reverse(end_ns.saturating_sub(*begin_ns)));
    spans.truncate(SPANS_SHOWN);
    spans.sort_unstable();
    spans
}

/// How much larger a number would be with a time that was not used, next to the one that was.
fn higher_by(unused_ns: u64, used_ns: u64) -> String {
    match whole_percent(unused_ns, u128::from(used_ns)) {
        _ if used_ns == 0 => "many times".to_owned(),
        percent @ 0..1000 => format!("{percent} %"),
        percent => format!("{} times", percent / 100),
    }
}

/// CPU time as a number of CPUs.
fn cpus_used(cpu_ns: u64, elapsed_ns: u64) -> String {
    format!("{:.2} CPUs", cpu_ns as f64 / elapsed_ns.max(1) as f64)
}

/// The part of the samples that is at or above a percentile: `1 % of responses`.
fn share_above(percentile: u32, samples: &str) -> String {
    match percentile {
        50 => format!("half of the {samples}"),
        _ => format!("{} % of {samples}", 100_u32.saturating_sub(percentile)),
    }
}

fn shared_cpus(threads: u32, cpus: u32) -> String {
    match cpus {
        1 => format!("{threads} threads share 1 CPU"),
        _ => format!("{threads} threads share {cpus} CPUs"),
    }
}

fn whole_percent(part: u64, whole: u128) -> u128 {
    (u128::from(part) * 100 + whole / 2)
        .checked_div(whole)
        .unwrap_or(0)
}

/// A part of a time in percent. Two clocks are read one after the other, so it may be larger than
/// the whole by a trifle.
fn share_of_time(part: u64, whole: u128) -> u128 {
    whole_percent(part, whole).min(100)
}

/// A rate without decimals unless it is below 10: `53 a second`, `2.5 a second`.
fn per_second(number: u64, duration_ms: u64) -> String {
    let per_sec = number as f64 * 1e3 / duration_ms.max(1) as f64;
    format!("{} a second", rate(per_sec))
}

/// `53`, `2.5`.
fn rate(per_sec: f64) -> String {
    decimal(per_sec, usize::from(per_sec < 10.0))
}

/// A share from 0 to 1: `48 %`.
fn whole_percent_of(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A time of some seconds with one decimal: `3.0 s`.
fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}

fn time_ms(ms: u64) -> String {
    time_ns(ms.saturating_mul(1_000_000))
}
