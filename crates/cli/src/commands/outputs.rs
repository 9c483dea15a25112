//! Opens the outputs that hand a run in progress to other programs.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, RawFd};
use std::path::Path;

use anyhow::{Context, bail};
use outputs::otlp::{Otlp, Settings};
use outputs::prometheus::Prometheus;
use outputs::{Observers, Output, Sink, Stream};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;

use super::result_file::{self, Opened, Readers};
use crate::args::{OutputsArgs, Refusal, StreamTarget};
use crate::console::Console;

/// Refuses what cannot work, before anything else is opened or changed. `tui` is whether the screen
/// is asked for.
///
/// # Errors
/// When a destination cannot be written, or would be written over the screen.
pub(super) fn check(arguments: &OutputsArgs, tui: bool, console: &Console) -> anyhow::Result<()> {
    match &arguments.stream {
        Some(StreamTarget::Stdout) if tui && console.stdout.is_terminal => {
            bail!("--stream -: stdout is the terminal of --tui (expected a file or a pipe)")
        }
        Some(StreamTarget::Descriptor(number)) => descriptor(*number).map(drop),
        Some(StreamTarget::File(path)) => result_file::check_destination("--stream", path),
        Some(StreamTarget::Stdout) | None => Ok(()),
    }
}

/// Whether the lines of a stream are on a terminal, where a progress line would be between them.
pub(super) fn are_on_terminal(arguments: &OutputsArgs, console: &Console) -> bool {
    arguments.take_stdout() && console.stdout.is_terminal
}

/// Opens them. `stdout` is the real one if a stream goes there.
///
/// # Errors
/// When one cannot be opened.
pub(super) fn open(
    arguments: &OutputsArgs,
    readers: Readers,
    stdout: Option<File>,
    console: &Console,
) -> anyhow::Result<Vec<Box<dyn Output>>> {
    let mut outputs: Vec<Box<dyn Output>> = Vec::new();
    if let Some(target) = &arguments.stream {
        let sink = match (target, stdout) {
            (StreamTarget::Stdout, Some(stdout)) => Sink::shared(stdout),
            (StreamTarget::Stdout, None) => Sink::shared(duplicate(io::stdout())?),
            (StreamTarget::Descriptor(number), _) => Sink::shared(descriptor(*number)?),
            (StreamTarget::File(path), _) => file(path, readers)?,
        };
        let stream = Stream::new(sink, unix_ns).context("--stream: cannot start a thread")?;
        outputs.push(Box::new(stream));
    }
    if let Some(address) = &arguments.prometheus {
        outputs.push(Box::new(prometheus(address)?));
    }
    if let Some(value) = &arguments.otlp {
        let variable = |name: &str| console.variable(name)?.into_string().ok();
        let settings = Settings::of(value, variable).map_err(|error| Refusal(error.to_string()))?;
        outputs.push(Box::new(Otlp::start(settings, unix_ns).context("--otlp")?));
    }
    Ok(outputs)
}

pub(crate) fn prometheus(address: &str) -> anyhow::Result<Prometheus> {
    let addresses = address.to_socket_addrs();
    let addresses = addresses.with_context(|| format!("--prometheus {address}: unknown host"))?;
    let mut addresses: Vec<SocketAddr> = addresses.collect();
    // A machine may have no IPv6.
    let any_v4 = addresses.iter().filter(|it| it.ip().is_unspecified());
    let any_v4: Vec<SocketAddr> = any_v4
        .map(|it| (Ipv4Addr::UNSPECIFIED, it.port()).into())
        .collect();
    addresses.extend(any_v4);
    Prometheus::listen(&addresses)
        .with_context(|| format!("--prometheus {address}: cannot listen (try another port)"))
}

/// The time by the wall clock, nanoseconds since 1970.
pub(super) fn unix_ns() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or_default()
}

/// Prints what the user should know about them before the start.
pub(crate) fn tell_notes(outputs: &[Box<dyn Output>], is_quiet: bool, console: &Console) {
    let notes = outputs.iter().filter_map(|output| output.note());
    for note in notes.filter(|_| !is_quiet) {
        console.tell(format_args!("note: {note}"));
    }
}

/// Closes them, and prints what is waited for and what went wrong.
pub(super) fn close(mut observers: Observers<'_>, is_quiet: bool, console: &Console) {
    for what in observers.wait_for().iter().filter(|_| !is_quiet) {
        console.tell(format_args!("note: {what}"));
    }
    for problem in observers.close().iter().filter(|_| !is_quiet) {
        console.tell(format_args!("warning: {problem}"));
    }
}

fn file(path: &Path, readers: Readers) -> anyhow::Result<Sink> {
    result_file::check_destination("--stream", path)?;
    match result_file::open(path, readers) {
        Ok(Opened::Own(file)) => Ok(Sink::own(file)),
        Ok(Opened::Shared(file)) => Ok(Sink::shared(file)),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            bail!("--stream {path:?}: nobody reads the pipe (start its reader first)")
        }
        Err(error) => Err(error).context(format!("--stream {path:?}: cannot be written")),
    }
}

fn descriptor(number: RawFd) -> anyhow::Result<File> {
    let unusable = |why: &str| format!("--stream fd:{number}: {why} (expected like fd:3 3>FILE)");
    let descriptor = runner::inherited(number);
    let descriptor = descriptor.with_context(|| unusable("is not open"))?;
    let mode = fcntl_getfl(&descriptor).map_err(io::Error::from)?;
    if mode & OFlags::RWMODE == OFlags::RDONLY {
        bail!(unusable("is not open for writing"));
    }
    Ok(descriptor.into())
}

/// A duplicate of a standard stream.
pub(super) fn duplicate(stream: impl AsFd) -> anyhow::Result<File> {
    let duplicate = stream.as_fd().try_clone_to_owned();
    Ok(duplicate.context("cannot duplicate a descriptor")?.into())
}
