//! What a worker tells of itself while the run is on, about once a second, if anybody watches.

use super::Worker;
use crate::run::Report;
use crate::snapshots::Share;
use eventloop::EventLoop;
use protocol::Session;
use results::ThreadUsage;
use std::sync::mpsc::Sender;

/// To whom it is told.
pub(super) struct Sharing {
    reports: Sender<Report>,
    /// What the thread had used when it told last, and when that was.
    used: Option<(u64, ThreadUsage)>,
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Somebody watches: from the start on shares go there.
    pub(crate) fn share_with(&mut self, reports: Sender<Report>) {
        self.sharing = Some(Sharing {
            reports,
            used: None,
        });
    }

    /// Tells what has happened since the last time.
    #[cold]
    pub(super) fn share(&mut self, now_ns: u64, is_last: bool) {
        let (Some(sharing), Some(recorder)) = (&mut self.sharing, &mut self.recorder) else {
            return;
        };
        let told = match is_last {
            true => recorder.tell_last(now_ns),
            false => recorder.tell(now_ns),
        };
        let Some(told) = told else {
            return;
        };
        let usage = self.watch.as_mut().and_then(|watch| watch.usage());
        let used = usage.map(|usage| (now_ns, usage));
        let before = std::mem::replace(&mut sharing.used, used);
        let busy = before.zip(usage).and_then(|((then_ns, before), now)| {
            let elapsed_ns = now_ns.checked_sub(then_ns).filter(|ns| *ns > 0)?;
            let used_ns = now.since(&before).cpu_ns;
            Some((used_ns as f64 / elapsed_ns as f64).min(1.0))
        });
        let share = Share {
            worker: self.settings.worker as usize,
            open_connections: if is_last { 0 } else { self.standing },
            busy,
            is_last,
            ..told
        };
        // Without anybody at the other end the run is as good as over.
        let _ = sharing.reports.send(Report::Share(Box::new(share)));
    }

    /// The first reading, before there is anything to tell.
    pub(super) fn begin_sharing(&mut self, now_ns: u64) {
        if let Some(sharing) = &mut self.sharing {
            let usage = self.watch.as_mut().and_then(|watch| watch.usage());
            sharing.used = usage.map(|usage| (now_ns, usage));
        }
    }
}
