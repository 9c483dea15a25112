//! What a load process does: `runner`, by order of the agent.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::names::Label;
use cluster::package::MODULES;
use cluster::session::LEASE_NS;
use cluster::targets::{Targets, TargetsError};
use plan::Share;
use results::snapshot::Snapshot;
use runner::{
    Invocation, LookupError, Observer, Permit, PreparedRun as _, RunObservers, Variables,
};
use rustix::process::{Signal, getpgrp, getpid, kill_process_group};

use super::{LoadOrder, LoadReport, MAX_FRAME_BYTES};
use crate::frames::{read_frame, write_frame};
use crate::wire::{self, Details};

/// Reports that wait to be written. Further snapshots are dropped: an agent that does not read
/// delays nothing.
const REPORTS_MAX: usize = 4;

/// An agent that is silent for twice this time is stopped or hangs. It speaks once a second, and
/// goes on for as long without a coordinator.
const SILENCE: Duration = Duration::from_nanos(LEASE_NS / 2);

/// Makes the load of one run by order of the agent at the other end of `connection`, the stdin of a
/// load process; `folder` has the files of the plan. Returns when the agent has the result or the
/// reason why there is none: then the process must end, whatever its threads do. It does not
/// return if the agent dies, or says nothing for as long as agents go on without a coordinator.
///
/// # Errors
/// When the connection cannot be used.
pub fn make_load(connection: BorrowedFd<'_>, folder: &Path) -> io::Result<()> {
    let mut stream = UnixStream::from(connection.try_clone_to_owned()?);
    // If stdin is not a socket, nobody would read the reports.
    stream.local_addr()?;
    // A script that reads stdin must not read orders.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    let Some(first) = read_frame(&mut stream, MAX_FRAME_BYTES)? else {
        return Ok(());
    };
    let LoadOrder::Prepare {
        share,
        details,
        targets,
    } = serde_json::from_slice(&first)?
    else {
        return Err(io::Error::other("the first order is not a plan"));
    };
    let orders = stream.try_clone()?;
    let agent = Arc::new(Mutex::new(stream));
    let (sender, queue) = sync_channel(REPORTS_MAX);
    let to_agent = Arc::clone(&agent);
    let writer = std::thread::Builder::new().name("reports".to_owned());
    let writer = writer.spawn(move || {
        // Without the agent there is nothing to report; the listener ends the process.
        let _ = write_reports(&to_agent, &queue);
    })?;
    let (start, starts) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let listener = std::thread::Builder::new().name("orders".to_owned());
    listener.spawn(move || listen(orders, &start, &stopped, &agent))?;
    let work = Work {
        share: *share,
        details,
        targets,
        folder,
    };
    let last = match carry_out(work, &starts, &stop, &sender) {
        // The listener ends the process.
        Ok(None) => return Ok(()),
        Ok(Some(result)) => Report::Result(result),
        Err(reason) => Report::Message(LoadReport::Failed(reason)),
    };
    // Without a receiver, the agent is dead.
    let _ = sender.send(last);
    drop(sender);
    // A panic was reported already.
    let _ = writer.join();
    Ok(())
}

/// What is written to the agent.
enum Report {
    Message(LoadReport),
    Result(Vec<u8>),
}

/// Writes reports until there are no more.
fn write_reports(agent: &Mutex<UnixStream>, queue: &Receiver<Report>) -> io::Result<()> {
    while let Ok(report) = queue.recv() {
        // Nobody panics with it.
        let mut agent = agent
            .lock()
            .map_err(|error| io::Error::other(error.to_string()))?;
        match report {
            Report::Message(report) => write_report(&mut agent, &report)?,
            Report::Result(result) => {
                write_report(&mut agent, &LoadReport::Finished)?;
                write_frame(&mut *agent, &result)?;
            }
        }
    }
    Ok(())
}

fn write_report(agent: &mut UnixStream, report: &LoadReport) -> io::Result<()> {
    write_frame(agent, &serde_json::to_vec(report)?)
}

/// Takes orders until the agent has closed the connection, is dead, or is silent for too long. Then
/// nothing of this process may go on.
fn listen(
    mut orders: UnixStream,
    start: &Sender<u64>,
    stop: &AtomicBool,
    agent: &Mutex<UnixStream>,
) {
    let mut was_silent = false;
    loop {
        let order = match read_frame(&mut orders, MAX_FRAME_BYTES) {
            Ok(Some(order)) => order,
            // If the machine or its container was stopped for a while, both of us were. So the
            // agent has another such time.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !was_silent => {
                was_silent = true;
                continue;
            }
            Ok(None) | Err(_) => break,
        };
        was_silent = false;
        match serde_json::from_slice(&order) {
            // Only the first order to start counts.
            Ok(LoadOrder::Start { start_ns }) => drop(start.send(start_ns)),
            Ok(LoadOrder::Stop) => stop.store(true, Ordering::Relaxed),
            // Only a time of zero is refused.
            Ok(LoadOrder::GoOn) => drop(orders.set_read_timeout(Some(SILENCE))),
            Ok(LoadOrder::Prepare { .. }) | Err(_) => break,
        }
    }
    // An agent that was only stopped reads this when it goes on. If it does not read, the writer is
    // waiting for it, and this process does not.
    if let Ok(mut agent) = agent.try_lock()
        && agent.set_nonblocking(true).is_ok()
    {
        let silent = format!(
            "the agent itself was stopped for {} s, so its load process has ended",
            2 * SILENCE.as_secs()
        );
        let _ = write_report(&mut agent, &LoadReport::Failed(silent));
    }
    end_with_group()
}

/// Ends the process and what a script has started.
#[expect(clippy::exit, reason = "nothing of this process may go on")]
fn end_with_group() -> ! {
    // Started by hand, the group may be that of a shell.
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpgrp(), Signal::KILL);
    }
    std::process::exit(1)
}

/// A run to prepare.
struct Work<'a> {
    share: Share,
    details: serde_json::Value,
    targets: String,
    folder: &'a Path,
}

/// Prepares the run, waits for the start, and makes it. `None` if there was no start.
fn carry_out(
    work: Work<'_>,
    starts: &Receiver<u64>,
    stop: &AtomicBool,
    reports: &SyncSender<Report>,
) -> Result<Option<Vec<u8>>, String> {
    let Work {
        share,
        details,
        targets,
        folder,
    } = work;
    let targets = if targets.is_empty() {
        Targets::default()
    } else {
        targets
            .parse()
            .map_err(|error: TargetsError| error.to_string())?
    };
    let details: Details = serde_json::from_value(details)
        .map_err(|error| format!("the plan that arrived is not valid: {error}"))?;
    share.check().map_err(|error| error.to_string())?;
    let permit = Permit::by(Arc::new(move |host, addresses| {
        let checked = targets.check(host, addresses);
        checked.map_err(|refusal| LookupError::NotPermitted(refusal.to_string()))
    }));
    let invocation = Invocation {
        command_line: details.command_line,
        // For `{{now}}` in requests. The coordinator sets the time of the start in the result.
        unix_ms: details.unix_ms,
        started_at: details.started_at,
        keeps_secrets: details.keeps_secrets,
        fleet: Some(share.schedule),
        modules: Some(folder.join(MODULES)),
        permit,
        // The request file has the values of the coordinator's variables.
        variables: Variables::default(),
    };
    let prepared = runner::prepare(share.plan, invocation).map_err(|error| error.to_string())?;
    let notes = prepared.notes().iter().map(|note| Label::new(note));
    let notes = notes.collect();
    let armed = prepared.arm().map_err(|error| error.to_string())?;
    // Without a receiver, nobody will start the run either.
    let _ = reports.send(Report::Message(LoadReport::Prepared(notes)));
    let Ok(start_ns) = starts.recv() else {
        return Ok(None);
    };
    let mut reporter = Reporter(reports);
    let observers = RunObservers {
        samples: None,
        observer: Some(&mut reporter),
        records: None,
    };
    let finished = armed.start_at(start_ns, stop, observers);
    let finished = finished.map_err(|error| error.to_string())?;
    runner::flush_script_output();
    wire::encode(finished, details.outline).map(Some)
}

/// Hands snapshots to the agent.
struct Reporter<'a>(&'a SyncSender<Report>);

impl Observer for Reporter<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Ok(value) = serde_json::to_value(snapshot) {
            let _ = self
                .0
                .try_send(Report::Message(LoadReport::Progress(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plan::{AgentThreads, RunPlan, Target, WeightedLanes};

    use super::*;
    use crate::wire::Outline;

    #[test]
    fn a_schedule_that_has_no_place_for_the_agent_is_refused() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = server.local_addr().expect("it is bound");
        let target = Target::parse(&format!("http://{address}/"));
        let plan = RunPlan::new(target.expect("a URL"));
        let agents = [1_u32, 3].map(|weight| AgentThreads {
            threads: 1,
            weight: weight.try_into().expect("it is a weight"),
        });
        let share = plan.deal(&agents).expect("enough for all").remove(1);
        let details = Details {
            command_line: Vec::new(),
            started_at: None,
            keeps_secrets: false,
            unix_ms: 0,
            outline: Outline {
                whole: plan,
                agents: Vec::new(),
                at: BTreeMap::new(),
                environment: runner::environment(&Invocation::default()),
                keeps_secrets: false,
            },
        };
        let details = serde_json::to_value(details).expect("plain data");
        let carried_out = |share: Share| {
            let (starts, start) = channel();
            // Nobody starts the run.
            drop(starts);
            let work = Work {
                share,
                details: details.clone(),
                targets: String::new(),
                folder: Path::new("/"),
            };
            let (reports, _reported) = sync_channel(REPORTS_MAX);
            carry_out(work, &start, &AtomicBool::new(false), &reports)
        };
        assert_eq!(carried_out(share.clone()), Ok(None));
        for lanes_per_worker in [0, 4] {
            let mut share = share.clone();
            share.schedule.weighted = Some(WeightedLanes {
                lane_base: 1,
                lanes_per_worker,
                lanes_total: 4,
            });
            let refused = carried_out(share).expect_err("there are no such lanes");
            assert!(
                refused.starts_with("threads 1: the schedule of the fleet"),
                "{refused}"
            );
        }
    }
}
