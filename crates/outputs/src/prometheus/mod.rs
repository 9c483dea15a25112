//! `--prometheus`: the metrics of a run in progress, for Prometheus to scrape.
//!
//! The main thread leaves the latest snapshot where a thread with a small HTTP server finds it, and
//! does nothing else: whoever scrapes, and however slowly, changes nothing of the run.

mod accept;
mod families;
mod protobuf;
mod server;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Observer, monotonic_ns};
use results::Verdict;
use results::snapshot::Snapshot;

use crate::attributes::Attributes;
use crate::{Event, Output};

/// The longest that the end of the program waits for a scrape, nanoseconds: Prometheus scrapes once
/// a minute unless it is told otherwise.
const LAST_SCRAPE_MAX_NS: u64 = 65_000_000_000;

/// The shortest, nanoseconds.
const LAST_SCRAPE_MIN_NS: u64 = 1_000_000_000;

/// What is scraped now.
#[derive(Debug, Default)]
struct Current {
    attributes: Vec<(String, String)>,
    /// `None` before the first run.
    snapshot: Option<Snapshot>,
    verdict: Option<Verdict>,
}

/// When there were scrapes.
#[derive(Debug, Default)]
struct Scrapes {
    count: u64,
    latest_ns: u64,
    longest_gap_ns: u64,
    /// Since the latest change.
    is_current: bool,
}

#[derive(Debug, Default)]
struct ScrapeState {
    current: Arc<Current>,
    scrapes: Scrapes,
}

#[derive(Debug, Default)]
struct SharedScrapeState {
    state: Mutex<ScrapeState>,
    /// There was a scrape.
    scraped: Condvar,
}

impl SharedScrapeState {
    fn lock(&self) -> MutexGuard<'_, ScrapeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Arc<Current> {
        self.lock().current.clone()
    }

    fn set(&self, current: Current) {
        let mut state = self.lock();
        state.scrapes.is_current = false;
        let before = std::mem::replace(&mut state.current, Arc::new(current));
        drop(state);
        // Not while the lock is held: it frees the memory of histograms.
        drop(before);
    }

    /// A scrape of this state was sent completely.
    fn note_scrape(&self, scraped: &Arc<Current>, now_ns: u64) {
        let mut state = self.lock();
        let is_current = Arc::ptr_eq(&state.current, scraped);
        let scrapes = &mut state.scrapes;
        if scrapes.count > 0 {
            let gap_ns = now_ns.saturating_sub(scrapes.latest_ns);
            scrapes.longest_gap_ns = scrapes.longest_gap_ns.max(gap_ns);
        }
        scrapes.count += 1;
        scrapes.latest_ns = now_ns;
        scrapes.is_current |= is_current;
        self.scraped.notify_all();
    }
}

impl Scrapes {
    /// How long the end of the program waits for the next one: not at all if nobody has scraped, or
    /// if the last values were scraped.
    fn wait(&self, now_ns: u64) -> Duration {
        if self.count == 0 || self.is_current {
            return Duration::ZERO;
        }
        let since_ns = now_ns.saturating_sub(self.latest_ns);
        let gap_ns = self.longest_gap_ns.max(since_ns).saturating_mul(2);
        Duration::from_nanos(gap_ns.clamp(LAST_SCRAPE_MIN_NS, LAST_SCRAPE_MAX_NS))
    }
}

/// Serves the metrics of runs.
pub struct Prometheus {
    shared: Arc<SharedScrapeState>,
    attributes: Attributes,
    address: SocketAddr,
}

impl Prometheus {
    /// Serves them at the first of these addresses that can be used.
    ///
    /// # Errors
    /// When none can, or the system cannot create a thread.
    pub fn listen(addresses: &[SocketAddr]) -> io::Result<Self> {
        let listener = TcpListener::bind(addresses)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(SharedScrapeState::default());
        server::start(listener, shared.clone())?;
        let prometheus = Self {
            shared,
            attributes: Attributes::default(),
            address,
        };
        prometheus.set(None, None);
        Ok(prometheus)
    }

    fn set(&self, snapshot: Option<Snapshot>, verdict: Option<Verdict>) {
        self.shared.set(Current {
            attributes: self.attributes.all(),
            snapshot,
            verdict,
        });
    }
}

impl Observer for Prometheus {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.set(Some(snapshot.clone()), None);
    }
}

impl Output for Prometheus {
    fn event(&mut self, event: &Event<'_>) {
        self.attributes.note(event);
        match event {
            // From zero: what a first scrape finds would not count as an increase.
            Event::Start(_) => self.set(Some(Snapshot::default()), None),
            Event::End(end) => {
                if let Ok(result) = end.result {
                    let verdict = result.generator.verdict.clone();
                    self.set(Some(Snapshot::at_end(result)), Some(verdict));
                }
            }
            _ => {}
        }
    }

    fn note(&self) -> Option<String> {
        Some(format!("metrics at http://{}/metrics", self.address))
    }

    fn waits_for(&self) -> Option<String> {
        let wait = self.shared.lock().scrapes.wait(monotonic_ns());
        (!wait.is_zero()).then(|| {
            let seconds = wait.as_secs_f64().ceil();
            format!("--prometheus: waiting up to {seconds} s for the last scrape (Ctrl-C ends it)")
        })
    }

    fn close(&mut self) -> Vec<String> {
        let state = self.shared.lock();
        let wait = state.scrapes.wait(monotonic_ns());
        let is_missing = |state: &mut ScrapeState| !state.scrapes.is_current;
        // What was not scraped is in the result: no reason for a warning.
        drop(
            self.shared
                .scraped
                .wait_timeout_while(state, wait, is_missing),
        );
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_those_who_scrape_and_for_nobody_else() {
        const S: u64 = 1_000_000_000;
        let shared = SharedScrapeState::default();
        let wait_s = |now_s: u64| shared.lock().scrapes.wait(now_s * S).as_secs();
        assert_eq!(wait_s(100), 0);
        shared.note_scrape(&shared.current(), 10 * S);
        shared.set(Current::default());
        // The interval is not known yet.
        assert_eq!(wait_s(13), 6);
        shared.note_scrape(&shared.current(), 15 * S);
        assert_eq!(wait_s(16), 0);
        let before = shared.current();
        shared.set(Current::default());
        assert_eq!(wait_s(16), 10);
        assert_eq!(wait_s(1_000), 65);
        // That of the previous state does not have the last values.
        shared.note_scrape(&before, 20 * S);
        assert_eq!(wait_s(20), 10);
        shared.note_scrape(&shared.current(), 25 * S);
        assert_eq!(wait_s(26), 0);
    }
}
