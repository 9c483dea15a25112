//! What a worker counts and times.

use super::WorkerSettings;
use super::breakdown::Breakdown;
use super::connections::Abandoned;
use super::packets::PacketsBefore;
use super::read_late::ReadLate;
use super::reporting::ProgressReporter;
use super::silence::Silence;
use super::stall::StallDetector;
use super::usage::UsageMeter;
use super::watch::Watch;
use crate::UsageProbe;
use crate::recorder::{AnsweredTimes, Recorder};
use results::ErrorKind;

/// What a worker counts and times: responses, errors, and whose delay each time contains.
///
/// It is a value of its own so that it can be told everything and changes nothing: its functions
/// get the connections or the requests that they are about as arguments, and neither open a
/// connection nor send a request. An optional measurement is a field that is `None` when it is off,
/// here or in the [`Recorder`].
pub(super) struct Accounting {
    /// Absent only while a script runs, see [`StuckGuard`](crate::control::StuckGuard).
    pub(super) recorder: Option<Box<Recorder>>,
    /// Set if it is recorded what the latency consists of.
    pub(super) breakdown: Option<Box<Breakdown>>,
    /// When bytes arrived, and when the worker did not run.
    pub(super) watch: Watch,
    /// Requests that were answered after the last wait, with their connections. A timestamp may
    /// still show that their responses were read late.
    pub(super) doubtful: Vec<(u32, AnsweredTimes)>,
    /// How long the bytes of the current completion waited to be read.
    pub(super) read_late: ReadLate,
    /// Pauses after which the server has not responded yet.
    pub(super) silence: Silence,
    pub(super) stall: StallDetector,
    pub(super) usage: UsageMeter,
    /// Set if there is an observer.
    pub(super) reporter: Option<ProgressReporter>,
    pub(super) first_error_detail: Option<(ErrorKind, String)>,
    /// Over datagrams: what was counted before the window.
    pub(super) packets_before: PacketsBefore,
}

impl Accounting {
    /// `has_unstamped`: some connections have no timestamps.
    pub(super) fn new(
        settings: &WorkerSettings,
        has_unstamped: bool,
        usage_probe: Option<Box<dyn UsageProbe>>,
    ) -> Self {
        Self {
            recorder: None,
            breakdown: Breakdown::new(settings),
            watch: Watch::new(has_unstamped),
            doubtful: Vec::new(),
            read_late: ReadLate::default(),
            silence: Silence::default(),
            stall: StallDetector::new(0, 0),
            usage: UsageMeter::new(usage_probe),
            reporter: None,
            first_error_detail: None,
            packets_before: PacketsBefore::default(),
        }
    }

    /// A connection was closed that has left this.
    pub(super) fn abandoned(&mut self, abandoned: &Abandoned, at_ns: u64) {
        if abandoned.requests > 0 {
            self.stall.settled_ns = at_ns;
        }
        let recorder = self.recorder();
        recorder.left(abandoned.requests, at_ns);
        if let Some((bytes, labels)) = abandoned.partial
            && recorder.is_in_window(at_ns)
        {
            recorder.bytes(bytes, labels);
        }
    }

    #[inline]
    pub(super) fn recorder(&mut self) -> &mut Recorder {
        self.recorder
            .as_mut()
            .expect("a recorder is parked only while the script runs")
    }
}
