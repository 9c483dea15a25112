//! Names that are looked up again while a run goes on.

use client::{Permit, SystemNetwork};
use engine::{Address, AddressBook};
use plan::readable::counted;
use plan::{DnsUse, RunPlan, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks a name up again, while a run goes on.
pub(crate) struct Lookups {
    network: SystemNetwork,
    dns: DnsUse,
    target: Target,
    every: Duration,
}

/// How often names were looked up again, and what changed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LookupCounts {
    lookups: u64,
    changes: u64,
    failures: u64,
}

/// The longest time until a thread that looks names up notices the end of the run.
const STOP_POLL: Duration = Duration::from_millis(20);

impl Lookups {
    /// `None` if the plan looks names up only once.
    pub(crate) fn of(plan: &RunPlan, permit: Permit) -> Option<Self> {
        Some(Self {
            network: SystemNetwork::new(plan, permit),
            dns: plan.addresses.dns,
            target: plan.target.clone(),
            every: plan.addresses.resolve_every?,
        })
    }

    /// Looks names up from now on, in a thread of its own: a lookup may take long. `None` if there
    /// is none to be had; then the addresses do not change.
    pub(crate) fn start(self, book: AddressBook) -> Option<RunningLookups> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("lookups".to_owned());
        let thread = thread.spawn(move || self.run(&book, &stopped)).ok()?;
        Some(RunningLookups { thread, stop })
    }

    /// Looks the name up whenever the time has passed, until told to stop. The addresses are not
    /// tried: one that refuses connections is counted during the run.
    fn run(self, book: &AddressBook, stop: &AtomicBool) -> LookupCounts {
        let mut counts = LookupCounts::default();
        let mut slept = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let pause = STOP_POLL.min(self.every.saturating_sub(slept));
            std::thread::park_timeout(pause);
            slept += pause;
            if slept < self.every {
                continue;
            }
            slept = Duration::ZERO;
            counts.lookups += 1;
            let Target { host, service, .. } = &self.target;
            match self.network.permitted_addresses(host, service) {
                Ok(addresses) => counts.changes += u64::from(self.update(book, addresses)),
                Err(_) => counts.failures += 1,
            }
        }
        counts
    }

    fn update(&self, book: &AddressBook, mut addresses: Vec<Address>) -> bool {
        if self.dns == DnsUse::First {
            // Names with several addresses are often rotated, which is no reason to move.
            if book.is_using_any(&addresses) {
                return false;
            }
            addresses.truncate(1);
        }
        book.replace(addresses)
    }
}

/// Lookups that go on.
pub(crate) struct RunningLookups {
    thread: JoinHandle<LookupCounts>,
    stop: Arc<AtomicBool>,
}

/// The end of a run does not wait longer than this for a lookup.
const END_WAIT: Duration = Duration::from_millis(200);

impl RunningLookups {
    /// Ends them. `None` if one is still under way.
    pub(crate) fn end(self) -> Option<LookupCounts> {
        self.stop.store(true, Ordering::Relaxed);
        let mut waited = Duration::ZERO;
        while !self.thread.is_finished() && waited < END_WAIT {
            std::thread::park_timeout(STOP_POLL);
            waited += STOP_POLL;
        }
        let is_over = self.thread.is_finished();
        is_over.then(|| self.thread.join().ok()).flatten()
    }
}

impl LookupCounts {
    /// A note for the user, in one line.
    pub(crate) fn note(&self) -> String {
        let Self {
            lookups,
            changes,
            failures,
        } = self;
        let failed = match failures {
            0 => String::new(),
            _ => format!("; {} failed", counted(*failures, "lookup")),
        };
        format!(
            "the name was looked up {} during the run, and its addresses changed {}{failed}",
            counted(*lookups, "time"),
            counted(*changes, "time")
        )
    }
}
