//! This end's control stream (RFC 9114 section 6.2.1).

use quinn_proto::{Connection, Dir, StreamId};

use super::frame::{self, setting, stream_type};
use super::grease::Grease;
use super::varint;

/// Frames that are to be sent on the control stream. It is opened when the peer allows it.
#[derive(Debug)]
pub(super) struct Control {
    id: Option<StreamId>,
    /// What was not sent: at first the type of the stream and SETTINGS.
    unsent: Vec<u8>,
}

impl Control {
    /// A stream that announces the size of the field sections that this end takes.
    pub(super) fn new(section_bytes_max: usize, grease: Option<&Grease>) -> Self {
        let mut unsent = Vec::new();
        varint::append(stream_type::CONTROL, &mut unsent);
        let section = (setting::MAX_FIELD_SECTION_SIZE, section_bytes_max as u64);
        match grease {
            None => frame::append_settings(&[section], &mut unsent),
            Some(grease) => {
                frame::append_settings(&[grease.setting(), section], &mut unsent);
                grease.append_frame(&mut unsent);
            }
        }
        Self { id: None, unsent }
    }

    /// Whether it is this stream.
    pub(super) fn is(&self, id: StreamId) -> bool {
        self.id == Some(id)
    }

    /// Adds GOAWAY: requests from this stream on are not processed.
    pub(super) fn goaway(&mut self, first: u64) {
        frame::append_goaway(first, &mut self.unsent);
    }

    /// Sends what is left, as far as the peer allows.
    pub(super) fn send(&mut self, quic: &mut Connection) {
        if self.unsent.is_empty() {
            return;
        }
        if self.id.is_none() {
            self.id = quic.streams().open(Dir::Uni);
        }
        if let Some(id) = self.id
            && let Ok(sent) = quic.send_stream(id).write(&self.unsent)
        {
            self.unsent.drain(..sent);
        }
    }
}
