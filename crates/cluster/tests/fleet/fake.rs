//! A load generator that makes no load.

use std::sync::{Arc, Mutex, MutexGuard};

use cluster::generator::{Generator, GeneratorEvent, Work};
use cluster::names::Label;
use cluster::refusal::Refusal;

/// What the generator does, and what was done with it.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its clock. The simulation sets it.
    pub(crate) now_ns: u64,
    /// How long it prepares.
    pub(crate) prepares_ns: u64,
    /// How long its load lasts.
    pub(crate) lasts_ns: u64,
    /// Why it cannot prepare.
    pub(crate) refusal: Option<Refusal>,
    /// Why it cannot prepare, or why its load fails.
    pub(crate) failure: Option<&'static str>,
    /// Whether it fails in the middle of its load.
    pub(crate) fails_late: bool,
    /// Whether it goes on when it is told to stop.
    pub(crate) never_stops: bool,
    pub(crate) result: Vec<u8>,
    /// When it was told to start.
    pub(crate) start_ns: Option<u64>,
    /// When its load ended.
    pub(crate) ended_ns: Option<u64>,
    /// What it was told to prepare.
    pub(crate) work: Option<Work>,
    /// The names and contents of the files that came with it.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) discarded: u32,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            now_ns: 0,
            prepares_ns: 0,
            lasts_ns: 2_000_000_000,
            refusal: None,
            failure: None,
            fails_late: false,
            never_stops: false,
            result: b"a result".to_vec(),
            start_ns: None,
            ended_ns: None,
            work: None,
            files: Vec::new(),
            discarded: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FakeState {
    Idle,
    Preparing { until_ns: u64 },
    Prepared,
    Running { until_ns: u64, snapshot_ns: u64 },
    Stopped,
}

/// A load generator that makes no load. Clones share what they do.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    script: Arc<Mutex<Script>>,
    state: Arc<Mutex<FakeState>>,
}

impl Fake {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script: Arc::new(Mutex::new(script)),
            state: Arc::new(Mutex::new(FakeState::Idle)),
        }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no test panics with it")
    }

    fn set(&self, state: FakeState) {
        *self.state.lock().expect("no test panics with it") = state;
    }
}

impl Generator for Fake {
    fn prepare(&mut self, work: Work) {
        let mut script = self.script();
        let mut folders = vec![work.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("it is there") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&work.folder).expect("it is below");
                let name = name.to_str().expect("UTF-8").to_owned();
                script
                    .files
                    .push((name, std::fs::read(&path).expect("it is readable")));
            }
        }
        script.files.sort();
        let until_ns = script.now_ns + script.prepares_ns;
        script.work = Some(work);
        drop(script);
        self.set(FakeState::Preparing { until_ns });
    }

    fn start_at(&mut self, start_ns: u64) {
        let mut script = self.script();
        script.start_ns = Some(start_ns);
        let until_ns = start_ns + script.lasts_ns;
        drop(script);
        self.set(FakeState::Running {
            until_ns,
            snapshot_ns: start_ns,
        });
    }

    fn stop(&mut self) {
        if !self.script().never_stops {
            self.set(FakeState::Stopped);
        }
    }

    fn discard(&mut self) {
        self.script().discarded += 1;
        self.set(FakeState::Idle);
    }

    fn next_event(&mut self) -> Option<GeneratorEvent> {
        let mut script = self.script();
        let now_ns = script.now_ns;
        let state = *self.state.lock().expect("no test panics with it");
        match state {
            FakeState::Idle | FakeState::Prepared => None,
            FakeState::Preparing { until_ns } if now_ns < until_ns => None,
            FakeState::Preparing { .. } => {
                self.set(FakeState::Prepared);
                if let Some(refusal) = script.refusal.clone() {
                    return Some(GeneratorEvent::Refused(refusal));
                }
                match script.failure {
                    Some(failure) if !script.fails_late => {
                        Some(GeneratorEvent::Failed(failure.to_owned()))
                    }
                    _ => Some(GeneratorEvent::Prepared(vec![Label::new("a note")])),
                }
            }
            FakeState::Running { until_ns, .. } if now_ns >= until_ns => {
                self.set(FakeState::Idle);
                script.ended_ns = Some(now_ns);
                Some(GeneratorEvent::Finished(script.result.clone()))
            }
            FakeState::Running {
                until_ns,
                snapshot_ns,
            } => {
                if now_ns < snapshot_ns {
                    return None;
                }
                if script.fails_late {
                    self.set(FakeState::Idle);
                    let failure = script.failure.unwrap_or("it failed");
                    return Some(GeneratorEvent::Failed(failure.to_owned()));
                }
                self.set(FakeState::Running {
                    until_ns,
                    snapshot_ns: snapshot_ns + 1_000_000_000,
                });
                Some(GeneratorEvent::Progress(
                    serde_json::json!({"at_ns": now_ns}),
                ))
            }
            FakeState::Stopped => {
                self.set(FakeState::Idle);
                script.ended_ns = Some(now_ns);
                Some(GeneratorEvent::Finished(b"until it was stopped".to_vec()))
            }
        }
    }
}
