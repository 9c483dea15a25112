//! Requests from a file: reads it and what it names.

use crate::{Invocation, RunnerError};
use plan::{RequestFile, RunPlan, Target};
use requests::{Defaults, Inputs, RequestSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The option that names the file, in messages.
const OPTION: &str = "--request-file";

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The requests of a plan's file. `headers` are those of every request.
pub(crate) fn load(
    plan: &RunPlan,
    file: &RequestFile,
    headers: &[(String, String)],
    invocation: &Invocation,
) -> Result<RequestSet, RunnerError> {
    let defaults = Defaults {
        target: Some(&plan.target),
        headers,
        order: file.order,
    };
    with_inputs(&file.path, invocation, |inputs| {
        requests::load(inputs, &defaults)
    })
}

/// The requests of a plan's file as a file that names no other one and no environment variable.
pub(crate) fn self_contained(
    file: &RequestFile,
    invocation: &Invocation,
) -> Result<Vec<u8>, RunnerError> {
    with_inputs(&file.path, invocation, requests::self_contained)
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

fn with_inputs<R>(
    path: &Path,
    invocation: &Invocation,
    use_file: impl FnOnce(&Inputs<'_>) -> Result<R, requests::FileError>,
) -> Result<R, RunnerError> {
    let text = read(path).map_err(|error| RunnerError::File {
        option: OPTION,
        path: path.to_owned(),
        error,
    })?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    // The file of an agent has everything in it. Whoever gives orders must not get at its files.
    let is_agent = invocation.fleet.is_some();
    let read_named = |name: &str| match is_agent {
        true => Err(io::Error::other("an agent reads no files for requests")),
        false => read(&folder.join(name)),
    };
    let inputs = Inputs {
        file: &path.display().to_string(),
        text: &text,
        read: &read_named,
        variable: &|name| invocation.variables.get(name),
    };
    Ok(use_file(&inputs)?)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut content)?;
    match content.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other("the file is larger than 1 GiB")),
        false => Ok(content),
    }
}
