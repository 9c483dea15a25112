//! Requests and responses on a connection that is ready.

use protocol::{Event, ExchangeId, RequestKind, Session};

use crate::pair::{GET, Pair, RESPONSE, VERSIONS};

#[test]
fn a_response_split_at_every_byte_is_the_same() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        // Ciphertext depends on the record's number, so each split needs its own exchange.
        let length = {
            pair.request(&[RequestKind::Plain]);
            let records = pair.encrypt(RESPONSE);
            pair.deliver(&records).expect("the response is good");
            records.len()
        };
        for cut in 0..=length {
            pair.events.clear();
            pair.request(&[RequestKind::Plain]);
            let records = pair.encrypt(RESPONSE);
            pair.deliver(&records[..cut])
                .expect("the beginning is good");
            pair.deliver(&records[cut..]).expect("the rest is good");
            let [Event::Finished(_, response)] = pair.events.as_slice() else {
                panic!("cut at {cut}: {:?}", pair.events);
            };
            assert_eq!(response.bytes, RESPONSE.len() as u64);
        }
    }
}

#[test]
fn a_response_split_into_records_at_every_byte_is_joined() {
    let mut pair = Pair::ready(VERSIONS[1]);
    for cut in 1..RESPONSE.len() {
        pair.events.clear();
        pair.request(&[RequestKind::Plain]);
        let mut records = pair.encrypt(&RESPONSE[..cut]);
        records.extend(pair.encrypt(&RESPONSE[cut..]));
        pair.deliver(&records).expect("the response is good");
        let found = pair.responses();
        assert_eq!(
            (found.len(), found[0].bytes),
            (1, RESPONSE.len() as u64),
            "cut at {cut}"
        );
    }
}

#[test]
fn a_record_in_two_pieces_reports_that_the_response_has_begun() {
    let mut pair = Pair::ready(VERSIONS[1]);
    pair.events.clear();
    pair.request(&[RequestKind::Plain]);
    let first = pair.encrypt(&RESPONSE[..20]);
    pair.deliver(&first).expect("it is good");
    assert_eq!(pair.events, [Event::Began(ExchangeId(0))]);
    assert_eq!(pair.client.partial_bytes(), 20);
}

#[test]
fn pipelined_responses_in_one_piece_are_separated() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        let kinds = [RequestKind::Plain; 16];
        assert_eq!(pair.request(&kinds), GET.repeat(16));
        let records = pair.encrypt(&RESPONSE.repeat(16));
        pair.deliver(&records)
            .expect("the expected bytes are valid");
        assert_eq!(pair.responses().len(), 16);
    }
}

#[test]
fn a_large_response_is_received() {
    const BODY_BYTES: usize = 3_000_000;
    for (version, step) in VERSIONS.into_iter().zip([1_000, usize::MAX]) {
        let mut pair = Pair::ready(version);
        pair.step = step;
        pair.request(&[RequestKind::Plain]);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        let response = [head.as_bytes(), &vec![b'x'; BODY_BYTES]].concat();
        let records = pair.encrypt(&response);
        pair.deliver(&records).expect("the response is good");
        assert_eq!(pair.responses()[0].bytes, response.len() as u64);
    }
}

#[test]
fn a_large_request_is_sent_whole() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        let request: Vec<u8> = (0..1_000_000_u32)
            .map(|at| at.to_le_bytes()[at as usize % 4])
            .collect();
        pair.start(&request, &[RequestKind::Plain]);
        assert!(pair.received_by_server() == request, "every byte arrives");
    }
}

#[test]
fn a_server_may_update_its_keys_between_responses() {
    let mut pair = Pair::ready(VERSIONS[1]);
    for _ in 0..20 {
        pair.events.clear();
        pair.server.refresh_traffic_keys().expect("TLS 1.3 can");
        let update = pair.server_output();
        pair.deliver(&update).expect("the update is good");
        pair.request(&[RequestKind::Plain]);
        let records = pair.encrypt(RESPONSE);
        pair.deliver(&records).expect("the response is good");
        assert_eq!(pair.responses().len(), 1);
    }
}
