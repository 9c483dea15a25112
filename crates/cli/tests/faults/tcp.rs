//! F5 to F16: faults of connections and their bytes.

use results::ErrorKind::{
    BrokenPipe, ClosedEarly, ConnectReset, ConnectTimeout, NotTls, Reset, Stale, Timeout,
    TlsClosed, Truncated,
};

use crate::adversary::{Layer, RIGHT, ServerStep, UNTIL_CLOSE, send, usual_tls};
use crate::case::{asked, connected};
use crate::row::FaultRow;

/// A head that announces ten bytes, and five of them.
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.";
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nright\r\n0\r\nX-Trailer: 1\r\n\r\n";
const ANNOUNCED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nright";

/// A request with a body that exceeds all socket buffers unless the server reads.
const POST: [&str; 4] = ["-X", "POST", "--body-file", "BODY:16000000"];
/// Longer than the server takes to read its part of it.
const TIMEOUT_MS: u64 = 1000;

pub(crate) fn rows() -> Vec<FaultRow> {
    [connecting(), ends(), pieces(), requests_unread()]
        .into_iter()
        .flatten()
        .collect()
}

fn connecting() -> Vec<FaultRow> {
    let tls = [usual_tls()];
    let plain = [Layer::Plain];
    [
        connected("F5", "accept, then RST", &[ServerStep::Reset])
            .over(&plain)
            .fails_as(&[Reset, ConnectReset, BrokenPipe]),
        connected("F5", "accept, then RST", &[ServerStep::Reset])
            .over(&tls)
            .fails_as(&[TlsClosed, ConnectReset]),
        connected(
            "F5",
            "RST at the first bytes",
            &[ServerStep::ReadSome, ServerStep::Reset],
        )
        .fails(Reset),
        connected(
            "F5",
            "RST within the handshake",
            &[ServerStep::ReadSome, ServerStep::Reset],
        )
        .over(&tls)
        .fails_as(&[TlsClosed, ConnectReset]),
        connected("F6", "accept, then FIN", &[ServerStep::Fin])
            .over(&plain)
            .fails_as(&[ClosedEarly, BrokenPipe, Reset]),
        connected("F6", "accept, then FIN", &[ServerStep::Fin])
            .over(&tls)
            .fails(TlsClosed),
        connected("F15", "accept, then silence", &[ServerStep::Hang])
            .over(&plain)
            .fails(Timeout),
        connected("F15", "accept, then silence", &[ServerStep::Hang])
            .over(&tls)
            .fails(ConnectTimeout),
        connected("F15", "accept, and nothing is read", &[ServerStep::Freeze])
            .over(&plain)
            .fails(Timeout),
        connected(
            "F46",
            "plain HTTP on a port for TLS",
            &[ServerStep::ReadSome, send(RIGHT), ServerStep::Fin],
        )
        .over(&tls)
        .fails(NotTls),
    ]
    .into_iter()
    .flat_map(crate::case::Case::rows)
    .collect()
}

fn ends() -> Vec<FaultRow> {
    // An end that arrives with a response makes the request in flight stale.
    let lost = [Stale, ClosedEarly, Reset, BrokenPipe];
    [
        asked(
            "F7",
            "FIN after a response, unannounced",
            &[send(RIGHT), ServerStep::Fin],
        )
        .and_in_tls()
        .then(&lost),
        asked(
            "F8",
            "half close after a response",
            &[send(RIGHT), ServerStep::HalfClose],
        )
        .and_in_tls()
        .then(&lost),
        asked("F9", "RST instead of a response", &[ServerStep::Reset])
            .and_in_tls()
            .fails(Reset),
        asked(
            "F9",
            "RST after the head",
            &[send(HEAD), ServerStep::Pause(10), ServerStep::Reset],
        )
        .and_in_tls()
        .fails(Reset),
        asked(
            "F9",
            "RST within the body",
            &[send(HALF), ServerStep::Pause(10), ServerStep::Reset],
        )
        .and_in_tls()
        .fails(Reset),
        asked(
            "F9",
            "RST right after the last byte",
            &[send(RIGHT), ServerStep::Pause(10), ServerStep::Reset],
        )
        .and_in_tls()
        .then(&lost),
        asked(
            "F9",
            "RST behind an announced \
            close",
            &[send(ANNOUNCED), ServerStep::Pause(10), ServerStep::Reset],
        )
        .and_in_tls(),
        asked("F9", "FIN instead of a response", &[ServerStep::Fin])
            .and_in_tls()
            .fails(ClosedEarly),
        asked(
            "F9",
            "FIN within the head",
            &[send(b"HTTP/1.1 200 OK\r\nContent-Le"), ServerStep::Fin],
        )
        .and_in_tls()
        .fails(Truncated),
        asked(
            "F9",
            "FIN before the empty line",
            &[send(b"HTTP/1.1 200 OK\r\n"), ServerStep::Fin],
        )
        .fails(Truncated),
        asked("F9", "FIN within the body", &[send(HALF), ServerStep::Fin])
            .and_in_tls()
            .fails(Truncated),
        asked(
            "F16",
            "an announced close",
            &[send(ANNOUNCED), ServerStep::Fin],
        )
        .and_in_tls(),
        asked(
            "F16",
            "Keep-Alive: timeout=1, max=1, and an unannounced end",
            &[
                send(
                    b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=1\r\nContent-Length: \
                    2\r\n\r\nok",
                ),
                ServerStep::Fin,
            ],
        )
        .then(&lost),
        asked(
            "F50",
            "the end of an open body without closing \
            alert",
            &[send(UNTIL_CLOSE), ServerStep::BareFin],
        )
        .over(&[usual_tls()]),
        asked(
            "F50",
            "the end within a body without closing alert",
            &[send(HALF), ServerStep::BareFin],
        )
        .over(&[usual_tls()])
        .fails(Truncated),
        asked(
            "F50",
            "an announced end without closing alert",
            &[send(ANNOUNCED), ServerStep::BareFin],
        )
        .over(&[usual_tls()]),
    ]
    .into_iter()
    .flat_map(crate::case::Case::rows)
    .collect()
}

fn pieces() -> Vec<FaultRow> {
    let sliced = [Layer::Plain, usual_tls()];
    [
        asked(
            "F12",
            "every byte by itself",
            &[ServerStep::EachByte(RIGHT.to_vec())],
        )
        .over(&sliced),
        asked(
            "F12",
            "every byte by itself, chunked",
            &[ServerStep::EachByte(CHUNKED.to_vec())],
        )
        .over(&sliced),
        asked(
            "F12",
            "a response cut at every place",
            &[ServerStep::CutAnywhere(RIGHT.to_vec())],
        )
        .over(&sliced)
        .requests(RIGHT.len() as u64),
        asked(
            "F12",
            "a chunked response cut at every place",
            &[ServerStep::CutAnywhere(CHUNKED.to_vec())],
        )
        .requests(CHUNKED.len() as u64),
        asked(
            "F13",
            "head and body apart, with Nagle's algorithm",
            &[send(HEAD), send(b"01234"), send(b"56789")],
        )
        .with_nagle(),
        asked(
            "F14",
            "a slow drip that ends in time",
            &[ServerStep::Drip(RIGHT.to_vec(), 1)],
        )
        .and_in_tls(),
        asked(
            "F14",
            "a head that drips too slowly",
            &[ServerStep::Drip(RIGHT.to_vec(), 10)],
        )
        .and_in_tls()
        .fails(Timeout),
        asked(
            "F14",
            "a body that drips too slowly",
            &[send(HEAD), ServerStep::Drip(b"0123456789".to_vec(), 20)],
        )
        .fails(Timeout),
        asked("F15", "silence instead of a response", &[ServerStep::Hang])
            .and_in_tls()
            .fails(Timeout),
        asked(
            "F15",
            "silence within the head",
            &[send(b"HTTP/1.1 2"), ServerStep::Hang],
        )
        .fails(Timeout),
        asked(
            "F15",
            "silence after the head",
            &[send(HEAD), ServerStep::Hang],
        )
        .and_in_tls()
        .fails(Timeout),
        asked(
            "F15",
            "silence within the body",
            &[send(HALF), ServerStep::Hang],
        )
        .and_in_tls()
        .fails(Timeout),
        asked(
            "F15",
            "silence within an open body",
            &[send(UNTIL_CLOSE), ServerStep::Hang],
        )
        .fails(Timeout),
    ]
    .into_iter()
    .flat_map(crate::case::Case::rows)
    .collect()
}

fn requests_unread() -> Vec<FaultRow> {
    [
        asked(
            "F10",
            "a large request that is never read",
            &[ServerStep::Freeze],
        )
        .with(&POST)
        .fails(Timeout)
        .patience_ms(TIMEOUT_MS)
        .slow(),
        asked(
            "F10",
            "a large request that is read late",
            &[ServerStep::Pause(100), send(ANNOUNCED), ServerStep::Fin],
        )
        .with(&POST),
        asked(
            "F11",
            "413 before the body was read, then FIN",
            &[
                send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
                ServerStep::Fin,
            ],
        )
        .with(&POST)
        .with_status(413),
        asked(
            "F11",
            "413 before the body was read, then RST",
            &[
                send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
                ServerStep::Pause(20),
                ServerStep::Reset,
            ],
        )
        .with(&POST)
        .with_status(413),
        asked(
            "F11",
            "RST within the request's body",
            &[ServerStep::Pause(20), ServerStep::Reset],
        )
        .with(&POST)
        // The kernel reports the reset to either send or receive; the other sees an end.
        .fails_as(&[Reset, BrokenPipe, ClosedEarly]),
    ]
    .into_iter()
    .flat_map(crate::case::Case::rows)
    .collect()
}
