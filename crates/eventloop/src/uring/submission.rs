//! Passes entries to the kernel, and waits for what they bring.

use super::Uring;
use super::operation::{Op, user_data};
use crate::{Token, monotonic_ns};
use io_uring::EnterFlags;
use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use std::io;

impl Uring {
    pub(super) fn push(&mut self, entry: &Entry) {
        // SAFETY: everything the entry points to lives until its completion: shared bytes as long
        // as the loop; owned buffers and addresses in the socket's entry, which is not reused
        // before the kernel has reported all its operations (`in_flight`).
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is full. The kernel accepts no more while completions are waiting (EBUSY,
            // EAGAIN). Other errors recur in `wait`, which reports them.
            if self.submit_queued().is_err() {
                self.backlog.extend(self.ring.completion());
            }
        }
    }

    pub(super) fn push_counted(&mut self, token: Token, op: Op, entry: Entry) {
        self.sockets[token.index as usize].in_flight += 1;
        self.in_flight += 1;
        self.push(&entry.user_data(user_data(op, token)));
    }

    pub(super) fn submit_queued(&mut self) -> io::Result<usize> {
        self.begin_submission();
        self.ring.submit()
    }

    pub(super) fn begin_submission(&mut self) {
        if !self.backlog.is_empty() || !self.ring.completion().is_empty() {
            self.crowded_batch = self.batch;
        }
        self.batch = self.batch.wrapping_add(1);
    }

    /// Submits and waits. Returns whether it could sleep.
    pub(super) fn enter(&mut self, until_ns: Option<u64>, now_ns: u64) -> io::Result<bool> {
        let busy = !self.ready.is_empty() || !self.backlog.is_empty();
        self.begin_submission();
        let timeout_ns = match until_ns {
            _ if busy => Some(0),
            Some(until) => Some(until.saturating_sub(now_ns)),
            None => None,
        };
        let entered = match timeout_ns {
            None => self.ring.submit_and_wait(1),
            Some(0) => self.submit_and_poll(),
            Some(ns) => {
                let timeout = Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                self.ring
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match entered {
            Ok(_) => Ok(timeout_ns != Some(0)),
            Err(error) => match error.raw_os_error() {
                // ETIME: the deadline. EBUSY, EAGAIN: completions must be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {
                    Ok(timeout_ns != Some(0))
                }
                _ => Err(error),
            },
        }
    }

    /// Submits and makes the kernel report completions, without blocking. A wait with a timeout of
    /// zero would set a timer and yield the CPU.
    pub(super) fn submit_and_poll(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        let no_mask = None::<&libc::sigset_t>;
        // SAFETY: `queued` entries exist and were pushed under the rules of `push`. Without an
        // argument, the kernel reads no memory beyond the ring.
        unsafe { self.ring.submitter().enter(queued, 0, flags, no_mask) }
    }

    /// Sleeps until one time and polls until the other one, or until there is a completion.
    pub(super) fn wait_in_parts(
        &mut self,
        sleep_until_ns: Option<u64>,
        until_ns: Option<u64>,
    ) -> io::Result<()> {
        self.end_loan();
        let mut now_ns = monotonic_ns();
        self.submitted_ns = now_ns;
        let mut first = true;
        self.handled_sends = 0;
        loop {
            self.rearm();
            self.flush_held()?;
            let polls = now_ns < self.poll_until_ns;
            let slept = self.enter(if polls { Some(0) } else { sleep_until_ns }, now_ns)?;
            self.taken_ns = monotonic_ns();
            let something = !self.ready.is_empty()
                || !self.backlog.is_empty()
                || !self.ring.completion().is_empty();
            if something {
                return Ok(());
            }
            let poll_until_ns =
                until_ns.map_or(self.poll_until_ns, |until| until.min(self.poll_until_ns));
            now_ns = self.taken_ns;
            if polls && now_ns < poll_until_ns {
                self.spin(poll_until_ns);
                now_ns = monotonic_ns();
                first = false;
                continue;
            }
            let (Some(sleep_until), Some(until)) = (sleep_until_ns, until_ns) else {
                continue;
            };
            if slept && self.taken_ns >= sleep_until {
                self.sleep_margin.note_wakeup(sleep_until, self.taken_ns);
            }
            if self.taken_ns >= until {
                return Ok(());
            }
            if self.taken_ns >= sleep_until {
                if first && !slept {
                    self.sleep_margin.note_no_sleep();
                }
                self.spin(until);
                now_ns = monotonic_ns();
            }
            first = false;
        }
    }

    /// Polls until the kernel has something to report or `until_ns` is reached. A flag in memory
    /// (IORING_SETUP_TASKRUN_FLAG) tells whether it has, so that polling needs no system call.
    fn spin(&mut self, until_ns: u64) {
        while monotonic_ns() < until_ns {
            if self.ring.submission().taskrun() || !self.ring.completion().is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
    }
}
