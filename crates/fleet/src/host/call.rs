//! What a deputy is asked to do: to change its machine for a sweep, or to profile a server there.

use experiment::HostCall;
use results::ProfileSamples;
use serde::{Deserialize, Serialize};

/// What a deputy is asked to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// The reply is an [`experiment::HostResult`].
    Change(HostCall),
    /// The reply is the samples, or an error in a line.
    Profile(ProfileCall),
}

/// What a deputy does for a profile.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileCall {
    /// Find the server and begin to sample it.
    Start {
        /// The number of a process, a systemd unit, or the name of processes.
        server: String,
    },
    /// End sampling and hand over the samples.
    Finish,
}

/// What a call for a profile returns, or why it failed, in a line.
pub(super) type ProfileResult<S = Box<ProfileSamples>> = Result<ProfileReturn<S>, String>;

/// What a successful call for a profile returns.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProfileReturn<S = Box<ProfileSamples>> {
    /// The server is being sampled.
    Started,
    /// The reply to [`ProfileCall::Finish`], with times of the clock of that machine.
    Samples(S),
}
