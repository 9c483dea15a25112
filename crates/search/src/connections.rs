//! The number of connections of runs: enough for them not to limit the rate.

/// How many connections runs have at first, and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Connections of the first run; at least 1.
    pub first: u32,
    /// The largest number of connections of a run; at least `first`.
    pub most: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            first: 10,
            most: 100,
        }
    }
}

/// A closed loop with twice the connections makes at least this many times the rate if the
/// connections limit it.
const GAIN: f64 = 1.1;

/// Two closed loops agree if their rates differ by at most this factor. A server that is still
/// warming up has loops that do not.
const AGREEMENT: f64 = 1.1;

/// The most closed loops in a row that do not agree: the rate of some servers varies that much.
const REPEATS_MAX: u32 = 10;

/// Closed loops with more and more connections, which show whether these limit the rate, and then
/// with the same number until two agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pool {
    settings: Connections,
    now: u32,
    /// The highest rate of a closed loop, and its number of connections.
    best: Option<(f64, u32)>,
    /// The rate of the last closed loop.
    last: Option<f64>,
    /// The number of connections is known.
    is_settled: bool,
    /// Closed loops that were made with that number, one after the other.
    repeats: u32,
    /// The last doubling still raised the rate, and there are no more connections.
    is_short: bool,
}

impl Pool {
    pub(crate) fn new(settings: Connections) -> Self {
        let first = settings.first.max(1);
        Self {
            settings: Connections {
                first,
                most: settings.most.max(first),
            },
            now: first,
            best: None,
            last: None,
            is_settled: false,
            repeats: 0,
            is_short: false,
        }
    }

    /// The connections of the next run.
    pub(crate) fn connections(&self) -> u32 {
        self.now
    }

    /// The rate of the best closed loop, good responses per second; `None` before the first one.
    pub(crate) fn ceiling(&self) -> Option<f64> {
        self.best.map(|(rate, _)| rate)
    }

    /// Whether even the largest number of connections may limit the rate.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Takes the rate of a closed loop. Returns whether another one is needed.
    pub(crate) fn record(&mut self, rate: f64) -> bool {
        let last = self.last.replace(rate);
        if !self.is_settled && self.grows(rate) {
            return true;
        }
        self.is_settled = true;
        self.repeats += 1;
        if self.best.is_none_or(|(best, _)| rate > best) {
            self.best = Some((rate, self.now));
        }
        let agrees = |last: f64| (1.0 / AGREEMENT..=AGREEMENT).contains(&(rate / last));
        !last.is_some_and(agrees) && self.repeats < REPEATS_MAX
    }

    /// A rate above the ceiling was carried, so the ceiling is measured again.
    pub(crate) fn repeat(&mut self) {
        self.repeats = 0;
    }

    /// Whether a closed loop with more connections is needed after one with this rate.
    fn grows(&mut self, rate: f64) -> bool {
        let gains = self.best.is_none_or(|(best, _)| rate >= GAIN * best);
        if let (false, Some((_, connections))) = (gains, self.best) {
            self.now = connections;
            return false;
        }
        self.best = Some((rate, self.now));
        let next = self.now.saturating_mul(2).min(self.settings.most);
        if next == self.now {
            // There is no second run that would show a gain. The requests of a later run show it:
            // they wait for a connection.
            self.is_short = true;
            return false;
        }
        self.now = next;
        true
    }
}
