//! A peer that answers every question mark it receives, as the test says.

use crate::sim::{Actions, Attempt, ConnectReaction, Peer};

/// The delay of an answer in nanoseconds, and its bytes. `None` leaves the question unanswered.
type Answer = Option<(u64, String)>;

/// A [`Peer`] whose questions end with `?`, however the network splits them.
pub(super) struct Scripted {
    answer: Box<dyn FnMut(usize, u64) -> Answer>,
    admit: Box<dyn FnMut(u64) -> ConnectReaction>,
    questions: usize,
    answered_ns: Vec<(u64, u64)>,
}

impl Scripted {
    /// Answers with the result of a function of the question's number and time of arrival.
    pub(super) fn new(answer: impl FnMut(usize, u64) -> Answer + 'static) -> Self {
        Self {
            answer: Box::new(answer),
            admit: Box::new(|_| ConnectReaction::Accept { after_ns: 0 }),
            questions: 0,
            answered_ns: Vec::new(),
        }
    }

    /// Answers every question alike.
    pub(super) fn answering(after_ns: u64, bytes: &str) -> Self {
        let bytes = bytes.to_owned();
        Self::new(move |_, _| Some((after_ns, bytes.clone())))
    }

    /// A peer that never answers.
    pub(super) fn silent() -> Self {
        Self::new(|_, _| None)
    }

    /// Lets a function of the time decide about connection attempts.
    pub(super) fn admitting(mut self, admit: impl FnMut(u64) -> ConnectReaction + 'static) -> Self {
        self.admit = Box::new(admit);
        self
    }

    /// When each answered question arrived, and when its answer left.
    pub(super) fn answered_ns(&self) -> &[(u64, u64)] {
        &self.answered_ns
    }
}

impl Peer for Scripted {
    fn on_connect(&mut self, _: &Attempt<'_>, now_ns: u64) -> ConnectReaction {
        (self.admit)(now_ns)
    }

    fn on_bytes(&mut self, _: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions) {
        for _ in bytes.iter().filter(|byte| **byte == b'?') {
            let answer = (self.answer)(self.questions, now_ns);
            self.questions += 1;
            if let Some((after_ns, bytes)) = answer {
                let left_ns = actions.send(after_ns, bytes);
                self.answered_ns.push((now_ns, left_ns));
            }
        }
    }
}
