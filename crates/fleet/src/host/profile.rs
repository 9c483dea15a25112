//! The profile of a server on another machine: a deputy there takes the samples, and the
//! coordinator turns their times into times of its own clock.

use std::collections::BTreeMap;
use std::io;

use cluster::clock::{Conversion, Offset};
use cluster::host::{HostLink, MAX_CALL_BYTES};
use results::{ProfileSamples, StackSample, ThreadTimes};
use telemetry::{Profiler, Profiling};

use super::call::{Call, ProfileCall, ProfileResult, ProfileReturn};

/// How many samples, functions of stacks and intervals are sent at most, each. Usually all of them
/// are below the limit of a reply then; if they are not, fewer are sent.
const SENT_MAX: usize = 500_000;

/// Names of functions, and of what else a machine tells, are cut to this number of characters.
const NAME_CHARS: usize = 300;

/// A machine has no more notes about its samples.
const NOTES_MAX: usize = 20;

/// The profile that a deputy takes; none at first.
#[derive(Default)]
pub(super) struct DeputyProfile(Option<Profiling>);

impl DeputyProfile {
    /// Carries out a call and encodes what it returns.
    ///
    /// # Errors
    /// If that cannot be encoded.
    pub(super) fn carry_out(&mut self, call: ProfileCall) -> io::Result<Vec<u8>> {
        let result: ProfileResult = match call {
            ProfileCall::Start { server } => self.start(&server),
            ProfileCall::Finish => match self.0.take() {
                Some(profiling) => return encode_limited(profiling.finish(), MAX_CALL_BYTES),
                None => Err("no server is being sampled".to_owned()),
            },
        };
        Ok(serde_json::to_vec(&result)?)
    }

    fn start(&mut self, server: &str) -> ProfileResult {
        if self.0.is_some() {
            return Err("a server is being sampled already".to_owned());
        }
        let profiler = Profiler::prepare(server).map_err(|error| error.to_string())?;
        self.0 = Some(profiler.start().map_err(|error| error.to_string())?);
        Ok(ProfileReturn::Started)
    }
}

/// Encodes samples in at most this many bytes; if they are too many, some are left out.
fn encode_limited(samples: ProfileSamples, limit: u64) -> io::Result<Vec<u8>> {
    let mut most = SENT_MAX;
    let mut samples = limited(samples, most);
    loop {
        let result: ProfileResult<&ProfileSamples> = Ok(ProfileReturn::Samples(&samples));
        let encoded = serde_json::to_vec(&result)?;
        if encoded.len() as u64 <= limit || most == 0 {
            return Ok(encoded);
        }
        most /= 2;
        samples = limited(samples, most);
    }
}

/// The samples with at most this many of everything, from the whole time.
fn limited(mut samples: ProfileSamples, most: usize) -> ProfileSamples {
    let all = samples.samples.len();
    if all > most {
        let every = all.div_ceil(most.max(1));
        let thinned = samples.samples.into_iter().step_by(every).take(most);
        samples.samples = thinned.collect();
    }
    let kept = frequent_stacks(&samples, most);
    samples.samples.retain(|it| kept.contains_key(&it.stack));
    for sample in &mut samples.samples {
        sample.stack = kept[&sample.stack];
    }
    let left_out = (all - samples.samples.len()) as u64;
    samples.dropped = samples.dropped.saturating_add(left_out);
    keep_stacks(&mut samples, &kept);
    while samples.times.len() > most.max(1) {
        samples.times = samples.times.chunks(2).map(joined).collect();
    }
    for name in &mut samples.functions {
        *name = shortened(name);
    }
    samples
}

/// The new numbers of the stacks that have most samples and together at most this many functions.
fn frequent_stacks(samples: &ProfileSamples, most: usize) -> BTreeMap<u32, u32> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for sample in &samples.samples {
        *counts.entry(sample.stack).or_default() += 1;
    }
    let mut counts: Vec<(u32, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|(stack, count)| (std::cmp::Reverse(*count), *stack));
    let mut left = most;
    let fits = |(stack, _): (u32, u32)| {
        let functions = samples.stacks.get(stack as usize)?.len();
        left = left.checked_sub(functions)?;
        Some(stack)
    };
    (0..)
        .zip(counts.into_iter().filter_map(fits))
        .map(|(new, old)| (old, new))
        .collect()
}

/// Keeps these stacks, by their old and new numbers, and the functions in them.
fn keep_stacks(samples: &mut ProfileSamples, kept: &BTreeMap<u32, u32>) {
    let mut stacks = vec![Vec::new(); kept.len()];
    for (old, new) in kept {
        stacks[*new as usize] = std::mem::take(&mut samples.stacks[*old as usize]);
    }
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut functions = Vec::new();
    for function in stacks.iter_mut().flatten() {
        *function = *numbers.entry(*function).or_insert_with(|| {
            let name = samples.functions.get(*function as usize);
            functions.push(name.cloned().unwrap_or_default());
            u32::try_from(functions.len() - 1).unwrap_or(u32::MAX)
        });
    }
    (samples.stacks, samples.functions) = (stacks, functions);
}

/// Intervals behind each other as one.
fn joined(intervals: &[ThreadTimes]) -> ThreadTimes {
    let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    let mut intervals = intervals.iter().copied();
    let first = intervals.next().unwrap_or_default();
    intervals.fold(first, |before, after| ThreadTimes {
        start_ns: before.start_ns,
        end_ns: after.end_ns,
        threads: after.threads,
        on_cpu_ns: sum(before.on_cpu_ns, after.on_cpu_ns),
        run_queue_wait_ns: sum(before.run_queue_wait_ns, after.run_queue_wait_ns),
        pressure_ns: [0, 1, 2].map(|at| sum(before.pressure_ns[at], after.pressure_ns[at])),
    })
}

/// A server that is sampled through an agent on its machine. Dropped, sampling ends.
pub(crate) struct HostProfile {
    host: String,
    link: HostLink,
    first: Offset,
}

impl HostProfile {
    /// Has the server sampled.
    ///
    /// # Errors
    /// Why it is not, in a line.
    pub(super) fn start(host: &str, link: HostLink, server: &str) -> Result<Self, String> {
        let server = server.to_owned();
        match call(&link, ProfileCall::Start { server })? {
            ProfileReturn::Started => {}
            ProfileReturn::Samples(_) => return Err(UNEXPECTED.to_owned()),
        }
        let first = link.read_clock().map_err(|error| error.to_string())?;
        Ok(Self {
            host: host.to_owned(),
            link,
            first,
        })
    }

    /// The samples, with times of this machine's clock.
    ///
    /// # Errors
    /// Why there are none, in a line.
    pub(crate) fn finish(self) -> Result<ProfileSamples, String> {
        let failed = |why: String| format!("host {}: {why}", self.host);
        let last = self.link.read_clock();
        let last = last.map_err(|error| failed(error.to_string()))?;
        match call(&self.link, ProfileCall::Finish).map_err(failed)? {
            ProfileReturn::Samples(samples) => {
                let clock = Conversion::new(self.first, Some(last));
                Ok(ProfileSamples {
                    host: Some(self.host),
                    clock_bound_ns: Some(clock.bound_ns()),
                    ..here(*samples, &clock)
                })
            }
            ProfileReturn::Started => Err(failed(UNEXPECTED.to_owned())),
        }
    }
}

const UNEXPECTED: &str = "the agent said something unexpected";

fn call(link: &HostLink, call: ProfileCall) -> Result<ProfileReturn, String> {
    let call = serde_json::to_vec(&Call::Profile(call)).map_err(|error| error.to_string())?;
    let reply = link.call(call, &mut || {});
    decode(&reply.map_err(|error| error.to_string())?)
}

fn decode(reply: &[u8]) -> Result<ProfileReturn, String> {
    let result: ProfileResult = serde_json::from_slice(reply)
        .map_err(|error| shortened(&format!("the reply of the agent cannot be read: {error}")))?;
    result.map_err(|why| shortened(&why))
}

/// Samples of another machine with times of this clock. The reply is not signed, so what
/// contradicts itself is left out.
fn here(samples: ProfileSamples, clock: &Conversion) -> ProfileSamples {
    let mut samples = limited(samples, SENT_MAX);
    let converted = samples.samples.iter().filter_map(|sample| {
        let at_ns = clock.here(sample.at_ns)?;
        Some(StackSample { at_ns, ..*sample })
    });
    samples.samples = converted.collect();
    samples.samples.sort_unstable_by_key(|sample| sample.at_ns);
    let converted = samples.times.iter().filter_map(|times| {
        let (start_ns, end_ns) = (clock.here(times.start_ns)?, clock.here(times.end_ns)?);
        Some(ThreadTimes {
            start_ns,
            end_ns,
            ..*times
        })
    });
    let mut behind_ns = 0;
    let mut times: Vec<ThreadTimes> = converted.collect();
    times.sort_by_key(|times| times.start_ns);
    times.retain(|times| {
        let is_next = times.start_ns >= behind_ns && times.start_ns < times.end_ns;
        behind_ns = if is_next { times.end_ns } else { behind_ns };
        is_next
    });
    samples.times = times;
    samples.incomplete = samples.incomplete.min(samples.samples.len() as u64);
    samples.target = shortened(&samples.target);
    samples.pressure_of = shortened(&samples.pressure_of);
    samples.notes.truncate(NOTES_MAX);
    for note in &mut samples.notes {
        *note = shortened(note);
    }
    samples
}

/// A text of another machine on one line.
fn shortened(text: &str) -> String {
    let short: String = text.chars().take(NAME_CHARS).collect();
    plan::printable(&short).into_owned()
}

#[cfg(test)]
mod tests {
    use cluster::clock::ClockSource;

    use super::*;

    const AHEAD_NS: i64 = 7 * 3_600_000_000_000;

    fn clock() -> Conversion {
        let offset = Offset {
            offset_ns: AHEAD_NS,
            bound_ns: 50_000,
            at_ns: 0,
            round_trip_ns: 100_000,
            source: ClockSource::Exchanges,
        };
        Conversion::new(offset, None)
    }

    fn there(here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(AHEAD_NS)
    }

    /// Samples of a program with this many stacks of this many functions, each once.
    fn many(stacks: u32, depth: u32) -> ProfileSamples {
        let stack = |number: u32| (0..depth).map(|at| number * depth + at).collect();
        ProfileSamples {
            functions: (0..stacks * depth)
                .map(|at| format!("function_{at}"))
                .collect(),
            stacks: (0..stacks).map(stack).collect(),
            samples: (0..stacks)
                .map(|stack| StackSample {
                    at_ns: there(u64::from(stack) * 10),
                    stack,
                })
                .collect(),
            times: (0..u64::from(stacks))
                .map(|at| ThreadTimes {
                    start_ns: there(at * 10),
                    end_ns: there(at * 10 + 10),
                    threads: 1,
                    on_cpu_ns: Some(5),
                    ..ThreadTimes::default()
                })
                .collect(),
            processes: 1,
            ..ProfileSamples::default()
        }
    }

    fn samples_in(reply: &[u8]) -> ProfileSamples {
        match decode(reply) {
            Ok(ProfileReturn::Samples(samples)) => *samples,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn samples_of_another_clock_come_back_with_times_of_this_one() {
        let sent = many(20, 3);
        let reply = encode_limited(sent.clone(), MAX_CALL_BYTES).expect("plain data");
        let samples = here(samples_in(&reply), &clock());
        assert_eq!(samples.samples.len(), 20);
        for (at, sample) in samples.samples.iter().enumerate() {
            assert_eq!(sample.at_ns, at as u64 * 10);
            let stack = &samples.stacks[sample.stack as usize];
            let names = stack
                .iter()
                .map(|function| &samples.functions[*function as usize]);
            let expected = (0..3).map(|depth| format!("function_{}", at * 3 + depth));
            assert!(names.eq(expected.collect::<Vec<_>>().iter()));
        }
        assert_eq!(
            (samples.times[3].start_ns, samples.times[3].end_ns),
            (30, 40)
        );
        assert_eq!((samples.times.len(), samples.dropped), (20, 0));
    }

    #[test]
    fn too_many_samples_are_thinned_over_the_whole_time_and_counted() {
        let sent = many(2_000, 30);
        let limit = 200_000;
        let reply = encode_limited(sent, limit).expect("plain data");
        assert!(reply.len() as u64 <= limit, "{}", reply.len());
        let samples = here(samples_in(&reply), &clock());
        let kept = samples.samples.len() as u64;
        assert!(kept > 20, "{kept}");
        assert_eq!(samples.dropped, 2_000 - kept);
        let covered_ns = samples.times.last().map(|times| times.end_ns);
        assert_eq!(covered_ns, Some(20_000));
        let on_cpu_ns: Option<u64> = samples.times.iter().map(|it| it.on_cpu_ns).sum();
        assert_eq!(on_cpu_ns, Some(10_000));
    }

    #[test]
    fn what_contradicts_itself_in_a_reply_is_left_out() {
        let times = |start_ns, end_ns| ThreadTimes {
            start_ns,
            end_ns,
            on_cpu_ns: Some(u64::MAX),
            ..ThreadTimes::default()
        };
        let hostile = ProfileSamples {
            target: "\u{1b}[2Jprocess\n7".to_owned(),
            functions: vec!["f\u{7}".repeat(1_000)],
            stacks: vec![vec![0, u32::MAX], vec![]],
            samples: [
                (3, 0),
                (there(9), 0),
                (there(5), 1),
                (there(1), 7),
                (u64::MAX, 0),
            ]
            .map(StackSample::from)
            .to_vec(),
            times: vec![
                times(0, u64::MAX),
                times(there(40), there(30)),
                times(there(10), there(20)),
                times(there(15), there(25)),
            ],
            incomplete: u64::MAX,
            dropped: u64::MAX,
            notes: vec!["\n".repeat(5_000); 5_000],
            ..ProfileSamples::default()
        };
        let reply: ProfileResult = Ok(ProfileReturn::Samples(Box::new(hostile)));
        let reply = serde_json::to_vec(&reply).expect("plain data");
        let samples = here(samples_in(&reply), &clock());
        assert_eq!(samples.target, "?[2Jprocess 7");
        assert_eq!(samples.functions[0].chars().count(), NAME_CHARS);
        assert!(!samples.functions[0].contains('\u{7}'));
        let at: Vec<u64> = samples.samples.iter().map(|sample| sample.at_ns).collect();
        assert_eq!(at[..2], [5, 9]);
        let spans = samples.times.iter().map(|it| (it.start_ns, it.end_ns));
        assert_eq!(spans.collect::<Vec<_>>(), [(10, 20)]);
        assert_eq!((samples.notes.len(), samples.incomplete), (NOTES_MAX, 3));
        // It can be judged.
        let profile = judging::profile(samples, &[[4, 4, 6].into()], (0, 100));
        assert_eq!(profile.samples, 2);
    }

    #[test]
    fn a_reply_that_is_cut_or_something_else_is_an_error_of_one_line() {
        let reply = encode_limited(many(3, 2), MAX_CALL_BYTES).expect("plain data");
        for bad in [&reply[..reply.len() / 2], b"", b"{}", b"[1]", b"\xff"] {
            let error = decode(bad).expect_err("it is no reply");
            assert!(error.contains("cannot be read"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let refused = decode(br#"{"Err":"no process\u001b is called \"x\""}"#);
        assert_eq!(
            refused.err().as_deref(),
            Some("no process? is called \"x\"")
        );
    }

    #[test]
    fn calls_in_a_wrong_order_are_refused() {
        let mut deputy = DeputyProfile::default();
        let reply = deputy.carry_out(ProfileCall::Finish).expect("plain data");
        let refused = decode(&reply).err();
        assert_eq!(refused.as_deref(), Some("no server is being sampled"));
    }
}
