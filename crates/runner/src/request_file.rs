//! Requests from a file: reads it and what it names.

use crate::{Invocation, RunnerError};
use grpc::Schema;
use plan::readable::{count, counted};
use plan::{RequestFile, RunPlan, Target};
use requests::{Calls, Defaults, FilePace, Inputs, LogError, LogOptions, LogSummary, RequestSet};
use std::io;
use std::path::Path;

/// The option that names the file, in messages.
const OPTION: &str = "--request-file";

/// The largest file of requests, and of a body.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;

/// The largest log. It is not kept in memory, but a pipe may be endless.
const MAX_LOG_BYTES: u64 = 1 << 40;

/// The requests of a file, and what to tell the user about them, one line each.
pub(crate) struct LoadedRequests {
    pub(crate) set: RequestSet,
    pub(crate) notes: Vec<String>,
}

/// Reads the requests of a plan's file. `headers` are those of every request, `types` those of the
/// messages of gRPC calls.
pub(crate) fn load(
    plan: &RunPlan,
    file: &RequestFile,
    headers: &[(String, String)],
    types: Option<&Schema>,
    invocation: &Invocation,
) -> Result<LoadedRequests, RunnerError> {
    let defaults = Defaults {
        target: Some(&plan.target),
        headers,
        calls: plan.load.protocol.is_grpc().then_some(Calls { types }),
        own_hosts: file.own_hosts,
        order: file.order,
    };
    let Some((log, speed)) = file.log.as_ref().zip(plan.pacing.speed()) else {
        let set = with_inputs(&file.path, invocation, |inputs| match plan.pacing.speed() {
            Some(speed) => requests::load_with_moments(inputs, &defaults, speed),
            None => requests::load(inputs, &defaults),
        })?;
        return Ok(LoadedRequests {
            set,
            notes: Vec::new(),
        });
    };
    let options = LogOptions {
        format: log.log_format.as_deref(),
        all_methods: log.all_methods,
        speed,
    };
    let unreadable = |error| RunnerError::File {
        option: "--replay",
        path: file.path.clone(),
        error,
    };
    let mut input = files::open_unpacked(&file.path, MAX_LOG_BYTES).map_err(unreadable)?;
    let (set, summary) = requests::load_log(&shown(&file.path), &mut input, &defaults, &options)
        .map_err(|error| match error {
            LogError::Read(error) => unreadable(error),
            LogError::File(error) => error.into(),
        })?;
    Ok(LoadedRequests {
        set,
        notes: notes_of(&summary),
    })
}

/// What a replay cannot know or does not send.
fn notes_of(summary: &LogSummary) -> Vec<String> {
    let LogSummary {
        lines,
        requests,
        without_body,
        unsafe_left_out,
        unusable,
        first_unusable,
        in_seconds,
    } = summary;
    let mut notes = vec![format!(
        "the log has {}, of which {} sent",
        counted(*lines, "line"),
        match requests {
            1 => "1 is".to_owned(),
            _ => format!("{} are", count(*requests)),
        }
    )];
    if *unsafe_left_out > 0 {
        notes.push(format!(
            "left out: {} with other methods than GET, HEAD and OPTIONS; --all-methods sends them, \
             without bodies",
            counted(*unsafe_left_out, "request")
        ));
    }
    if *without_body > 0 {
        notes.push(format!(
            "sent without a body, because a log has none: {} with other methods than GET, HEAD and \
             OPTIONS",
            counted(*without_body, "request")
        ));
    }
    if let Some(first) = first_unusable {
        notes.push(format!(
            "left out: {} that cannot be sent; the first is {first}",
            counted(*unusable, "line")
        ));
    }
    if *in_seconds {
        notes.push(
            "the times in the log are in seconds, so requests are spread evenly over each second"
                .to_owned(),
        );
    }
    notes
}

/// The requests of a plan's file as a file that names no other one and no environment variable.
pub(crate) fn self_contained(
    file: &RequestFile,
    types: Option<&Schema>,
    invocation: &Invocation,
) -> Result<Vec<u8>, RunnerError> {
    with_inputs(&file.path, invocation, |inputs| {
        requests::self_contained(inputs, types)
    })
}

/// Where the first request of a file goes that has an absolute URL; `None` if all have only paths.
///
/// # Errors
/// If the file cannot be read or used.
pub fn target_of_request_file(
    path: &Path,
    invocation: &Invocation,
) -> Result<Option<Target>, RunnerError> {
    with_inputs(path, invocation, requests::first_target)
}

/// What says when the requests of a file are due. If that cannot be found out, reading the file for
/// the run says why.
#[must_use]
pub fn pace_of_request_file(path: &Path, invocation: &Invocation) -> FilePace {
    with_inputs(path, invocation, requests::pace).unwrap_or(FilePace::Options)
}

fn with_inputs<R>(
    path: &Path,
    invocation: &Invocation,
    use_file: impl FnOnce(&Inputs<'_>) -> Result<R, requests::FileError>,
) -> Result<R, RunnerError> {
    let text = files::read_unpacked(path, MAX_FILE_BYTES).map_err(|error| RunnerError::File {
        option: OPTION,
        path: path.to_owned(),
        error,
    })?;
    // Names in what comes through stdin or a pipe are relative to the current folder.
    let is_stream = path.starts_with("/dev") || path.starts_with("/proc");
    let folder = path.parent().filter(|_| !is_stream);
    let folder = folder.unwrap_or_else(|| Path::new(""));
    // The file of an agent has everything in it. Whoever gives orders must not get at its files.
    let is_agent = invocation.fleet.is_some();
    let read_named = |name: &str| {
        if is_agent {
            Err(io::Error::other("an agent reads no files for requests"))
        } else {
            files::read_regular(&folder.join(name), MAX_FILE_BYTES)
        }
    };
    let inputs = Inputs {
        file: &shown(path),
        text: &text,
        read: &read_named,
        variable: &|name| invocation.variables.get(name),
    };
    Ok(use_file(&inputs)?)
}

/// The name of a file in messages.
fn shown(path: &Path) -> String {
    if path == Path::new(files::STDIN) {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    }
}
