//! The settings of one worker.

use crate::cookies::CookieSite;
use crate::pacing::RequestNumbers;
use crate::{AddressBook, RecordSender};
use eventloop::SocketOptions;
use plan::{Lanes, RunPlan, WeightedLanes};
use protocol::StreamSpec;
use std::time::Duration;

/// The settings of one worker: the plan, and its share of what is dealt out.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The plan of the run. In a run by a fleet, connections and requests are those of this
    /// machine; the pacing, the connections over time and the rate of new ones are those of all
    /// machines.
    pub plan: RunPlan,
    /// The addresses to connect to.
    pub addresses: AddressBook,
    /// Socket options.
    pub options: SocketOptions,
    /// Number of connections of this worker, to each host.
    pub connections: u32,
    /// Number of hosts, at least 1.
    pub hosts: u32,
    /// Batches or streams in flight per connection.
    pub pipeline: u32,
    /// Requests after which a connection is replaced. 1 without keep-alive.
    pub requests_per_connection: u64,
    /// Connections of this worker on which nothing is sent.
    pub idle_connections: u32,
    /// Time limit of a request, and of establishing a connection.
    pub timeout_ns: u64,
    /// Requests to send within the window. `None`: as many as the time allows. In a closed loop, it
    /// is this worker's number; at a fixed rate, the number of the whole run, on all machines.
    pub requests: Option<u64>,
    /// Seed of the back-off's jitter.
    pub seed: u64,
    /// In a replay: the mean time between two requests of the run.
    pub recorded_gap_ns: Option<f64>,
    /// Requests are turns of conversations.
    pub has_conversations: bool,
    /// What the histories of all conversations of this machine may take, bytes. A conversation that
    /// would need more ends, and is counted ([`results::ConversationRecording::memory`]).
    pub histories_max_bytes: usize,
    /// Number of this machine's first worker.
    pub worker_base: u32,
    /// Index of this worker, from 0.
    pub worker: u32,
    /// Number of workers of this machine, which share the source addresses.
    pub workers: u32,
    /// Number of workers of other machines that follow the same schedule.
    pub workers_elsewhere: u32,
    /// If the workers of all machines do not carry the same load: the lanes of this machine's.
    pub weighted: Option<WeightedLanes>,
    /// Who gets a record of each request, if anybody.
    pub records: Option<RecordSender>,
}

/// The usual limit of [`WorkerSettings::histories_max_bytes`].
pub const HISTORIES_MAX_BYTES: usize = 4 << 30;

/// The longest time that the loop polls before a request is due, instead of sleeping. It polls only
/// as long as wake-ups are usually late (docs/decisions/0009-polling-before-a-deadline.md). Most of
/// this time, the thread would not have run anyway.
const SPIN_NS: u64 = 100_000;
/// Upper limit of polling as a share of the time between two requests, so that a fast schedule does
/// not use a whole CPU.
const SPIN_SHARE: f64 = 0.4;
/// Below this time between two requests the loop does not poll for responses: it would hardly
/// sleep.
const RESPONSE_POLL_GAP_MIN_NS: f64 = 200_000.0;

impl WorkerSettings {
    /// Whose cookies connections keep; `None` if they keep none.
    pub(crate) fn cookies(&self) -> Option<CookieSite> {
        let target = &self.plan.target;
        let site = || CookieSite::new(target.scheme.name(), target.host_header.clone());
        self.plan.load.cookies.then(site)
    }

    /// How many requests of a closed loop this worker may send, or how many conversations its users
    /// may begin. With a rate, the schedule ends the
    /// run.
    pub(crate) fn budget(&self) -> u64 {
        let requests = self.requests.filter(|_| !self.plan.pacing.is_scheduled());
        requests.unwrap_or(u64::MAX)
    }

    /// Number of this worker across all machines of a run.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.worker_base + self.worker
    }

    /// Number of workers that follow the schedule, on all machines.
    #[must_use]
    pub fn workers_total(&self) -> u32 {
        self.workers + self.workers_elsewhere
    }

    /// The lanes of this worker in the schedule, and in all else that is dealt out in turn.
    pub(crate) fn lanes(&self) -> Lanes {
        match &self.weighted {
            Some(weighted) => weighted.of(self.worker..self.worker.saturating_add(1)),
            None => {
                let number = self.number();
                Lanes::in_turn(number..number.saturating_add(1), self.workers_total())
            }
        }
    }

    /// The requests of the schedule that this worker has.
    pub(crate) fn request_numbers(&self) -> RequestNumbers {
        match self.workers_elsewhere {
            0 => RequestNumbers::of_machine(self.lanes()),
            _ => RequestNumbers::of_fleet(&self.plan.pacing, self.lanes()),
        }
    }

    /// Number of connections of this worker on which requests are sent, to all hosts.
    pub(crate) fn connections_for_requests(&self) -> u32 {
        self.connections.saturating_mul(self.hosts)
    }

    /// Number of connections of this worker, with the idle ones, which are the last.
    pub(crate) fn connections_total(&self) -> u32 {
        self.connections_for_requests()
            .saturating_add(self.idle_connections)
    }

    /// How sessions split responses into events.
    pub(crate) fn stream_spec(&self) -> Option<StreamSpec> {
        self.plan.events.as_ref().map(|events| StreamSpec {
            format: events.format,
            end_marker: events.end_marker().as_bytes().into(),
            dialect: events.dialect,
            keeps_answers: self.has_conversations,
        })
    }

    /// Whether streams are expected to have an end marker.
    pub(crate) fn has_end_marker(&self) -> bool {
        let events = self.plan.events.as_ref();
        events.is_some_and(|events| !events.end_marker().is_empty())
    }

    /// How long to poll before a request is due. 0 in a closed loop.
    pub(crate) fn spin_ns(&self) -> u64 {
        self.gap_ns()
            .map_or(0, |gap_ns| (gap_ns * SPIN_SHARE).min(SPIN_NS as f64) as u64)
    }

    /// The longest time to poll for a response. 0 in a closed loop.
    pub(crate) fn response_poll_max_ns(&self) -> u64 {
        self.gap_ns()
            .filter(|gap_ns| *gap_ns >= RESPONSE_POLL_GAP_MIN_NS)
            .map_or(0, |gap_ns| (gap_ns * SPIN_SHARE) as u64)
    }

    /// The shortest mean time between two requests of this worker; in a replay, that of the whole
    /// run. `None` in a closed loop.
    fn gap_ns(&self) -> Option<f64> {
        let gap_of_all_ns = match self.recorded_gap_ns {
            Some(gap_ns) => gap_ns,
            None => {
                let fastest_per_sec = self.plan.pacing.rate_curve(Duration::ZERO)?.max_rate();
                1e9 / fastest_per_sec.max(f64::MIN_POSITIVE)
            }
        };
        Some(self.request_numbers().spacing() * gap_of_all_ns)
    }
}
