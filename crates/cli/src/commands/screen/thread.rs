//! The thread that draws the screen and reads keys.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live::ansi;
use live::appearance::Appearance;
use live::keys::{self, Key};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::raise;

use super::ScreenState;
use super::device::Device;
use super::script_output::ScriptOutput;

/// Shortest time between two frames.
const BETWEEN_PICTURES: Duration = Duration::from_millis(100);
/// A SIGTSTP that this process sends to itself arrives within this time.
const SUSPENDED_WITHIN: Duration = Duration::from_millis(500);
/// Redraw after this time even without news, so that the shown time advances. Longer than a second,
/// so that the regular news come first.
const WITHOUT_NEWS: Duration = Duration::from_millis(1_300);

pub(super) struct Thread {
    shared: Arc<ScreenState>,
    device: Arc<Device>,
    woken: UnixStream,
    /// Set when the process continues after a stop (SIGCONT).
    continued: Arc<AtomicBool>,
    appearance: Appearance,
    /// What the terminal shows, if known.
    shown: Option<Buffer>,
    drawn_ns: u64,
    has_news: bool,
    script_output: ScriptOutput,
}

impl Thread {
    pub(super) fn new(
        shared: Arc<ScreenState>,
        device: Arc<Device>,
        woken: UnixStream,
        continued: Arc<AtomicBool>,
        appearance: Appearance,
    ) -> Self {
        Self {
            shared,
            device,
            woken,
            continued,
            appearance,
            shown: None,
            drawn_ns: 0,
            has_news: true,
            script_output: ScriptOutput::default(),
        }
    }

    /// Returns when the screen is closed, a signal ends the run, or the terminal is gone.
    pub(super) fn run(mut self) {
        while !self.is_over() {
            if self.turn().is_err() {
                // The terminal is gone; the run continues.
                break;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
            || self.shared.second.stop.load(Ordering::Relaxed)
    }

    fn turn(&mut self) -> io::Result<()> {
        if !self.device.is_entered() {
            self.device.enter()?;
            self.shown = None;
        }
        let due_ns = self.drawn_ns + self.pause_ns();
        let now_ns = now_ns();
        if now_ns >= due_ns && self.device.has_taken_all() {
            self.draw()?;
            self.drawn_ns = now_ns;
            self.has_news = false;
        }
        let due_ns = self.drawn_ns + self.pause_ns();
        self.wait(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        if self.is_over() {
            return Ok(());
        }
        if self.continued.swap(false, Ordering::Relaxed) {
            self.device.forget();
        }
        if self.device.is_entered() {
            self.device.show(&[])?;
            for key in keys::read(&self.device.typed()?) {
                self.press(key);
                // Keys after one that releases the terminal are not for the screen, above all not a
                // second q.
                if !self.device.is_entered() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn pause_ns(&self) -> u64 {
        let pause = if self.has_news {
            BETWEEN_PICTURES
        } else {
            WITHOUT_NEWS
        };
        u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits for keys, news or signals, at most this long.
    fn wait(&mut self, time: Duration) {
        let mut wanted = PollFlags::IN;
        if !self.device.has_taken_all() {
            wanted |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if self.device.is_entered() {
            fds.push(PollFd::new(&*self.device, wanted));
        }
        if let Some(source) = self.script_output.source() {
            fds.push(PollFd::from_borrowed_fd(source, PollFlags::IN));
        }
        let time = Timespec::try_from(time).ok();
        let _ = poll(&mut fds, time.as_ref());
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(count) if count > 0) {
            self.has_news = true;
        }
        self.script_output.take(&self.shared.redirection);
    }

    fn press(&mut self, key: Key) {
        self.has_news = true;
        match key {
            // Release the terminal first: a second signal ends the process immediately.
            Key::Quit => {
                self.device.leave();
                let _ = raise(SIGINT);
            }
            Key::Suspend => self.suspend(),
            Key::Redraw => self.shown = None,
            key => self.shared.view().press(key),
        }
    }

    /// Does what Ctrl-Z does without a screen: stops all processes of the job, including a shell
    /// script that started this one, or the shell would not notice.
    fn suspend(&mut self) {
        self.device.leave();
        let _ = kill_current_process_group(Signal::TSTP);
        // Another thread may receive the signal, so wait until the process has been stopped and
        // continued. The kernel does not stop an orphaned process group; hence the time limit.
        let mut fds = [PollFd::new(&self.woken, PollFlags::IN)];
        let time = Timespec::try_from(SUSPENDED_WITHIN).ok();
        while !self.continued.load(Ordering::Relaxed)
            && matches!(poll(&mut fds, time.as_ref()), Ok(1..) | Err(Errno::INTR))
        {
            let mut bytes = [0; 64];
            while matches!((&self.woken).read(&mut bytes), Ok(count) if count > 0) {}
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let (columns, rows) = self.device.size();
        let area = Rect::new(0, 0, columns, rows);
        let mut picture = Buffer::empty(area);
        {
            let mut view = self.shared.view();
            let since_ms = self.shared.since_ms.load(Ordering::Relaxed);
            view.wait(Duration::from_millis(since_ms));
            view.draw(self.appearance, &mut picture);
        }
        let mut bytes = Vec::new();
        let before = self.shown.take().filter(|shown| shown.area == area);
        let before = before.unwrap_or_else(|| {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
            Buffer::empty(area)
        });
        let changes = before.diff(&picture);
        if !changes.is_empty() {
            bytes.extend_from_slice(ansi::cells(changes).as_bytes());
        }
        self.shown = Some(picture);
        self.device.show(&bytes)
    }
}

impl Drop for Thread {
    /// Also runs after a panic: restores the terminal and writes the buffered output.
    fn drop(&mut self) {
        self.shared.redirection.end_for_good();
        self.device.close();
        self.shared.second.allow();
        self.script_output.take(&self.shared.redirection);
        self.script_output.write();
        self.shared.is_closed.store(true, Ordering::Release);
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(now.tv_nsec).unwrap_or_default()
}
