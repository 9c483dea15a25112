//! What a run yields: counters, histograms and series, their formulas, and the saved document.
//!
//! A worker fills one [`Recording`] that it shares with no other thread. [`Recording::merge`] joins
//! recordings of threads or of machines. A finished run is a [`RunResult`]: the merged recording
//! with the plan, the window, the environment, and the findings of the crate `judging`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod achieved_rate;
mod attribution;
pub mod cells;
mod counted;
mod counters;
mod environment;
mod errors;
pub mod exchange;
pub mod exported;
pub mod file;
mod finding;
pub mod fleet;
mod generator;
mod histogram;
mod intervals;
mod invariants;
mod lags;
mod measured;
pub mod metric;
mod over_time;
pub mod parts;
mod rates;
mod recording;
pub mod records;
mod run_result;
#[cfg(feature = "schema")]
pub mod schema;
mod search;
mod series;
mod server_words;
pub mod snapshot;
mod suggestion;
mod summary;
mod trial;
mod verdict;
mod warning;

pub use achieved_rate::AchievedRate;
pub use attribution::{Attribution, LatencyParts, Standstill};
pub use counted::Counted;
pub use counters::{Counters, Statuses};
pub use environment::Environment;
pub use errors::{ErrorCount, ErrorKind, Errors, Legacy};
pub use finding::Finding;
pub use fleet::{AgentOutcome, AgentResult, LostShare, PlaceResult};
pub use generator::{
    Generator, LagDigest, LocalServer, MachineUsage, ThreadUsage, WorkerLags, WorkerUsage,
};
pub use histogram::{BucketsError, Histogram, HistogramError};
pub use intervals::{Interval, Intervals};
pub use invariants::{Contradiction, check};
pub use lags::Lags;
pub use measured::{Measured, Samples};
pub use metric::{Better, Metric, UnknownMetric};
pub use parts::PartRecordings;
pub use parts::breakdown::{
    BreakdownRange, BreakdownRecording, LISTED, SERVER_METRICS_MAX, ServerTimes, ServerTiming,
    SlowPath, SlowRequest, SlowSpan, TOTAL, TraceId, latency_range,
};
pub use parts::conversations::{ConversationRecording, TURN_GROUPS, TurnRecording, turn_group};
pub use parts::events::EventRecording;
pub use parts::good::GoodRecording;
pub use parts::llm::{FinishCounts, FirstError, LlmRecording};
pub use parts::log::ComparedWithLog;
pub use parts::names::NameRecording;
pub use parts::profile::{
    FoldedStack, FunctionShare, Profile, ProfileComparison, ProfileDifference, ProfileSamples,
    ShareByTime, SlowTime, StackSample, ThreadState, ThreadTimes, TimeShare,
};
pub use parts::quic::QuicRecording;
pub use parts::telemetry::{SocketMoment, SocketSummary, SocketTimeline, Spread, Telemetry};
pub use rates::Rates;
pub use recording::{Phases, Recording};
pub use run_result::{Backend, RunResult, SCHEMA_VERSION, Settling, Window};
pub use search::{
    SearchBound, SearchDoubt, SearchEnd, SearchOutcome, SearchOver, SearchPhase, SearchStep,
};
pub use series::{Series, SeriesRow};
pub use server_words::server_words;
pub use suggestion::nearest;
pub use summary::{
    Distribution, EventSummary, LagSummaries, LlmSummary, NameSummary, Percentile, PhaseSummaries,
    RateSummary, SAMPLES_ABOVE_MIN, SocketErrors, Summary, enough_samples, is_thin, percent,
    samples_above,
};
pub use trial::{
    Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, HookOutput, Order, PLACE_FACTOR, Setting,
    Stopping, Trial, TrialOutcome,
};
pub use verdict::{OwnShare, Symptom, Verdict};
pub use warning::{SlowStart, Warning};
