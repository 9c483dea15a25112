//! The agent's side of load processes.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cluster::generator::{Generator, GeneratorEvent, Work};
use cluster::package::Package;
use engine::monotonic_ns;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{ALIVE_NS, LoadCommand, LoadOrder, LoadReport, MAX_FRAME_BYTES, ObservedLoad};
use crate::frames::{read_frame, write_frame};

/// Reports that wait for the agent, which takes them every few milliseconds.
const REPORTS_MAX: usize = 8;

/// How long a process may take to deliver its result after the end of the load: the engine waits
/// 10 s for its workers, and a large result must be written. Then it is killed.
const RESULT_LIMIT: Duration = Duration::from_secs(20);

/// How long a process may take to end after its last report: what a script wrote is still being
/// written to its files. Then it is killed.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How long an order may wait for room on the way to the process. Orders are small, so this is only
/// reached if the process was stopped for minutes.
const ORDER_LIMIT: Duration = Duration::from_millis(20);

/// Makes the load of an agent with a process for each run.
pub(crate) struct LoadProcesses<'o> {
    command: LoadCommand,
    observed: ObservedLoad<'o>,
    job: Option<Job>,
    /// The thread of the job before. Its process may still be ending.
    leaving: Option<JoinHandle<()>>,
}

/// A run that is being prepared or made.
struct Job {
    /// The agent's end of the connection; closed, the process ends. `None` if there is none.
    connection: Option<UnixStream>,
    events: Receiver<GeneratorEvent>,
    is_prepared: bool,
    has_ended: bool,
    /// How long the load lasts, unless a number of requests ends it.
    length_ns: Option<u64>,
    /// When the process is told next that the agent is alive.
    alive_due_ns: u64,
    /// When the process is killed if it has not delivered its result.
    overdue_ns: Option<u64>,
    /// Starts the process, takes its reports, and waits for its end. `None` if it could not be
    /// started.
    thread: Option<JoinHandle<()>>,
}

impl<'o> LoadProcesses<'o> {
    pub(crate) fn new(command: LoadCommand, observed: ObservedLoad<'o>) -> Self {
        Self {
            command,
            observed,
            job: None,
            leaving: None,
        }
    }
}

impl Generator for LoadProcesses<'_> {
    fn prepare(&mut self, work: Work) {
        self.discard();
        let before = self.leaving.take();
        let (sender, events) = sync_channel(REPORTS_MAX);
        let length_ns = work.package.length_ns();
        self.observed.prepare(&work.package.share.plan);
        let begun = begin(self.command, work, before, sender.clone());
        let (connection, thread) = begun.map_or_else(
            |error| {
                // The channel is empty, so there is room.
                let _ = sender.try_send(cannot_start(&error));
                (None, None)
            },
            |(connection, thread)| (Some(connection), Some(thread)),
        );
        self.job = Some(Job {
            connection,
            events,
            is_prepared: false,
            has_ended: false,
            length_ns,
            alive_due_ns: 0,
            overdue_ns: None,
            thread,
        });
    }

    fn start_at(&mut self, start_ns: u64) {
        if let Some(job) = &mut self.job {
            job.overdue_ns = job.length_ns.map(|length_ns| {
                let end_ns = start_ns.saturating_add(length_ns);
                end_ns.saturating_add(nanoseconds(RESULT_LIMIT))
            });
            job.send(&LoadOrder::Start { start_ns });
            self.observed.start();
        }
    }

    fn stop(&mut self) {
        if let Some(job) = &mut self.job {
            let overdue_ns = monotonic_ns().saturating_add(nanoseconds(RESULT_LIMIT));
            let earlier_ns = job.overdue_ns.map_or(overdue_ns, |it| it.min(overdue_ns));
            job.overdue_ns = Some(earlier_ns);
            job.send(&LoadOrder::Stop);
        }
    }

    fn discard(&mut self) {
        self.observed.end(Err("the run was discarded"));
        if let Some(job) = self.job.take() {
            job.close();
            self.leaving = job.thread;
        }
    }

    fn next_event(&mut self) -> Option<GeneratorEvent> {
        let job = self.job.as_mut().filter(|job| !job.has_ended)?;
        let event = match job.events.try_recv() {
            Ok(event) => event,
            Err(TryRecvError::Empty) => job.overdue_event()?,
            Err(TryRecvError::Disconnected) => {
                GeneratorEvent::Failed("the thread of the load process has died".to_owned())
            }
        };
        match &event {
            GeneratorEvent::Prepared(_) => job.on_prepared(),
            GeneratorEvent::Progress(snapshot) => self.observed.snapshot(snapshot),
            GeneratorEvent::Finished(_)
            | GeneratorEvent::Failed(_)
            | GeneratorEvent::Refused(_) => job.has_ended = true,
        }
        match &event {
            GeneratorEvent::Finished(report) => self.observed.end(Ok(report)),
            GeneratorEvent::Failed(reason) => self.observed.end(Err(reason)),
            GeneratorEvent::Refused(refusal) => self.observed.end(Err(&refusal.to_string())),
            GeneratorEvent::Prepared(_) | GeneratorEvent::Progress(_) => {}
        }
        Some(event)
    }
}

impl Drop for LoadProcesses<'_> {
    /// Waits until the process has ended: nothing is left running.
    fn drop(&mut self) {
        self.discard();
        if let Some(leaving) = self.leaving.take() {
            let _ = leaving.join();
        }
    }
}

impl Job {
    /// From now on the process hears regularly that the agent is alive. Before that, the thread of
    /// the job has written its plan; now nobody else writes.
    fn on_prepared(&mut self) {
        self.is_prepared = true;
        if let Some(connection) = &self.connection {
            // Only a time of zero is refused.
            let _ = connection.set_write_timeout(Some(ORDER_LIMIT));
        }
    }

    fn send(&self, order: &LoadOrder) {
        let Some(mut connection) = self.connection.as_ref() else {
            return;
        };
        if let Ok(order) = serde_json::to_vec(order) {
            // If the process has ended, its thread reports that; if it was stopped for so long that
            // there is no room, it is killed when its time is over.
            let _ = write_frame(&mut connection, &order);
        }
    }

    /// There is no report. Says that the agent is alive, and ends a process that is overdue.
    fn overdue_event(&mut self) -> Option<GeneratorEvent> {
        let now_ns = monotonic_ns();
        if self.is_prepared && now_ns >= self.alive_due_ns {
            self.alive_due_ns = now_ns.saturating_add(ALIVE_NS);
            self.send(&LoadOrder::GoOn);
        }
        if now_ns < self.overdue_ns? {
            return None;
        }
        self.close();
        Some(GeneratorEvent::Failed(format!(
            "its load process had no result {} s after the end of the load and was killed",
            RESULT_LIMIT.as_secs()
        )))
    }

    /// Makes the thread kill the process.
    fn close(&self) {
        if let Some(connection) = &self.connection {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Starts the thread of a job. Returns the agent's end of the connection as well.
fn begin(
    command: LoadCommand,
    work: Work,
    before: Option<JoinHandle<()>>,
    events: SyncSender<GeneratorEvent>,
) -> io::Result<(UnixStream, JoinHandle<()>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let of_thread = ours.try_clone()?;
    let body = move || {
        if let Some(before) = before {
            // Its process has ended then, even if the thread has panicked.
            let _ = before.join();
        }
        let last = match start(command, &work, theirs) {
            Ok(child) => accompany(child, of_thread, work, &events),
            Err(error) => Some(cannot_start(&error)),
        };
        if let Some(last) = last {
            // Without a receiver the job was discarded.
            let _ = events.send(last);
        }
    };
    let thread = std::thread::Builder::new().name("load".to_owned());
    Ok((ours, thread.spawn(body)?))
}

fn cannot_start(error: &io::Error) -> GeneratorEvent {
    GeneratorEvent::Failed(format!("cannot start the load process: {error}"))
}

/// Starts a process whose stdin is this end of the connection, in a process group of its own: what
/// a script starts ends with it, and Ctrl-C at the agent is left to the agent.
fn start(command: LoadCommand, work: &Work, theirs: UnixStream) -> io::Result<Child> {
    // Dropped at the end, or the death of the process would not close the connection.
    let mut command = command(&work.folder);
    command
        .stdin(OwnedFd::from(theirs))
        .process_group(0)
        .spawn()
}

/// Hands the plan to the process and its reports to the agent. Returns when it has ended or was
/// killed, with the last event, unless that was reported already.
fn accompany(
    mut child: Child,
    mut connection: UnixStream,
    work: Work,
    events: &SyncSender<GeneratorEvent>,
) -> Option<GeneratorEvent> {
    let conversation = converse(&mut connection, work, events);
    let was_reported = matches!(conversation, Ok(true));
    if was_reported && connection.set_read_timeout(Some(END_LIMIT)).is_ok() {
        // It sends nothing more, so this waits for its end.
        let _ = read_frame(&mut connection, 0);
    }
    let status = end(&mut child);
    if was_reported {
        return None;
    }
    Some(GeneratorEvent::Failed(match (conversation, status) {
        // Other errors only say that it has ended.
        (Err(error), _) if error.kind() == io::ErrorKind::Other => {
            format!("its load process cannot be used: {error}")
        }
        (_, Ok(status)) => format!("its load process ended unexpectedly ({status})"),
        (_, Err(error)) => format!("its load process cannot be waited for: {error}"),
    }))
}

/// Kills the process, what it has started, and waits for its end.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It was not waited for yet, so the number is still that of its group.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()
}

/// Returns whether the last event was reported; the process is ending then.
fn converse(
    connection: &mut UnixStream,
    work: Work,
    events: &SyncSender<GeneratorEvent>,
) -> io::Result<bool> {
    let Work {
        package: Package { share, details, .. },
        targets,
        ..
    } = work;
    let order = LoadOrder::Prepare {
        share: Box::new(share),
        details,
        targets: targets.to_string(),
    };
    let order = serde_json::to_vec(&order).map_err(io::Error::other)?;
    write_frame(connection, &order)?;
    while let Some(report) = read_frame(connection, MAX_FRAME_BYTES)? {
        let report = serde_json::from_slice(&report).map_err(io::Error::other)?;
        let event = match report {
            LoadReport::Prepared(notes) => GeneratorEvent::Prepared(notes),
            LoadReport::Progress(snapshot) => GeneratorEvent::Progress(snapshot),
            LoadReport::Failed(reason) => GeneratorEvent::Failed(reason),
            LoadReport::Finished => match read_frame(connection, MAX_FRAME_BYTES)? {
                Some(result) => GeneratorEvent::Finished(result),
                None => return Ok(false),
            },
        };
        let is_last = matches!(
            event,
            GeneratorEvent::Finished(_) | GeneratorEvent::Failed(_)
        );
        let is_wanted = events.send(event).is_ok();
        if is_last || !is_wanted {
            return Ok(is_last);
        }
    }
    Ok(false)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use cluster::targets::Targets;
    use outputs::Observers;
    use plan::{RunPlan, Target};
    use testkit::eventually;

    use super::*;

    fn work() -> Work {
        let target = Target::parse("http://127.0.0.1/").expect("a URL");
        let shares = RunPlan::new(target).deal(&[2]);
        Work {
            package: Package {
                share: shares.expect("it has connections for all").remove(0),
                title: "laptop".into(),
                details: serde_json::Value::Null,
                files: Vec::new(),
            },
            folder: PathBuf::from("/"),
            targets: Targets::default(),
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn prepared(command: LoadCommand) -> LoadProcesses<'static> {
        let agent = ("a1".to_owned(), "lab".to_owned());
        let observed = ObservedLoad::new(Observers::default(), agent);
        let mut processes = LoadProcesses::new(command, observed);
        processes.prepare(work());
        processes
    }

    fn failure(processes: &mut LoadProcesses<'_>) -> String {
        eventually(|| match processes.next_event() {
            Some(GeneratorEvent::Failed(reason)) => Ok(reason),
            other => Err(format!("it fails: {other:?}")),
        })
    }

    #[test]
    fn a_process_that_delivers_nothing_is_killed_when_its_time_is_over() {
        let mut processes = prepared(|_: &Path| shell("exec sleep 4321"));
        processes.stop();
        let job = processes.job.as_mut().expect("it is there");
        let limit_ns = job.overdue_ns.expect("it was stopped");
        assert!(limit_ns > monotonic_ns());
        assert!(processes.next_event().is_none());
        processes.job.as_mut().expect("it is there").overdue_ns = Some(monotonic_ns());
        let Some(GeneratorEvent::Failed(reason)) = processes.next_event() else {
            panic!("it is overdue");
        };
        assert_eq!(
            reason,
            "its load process had no result 20 s after the end of the load and was killed"
        );
        assert!(processes.next_event().is_none());
        // Waits for the end of the process: this would take more than an hour.
        drop(processes);
    }

    #[test]
    fn the_time_of_a_load_is_that_of_warm_up_and_window_and_ends_earlier_if_it_is_stopped() {
        let mut package = work().package;
        package.share.plan.warmup = Duration::from_secs(2);
        package.share.plan.stop.duration = Some(Duration::from_secs(3));
        assert_eq!(package.length_ns(), Some(5_000_000_000));
        package.share.plan.stop.duration = None;
        assert_eq!(package.length_ns(), None);

        let mut processes = prepared(|_: &Path| shell("exec sleep 4321"));
        let job = processes.job.as_mut().expect("it is there");
        job.length_ns = Some(1 << 60);
        let start_ns = monotonic_ns();
        processes.start_at(start_ns);
        let overdue =
            |processes: &LoadProcesses<'_>| processes.job.as_ref().and_then(|it| it.overdue_ns);
        let planned_ns = start_ns + (1 << 60) + 20_000_000_000;
        assert_eq!(overdue(&processes), Some(planned_ns));
        processes.stop();
        assert!(overdue(&processes).is_some_and(|ns| ns < planned_ns));
    }

    #[test]
    fn how_a_process_ended_is_the_reason_of_the_failure() {
        let ended = |command| failure(&mut prepared(command));
        assert_eq!(
            ended(|_| shell("exit 7")),
            "its load process ended unexpectedly (exit status: 7)"
        );
        assert_eq!(
            ended(|_| shell("kill -9 $$")),
            "its load process ended unexpectedly (signal: 9 (SIGKILL))"
        );
        assert_eq!(
            ended(|_| Command::new("/nonexistent/wrkbench")),
            "cannot start the load process: No such file or directory (os error 2)"
        );
        // An announced message of 4 GB, and one that is no report.
        assert_eq!(
            ended(|_| shell(r"printf '\377\377\377\377' >&0; exec sleep 4321")),
            "its load process cannot be used: a message has 4294967295 bytes; the limit is \
             268435456"
        );
        let garbage = ended(|_| shell(r"printf '\003\000\000\000abc' >&0; exec sleep 4321"));
        let expected = "its load process cannot be used: expected ";
        assert!(garbage.starts_with(expected), "{garbage}");
    }

    #[test]
    fn what_a_process_has_started_ends_with_it_and_the_next_run_waits_for_that() {
        // The pipe is closed when both processes have ended.
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut command = shell("sleep 4321 & exec sleep 4321");
        let mut child = command
            .stdout(writer)
            .process_group(0)
            .spawn()
            .expect("sh starts");
        drop(command);
        end(&mut child).expect("it is our child");
        assert_eq!(io::read_to_string(reader).expect("it is text"), "");

        let mut processes = prepared(|_| shell("exec sleep 4321"));
        processes.command = |_| shell("exit 3");
        processes.prepare(work());
        let second = failure(&mut processes);
        assert!(second.ends_with("(exit status: 3)"), "{second}");
    }
}
