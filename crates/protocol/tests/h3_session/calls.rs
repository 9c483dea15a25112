//! Unary gRPC calls: what they send, and how their responses say that they have ended.

use protocol::h3::ClientSettings;
use protocol::{Event, SessionError};

use crate::link::{Peer, client_settings};
use crate::server::Settings;
use crate::written::{data, headers};

const CALL: &str = "POST /a.B/C HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n\x0a\x01x";

const HEAD: &[(&str, &str)] = &[(":status", "200"), ("content-type", "application/grpc")];

/// A connection on which a call was made.
fn called() -> Peer {
    let client = ClientSettings {
        calls: true,
        ..client_settings(2)
    };
    let mut peer = Peer::ready_with(client, Settings::default());
    peer.request(CALL);
    peer
}

#[test]
fn a_call_gets_the_fields_and_the_prefix_that_it_lacks() {
    let peer = called();
    let request = &peer.server.requests[0];
    let fields = request.fields.iter();
    let fields: Vec<_> = fields
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        fields,
        [
            ":method=POST",
            ":scheme=https",
            ":authority=h",
            ":path=/a.B/C",
            "te=trailers",
            "content-type=application/grpc"
        ]
    );
    assert_eq!(request.body, b"\0\0\0\0\x03\x0a\x01x");
}

#[test]
fn a_call_with_status_0_in_its_last_head_has_succeeded() {
    let ok = [("grpc-status", "0"), ("grpc-message", "")];
    let trailers = [headers(HEAD), data(b"\0\0\0\0\0"), headers(&ok)].concat();
    let only_head = headers(&[HEAD, &ok].concat());
    for response in [trailers, only_head] {
        let mut peer = called();
        peer.respond(0, &response, true);
        let finished = peer.finished();
        assert_eq!(finished.len(), 1);
        assert_eq!(finished[0].1.status, 200);
    }
}

/// The error of a call with this response.
fn failure(response: &[Vec<u8>]) -> String {
    let mut peer = called();
    peer.respond(0, &response.concat(), true);
    let events = std::mem::take(&mut peer.events);
    let [Event::Failed(_, failure)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert!(failure.error.is_response());
    // The connection is used again, and its server is told of no error.
    assert_eq!(peer.server.received_resets(), 0);
    peer.request(CALL);
    assert_eq!(peer.server.requests.len(), 2);
    assert_eq!(peer.error, None::<SessionError>);
    failure.error.to_string()
}

#[test]
fn a_call_without_status_0_in_its_last_head_has_failed() {
    let message = || data(b"\0\0\0\0\0");
    let not_found = [("grpc-status", "5"), ("grpc-message", "no%20such")];
    let expected = "gRPC call failed: NOT_FOUND: no such";
    assert_eq!(
        failure(&[headers(HEAD), message(), headers(&not_found)]),
        expected
    );
    assert_eq!(failure(&[headers(&[HEAD, &not_found].concat())]), expected);
    let without = failure(&[headers(HEAD), message()]);
    assert!(without.contains("without"), "{without}");
    let early = [HEAD, &[("grpc-status", "0")]].concat();
    assert_eq!(failure(&[headers(&early), message()]), without);
}
