//! The unidirectional streams of the peer (RFC 9114 section 6.2).

use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

use super::error::{ErrorCode, Violation};
use super::frame::{Frame, FrameReader, stream_type};
use super::qpack::{DecoderStream, EncoderStream};
use super::response::Idle;
use super::varint;

/// What the control stream has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlEvent {
    /// The peer's SETTINGS have arrived.
    Settings,
    /// Requests from this stream on are not processed (RFC 9114 section 5.2). Only a server says
    /// so: the GOAWAY of a client is about pushes.
    Goaway(u64),
}

/// Which end the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Client,
    Server,
}

/// The streams that the peer has opened and not ended.
#[derive(Debug)]
pub(super) struct PeerStreams {
    peer: Peer,
    open: Vec<PeerStream>,
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    has_settings: bool,
}

#[derive(Debug)]
struct PeerStream {
    id: StreamId,
    kind: PeerStreamKind,
}

/// What a unidirectional stream of the server carries (RFC 9114 section 6.2).
#[derive(Debug)]
enum PeerStreamKind {
    /// The bytes of its type that have arrived.
    New([u8; 8], usize),
    Control(FrameReader),
    Encoder(EncoderStream),
    Decoder(DecoderStream),
}

/// Whether a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoesOn,
    /// Its type is unknown: nobody reads it.
    IsIgnored,
}

impl PeerStreams {
    /// At the beginning of a connection.
    pub(super) fn new(peer: Peer) -> Self {
        Self {
            peer,
            open: Vec::new(),
            has_control: false,
            has_encoder: false,
            has_decoder: false,
            has_settings: false,
        }
    }

    /// The peer has opened streams.
    pub(super) fn accept(
        &mut self,
        quic: &mut Connection,
        idle: &mut Idle,
        told: &mut Vec<ControlEvent>,
    ) -> Result<(), Violation> {
        while let Some(id) = quic.streams().accept(Dir::Uni) {
            idle.add(1)?;
            self.open.push(PeerStream {
                id,
                kind: PeerStreamKind::New([0; 8], 0),
            });
            self.read(quic, id, idle, told)?;
        }
        Ok(())
    }

    /// Reads what has arrived on a stream.
    pub(super) fn read(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        idle: &mut Idle,
        told: &mut Vec<ControlEvent>,
    ) -> Result<(), Violation> {
        let Some(at) = self.open.iter().position(|stream| stream.id == id) else {
            return Ok(());
        };
        let mut stream = quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return Ok(());
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => match self.receive(at, &chunk.bytes, idle, told)? {
                    Next::GoesOn => {}
                    Next::IsIgnored => break,
                },
                Err(ReadError::Blocked) => return Ok(()),
                Ok(None) | Err(ReadError::Reset(_)) => {
                    return match self.open.swap_remove(at).kind {
                        PeerStreamKind::New(..) => Ok(()),
                        _ => Err(Violation::new(
                            ErrorCode::CLOSED_CRITICAL_STREAM,
                            "the end of a stream that must stay open",
                        )),
                    };
                }
            }
        }
        let _ = chunks.finalize();
        self.open.swap_remove(at);
        let code = VarInt::from_u32(ErrorCode::STREAM_CREATION_ERROR.0 as u32);
        // It may have ended already.
        let _ = quic.recv_stream(id).stop(code);
        Ok(())
    }

    fn receive(
        &mut self,
        at: usize,
        input: &[u8],
        idle: &mut Idle,
        told: &mut Vec<ControlEvent>,
    ) -> Result<Next, Violation> {
        let mut rest = input;
        let Some(stream) = self.open.get_mut(at) else {
            return Ok(Next::GoesOn);
        };
        if let PeerStreamKind::New(bytes, length) = &mut stream.kind {
            let Some(kind) = take_type(bytes, length, &mut rest) else {
                return Ok(Next::GoesOn);
            };
            let (kind, known) = match kind {
                stream_type::CONTROL => {
                    // No field section is valid here, so none is kept.
                    (
                        PeerStreamKind::Control(FrameReader::new(0)),
                        &mut self.has_control,
                    )
                }
                stream_type::QPACK_ENCODER => (
                    PeerStreamKind::Encoder(EncoderStream::default()),
                    &mut self.has_encoder,
                ),
                stream_type::QPACK_DECODER => (
                    PeerStreamKind::Decoder(DecoderStream::default()),
                    &mut self.has_decoder,
                ),
                // Only a server pushes (RFC 9114 section 6.2.2).
                stream_type::PUSH if self.peer == Peer::Client => {
                    return Err(Violation::new(
                        ErrorCode::STREAM_CREATION_ERROR,
                        "a push of a client",
                    ));
                }
                // This end has allowed no push (RFC 9114 section 4.6).
                stream_type::PUSH => {
                    return Err(Violation::new(
                        ErrorCode::ID_ERROR,
                        "a push, which was not allowed",
                    ));
                }
                _ => return Ok(Next::IsIgnored),
            };
            if std::mem::replace(known, true) {
                return Err(Violation::new(
                    ErrorCode::STREAM_CREATION_ERROR,
                    "a second stream of a type that there is once",
                ));
            }
            stream.kind = kind;
        }
        match &mut stream.kind {
            PeerStreamKind::New(..) => {}
            PeerStreamKind::Encoder(encoder) => idle.add(encoder.receive(rest)?)?,
            PeerStreamKind::Decoder(decoder) => idle.add(decoder.receive(rest)?)?,
            PeerStreamKind::Control(reader) => {
                while let Some(frame) = reader.next(&mut rest)? {
                    idle.add(1)?;
                    let settled = self.has_settings;
                    if let Some(news) = on_control_frame(self.peer, frame, settled)? {
                        self.has_settings = true;
                        told.push(news);
                    }
                }
            }
        }
        Ok(Next::GoesOn)
    }
}

/// Takes the type of a stream.
fn take_type(bytes: &mut [u8; 8], length: &mut usize, rest: &mut &[u8]) -> Option<u64> {
    while let Some((&byte, after)) = rest.split_first() {
        *rest = after;
        if let Some(place) = bytes.get_mut(*length) {
            *place = byte;
            *length += 1;
        }
        if let Some(kind) = varint::take(&mut &bytes[..*length]) {
            return Some(kind);
        }
    }
    None
}

/// A frame of the control stream. SETTINGS come first and once (RFC 9114 section 6.2.1).
fn on_control_frame(
    peer: Peer,
    frame: Frame<'_>,
    has_settings: bool,
) -> Result<Option<ControlEvent>, Violation> {
    if let Frame::Settings(_) = frame {
        // Nothing in them matters: this end fills no table, and its heads are small.
        return if !has_settings {
            Ok(Some(ControlEvent::Settings))
        } else {
            Err(unexpected("a second SETTINGS frame"))
        };
    }
    if !has_settings {
        return Err(Violation::new(
            ErrorCode::MISSING_SETTINGS,
            "a control stream that does not begin with SETTINGS",
        ));
    }
    match frame {
        Frame::Goaway(_) | Frame::MaxPushId(_) if peer == Peer::Client => Ok(None),
        Frame::Goaway(id) if id % 4 != 0 => Err(Violation::new(
            ErrorCode::ID_ERROR,
            "GOAWAY with a stream that is no request",
        )),
        Frame::Goaway(id) => Ok(Some(ControlEvent::Goaway(id))),
        Frame::CancelPush(_) => Err(Violation::new(
            ErrorCode::ID_ERROR,
            "CANCEL_PUSH, though no push was allowed",
        )),
        Frame::Unknown(_) => Ok(None),
        Frame::MaxPushId(_) => Err(unexpected("MAX_PUSH_ID of a server")),
        _ => Err(unexpected("a frame of a message on the control stream")),
    }
}

#[cold]
fn unexpected(reason: &'static str) -> Violation {
    Violation::new(ErrorCode::FRAME_UNEXPECTED, reason)
}
