//! The deputy: a process that makes the changes of one session, or takes its profile.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use cluster::host::{DeputyEvent, HostDeputies, HostDeputy, MAX_CALL_BYTES};
use experiment::{HostFailure, HostResult, HostSession, Machine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::call::Call;
use super::profile::DeputyProfile;
use crate::frames::{read_frame, write_frame};

/// Starts deputies with this command; its stdin is the connection.
pub(super) struct Processes(pub(super) Command);

/// A running deputy. Dropped, it is killed, and its guardian restores what it has changed.
pub(super) struct Process {
    child: Child,
    calls: SyncSender<Vec<u8>>,
    events: Receiver<DeputyEvent>,
}

impl HostDeputies for Processes {
    type Deputy = Process;

    fn start(&mut self) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = self
            .0
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        // Our copy of the deputy's end must be closed, or its death would not be noticed.
        self.0.stdin(Stdio::null());
        let (calls, queue) = sync_channel(1);
        let (tell, events) = sync_channel(1);
        let process = Process {
            child,
            calls,
            events,
        };
        // A deputy that is stopped must not keep the agent from noticing that.
        std::thread::Builder::new()
            .name("host-deputy".to_owned())
            .spawn(move || carry(ours, &queue, &tell))?;
        Ok(process)
    }
}

impl HostDeputy for Process {
    fn begin(&mut self, call: &[u8]) {
        // If the thread has ended, the end of the process is reported.
        let _ = self.calls.try_send(call.to_vec());
    }

    fn next_event(&mut self) -> Option<DeputyEvent> {
        match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(TryRecvError::Empty) => match self.child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(DeputyEvent::Died(status.to_string())),
                Err(error) => Some(DeputyEvent::Died(error.to_string())),
            },
            Err(TryRecvError::Disconnected) => {
                Some(DeputyEvent::Died("its connection is closed".to_owned()))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends calls to the deputy and takes its replies, until either end is closed.
fn carry(mut stream: UnixStream, calls: &Receiver<Vec<u8>>, tell: &SyncSender<DeputyEvent>) {
    while let Ok(call) = calls.recv() {
        let replied =
            write_frame(&mut stream, &call).and_then(|()| read_frame(&mut stream, MAX_CALL_BYTES));
        let Ok(Some(reply)) = replied else { return };
        if tell.send(DeputyEvent::Replied(reply)).is_err() {
            return;
        }
    }
}

/// Carries out the calls that come through `connection`, the stdin of a deputy, with the journal in
/// this folder. Returns when the agent has closed the connection or died: then the process must
/// end, so that its guardian restores what is still changed.
///
/// # Errors
/// When the connection cannot be used.
pub fn work(mut machine: Machine, connection: BorrowedFd<'_>, folder: PathBuf) -> io::Result<()> {
    let mut stream = UnixStream::from(connection.try_clone_to_owned()?);
    // If stdin is not a socket, nobody would read the replies.
    stream.local_addr()?;
    let watched = stream.try_clone()?;
    machine.set_on_wait(Box::new(move |_| {
        if is_closed(watched.as_fd()) {
            end_with_command();
        }
    }));
    let mut session = HostSession::new(folder);
    // Sampling ends with this process.
    let mut profile = DeputyProfile::default();
    while let Some(call) = read_frame(&mut stream, MAX_CALL_BYTES)? {
        let reply = match serde_json::from_slice(&call) {
            Ok(Call::Change(call)) => serde_json::to_vec(&session.carry_out(&mut machine, call))?,
            Ok(Call::Profile(call)) => profile.carry_out(call)?,
            Err(error) => serde_json::to_vec(&HostResult::Err(HostFailure::Refused {
                text: format!("the call cannot be read: {error}"),
                ends_sweep: true,
            }))?,
        };
        write_frame(&mut stream, &reply)?;
    }
    Ok(())
}

/// A command is running, and the agent is dead: the guardian ends the command and restores.
#[expect(clippy::exit, reason = "nothing of this process may go on")]
fn end_with_command() -> ! {
    std::process::exit(1)
}

/// Whether the other end is closed. Nothing can be waiting to be read: a call follows a reply.
fn is_closed(stream: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&stream, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut polled, Some(&now)), Ok(ready) if ready > 0)
}
