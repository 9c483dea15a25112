//! Datagrams recorded from a kernel (`tests/data/README.md`), complete and damaged.

use serde_json::{Map, Value};

use super::*;

const IPV4: &[u8] = include_bytes!("../../../tests/data/sockets/ipv4.bin");
const IPV6: &[u8] = include_bytes!("../../../tests/data/sockets/ipv6.bin");
const DESTROYED: &[u8] = include_bytes!("../../../tests/data/sockets/destroyed.bin");
const RECORDINGS: [&[u8]; 3] = [IPV4, IPV6, DESTROYED];

/// The sequence number of the recorded requests.
const SEQUENCE: u32 = 7;

/// The only recorded socket with these ports.
fn recorded(recording: &[u8], local_port: u16, peer_port: u16) -> Socket {
    let mut found: Vec<_> = parse_datagram(recording)
        .into_iter()
        .filter(|socket| (socket.local_port, socket.peer_port) == (local_port, peer_port))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn object(socket: &Socket) -> Map<String, Value> {
    match serde_json::to_value(socket).unwrap() {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}

#[test]
fn a_recorded_connection_has_what_went_through_it() {
    let socket = recorded(IPV4, 40001, 8080);
    let info = socket.info.as_ref().unwrap();
    assert_eq!(socket.state, TcpState::Established);
    assert_eq!(socket.local_address_port(), "127.0.0.1:40001");
    assert_eq!(socket.peer_address_port(), "127.0.0.1:8080");
    assert_eq!(info.bytes_sent, Some(12345));
    assert_eq!(info.bytes_acked, Some(12346), "its SYN counts");
    assert_eq!(info.bytes_received, Some(54321));
    assert_eq!((info.total_retrans, info.lost), (0, 0));
    assert!(info.rtt_us.is_some() && info.min_rtt_us.is_some());
    assert_eq!(
        info.option_names().collect::<Vec<_>>(),
        ["ts", "sack", "wscale"]
    );
    assert_eq!(socket.congestion.as_deref(), Some("bbr"));
    let Some(CongestionInfo::Bbr { min_rtt_us, .. }) = socket.congestion_info else {
        panic!("{:?}", socket.congestion_info);
    };
    assert_eq!(Some(min_rtt_us), info.min_rtt_us);
    assert_eq!(socket.timer.unwrap().kind, TimerKind::Keepalive);
    assert_eq!(socket.recv_queue_bytes, Some(0));
    assert_eq!(socket.send_queue_bytes, Some(0));
    assert_eq!(socket.uid, Some(0), "root's, since it has an inode");
    assert_eq!(socket.memory.unwrap().drops, Some(0));
    assert_eq!(socket.listen, None);
}

#[test]
fn a_recorded_peer_that_does_not_read_closes_the_window() {
    let socket = recorded(IPV4, 40004, 8080);
    let info = socket.info.as_ref().unwrap();
    assert!(socket.send_queue_bytes.unwrap() > 0);
    assert_eq!(socket.timer.unwrap().kind, TimerKind::Persist);
    assert!(info.rwnd_limited_us.unwrap() > 0);
    assert!(info.notsent_bytes.unwrap() > 0);
    let peer = recorded(IPV4, 8080, 40004);
    let received = peer.info.unwrap().bytes_received.unwrap();
    assert_eq!(u64::from(peer.recv_queue_bytes.unwrap()), received);
    assert!(peer.memory.unwrap().rmem_alloc_bytes > 0);
}

#[test]
fn a_recorded_listening_socket_has_a_queue_with_a_limit_and_nothing_of_a_connection() {
    let socket = recorded(IPV4, 8080, 0);
    assert_eq!(socket.state, TcpState::Listen);
    let queue = socket.listen.unwrap();
    assert_eq!((queue.waiting, queue.limit), (0, 7));
    assert_eq!(
        (socket.recv_queue_bytes, socket.send_queue_bytes),
        (None, None)
    );
    assert_eq!(socket.info, None);
    let object = object(&socket);
    assert_eq!(object["listen_limit"], 7);
    assert_eq!(object["peer_address_port"], "0.0.0.0:*");
    for absent in ["cwnd", "rtt", "recv_q", "bytessent"] {
        assert!(!object.contains_key(absent), "{absent}");
    }
}

#[test]
fn a_recorded_time_wait_is_a_stub_of_which_only_the_addresses_are_known() {
    let socket = recorded(IPV4, 40005, 8080);
    assert_eq!(socket.state, TcpState::TimeWait);
    assert_eq!(socket.timer.unwrap().kind, TimerKind::TimeWait);
    assert_eq!((socket.uid, socket.inode), (None, None));
    assert_eq!(
        (socket.recv_queue_bytes, socket.send_queue_bytes),
        (None, None)
    );
    assert_eq!((&socket.info, &socket.congestion), (&None, &None));
}

#[test]
fn a_stub_that_waits_for_the_peer_has_no_queues_either() {
    let stub = messages(IPV4)
        .find(|message| message.payload.get(1) == Some(&(TcpState::TimeWait as u8)))
        .unwrap();
    let mut payload = stub.payload.to_vec();
    payload[1] = TcpState::FinWait2 as u8;
    let socket = socket(&payload).unwrap();
    assert_eq!(socket.state, TcpState::FinWait2);
    assert_eq!(
        (socket.recv_queue_bytes, socket.send_queue_bytes),
        (None, None)
    );
}

#[test]
fn recorded_addresses_of_ipv6_are_written_as_ss_writes_them() {
    let both = recorded(IPV6, 8081, 0);
    assert_eq!(both.is_v6_only, Some(false));
    assert_eq!(both.local_address_port(), "*:8081");
    let only = recorded(IPV6, 8082, 0);
    assert_eq!(only.is_v6_only, Some(true));
    assert_eq!(only.local_address_port(), "[::1]:8082");
    assert_eq!(only.peer_address_port(), "[::]:*");
    let mapped = recorded(IPV6, 8081, 40002);
    assert_eq!(mapped.local_address_port(), "[::ffff:127.0.0.1]:8081");
    let client = recorded(IPV6, 40003, 8082);
    assert_eq!(client.peer_address_port(), "[::1]:8082");
    assert_eq!(client.tclass, Some(0x20));
    let reno = recorded(IPV4, 40002, 8081);
    assert_eq!(reno.congestion.as_deref(), Some("reno"));
    assert_eq!(reno.congestion_info, None);
}

#[test]
fn a_recorded_close_has_the_final_values_of_the_socket() {
    let before = recorded(IPV4, 40001, 8080);
    let after = recorded(DESTROYED, 40001, 8080);
    assert_eq!(after.cookie, before.cookie);
    assert_eq!(after.state, TcpState::Closed);
    let info = after.info.unwrap();
    assert_eq!(
        (info.bytes_sent, info.bytes_received),
        (Some(12345), Some(54321))
    );
    assert_eq!(
        (after.uid, after.congestion),
        (None, None),
        "not told of the dead"
    );
    let six = recorded(DESTROYED, 40003, 8082);
    assert_eq!(six.local_address_port(), "[::1]:40003");
}

#[test]
fn a_truncated_recording_has_the_sockets_before_the_cut() {
    for recording in RECORDINGS {
        let whole = parse_datagram(recording);
        assert!(whole.len() >= 4);
        let mut most = 0;
        for end in 0..recording.len() {
            let cut = parse_datagram(&recording[..end]);
            assert_eq!(cut[..], whole[..cut.len()], "cut at {end}");
            assert!(cut.len() >= most, "cut at {end}");
            most = cut.len();
        }
    }
}

#[test]
fn a_truncated_message_lacks_only_what_is_missing() {
    for message in RECORDINGS.into_iter().flat_map(messages) {
        let Some(whole) = socket(message.payload) else {
            continue;
        };
        let whole = object(&whole);
        for end in 0..message.payload.len() {
            let cut = socket(&message.payload[..end]);
            assert_eq!(cut.is_some(), end >= MESSAGE_BYTES, "cut at {end}");
            for (name, value) in cut.iter().flat_map(object) {
                // The text of an unspecified address depends on one of the attributes.
                if !name.ends_with("_address_port") {
                    assert_eq!(whole.get(&name), Some(&value), "{name}, cut at {end}");
                }
            }
        }
    }
}

#[test]
fn only_replies_to_the_request_are_read_up_to_their_end() {
    let count = |sequence| {
        let mut sockets = 0;
        let rest = read_datagram(IPV6, sequence, &mut |_| sockets += 1);
        (sockets, rest.end)
    };
    let all = parse_datagram(IPV6).len();
    assert_eq!(count(Some(SEQUENCE)), (all, Some(End::Done)));
    assert_eq!(count(None), (all, Some(End::Done)));
    assert_eq!(count(Some(SEQUENCE + 1)), (0, None));
}

/// A message with these flags and a payload of four bytes.
fn made(kind: i32, flags: i32, payload: i32) -> Vec<u8> {
    [
        &20_u32.to_ne_bytes()[..],
        &(kind as u16).to_ne_bytes(),
        &(flags as u16).to_ne_bytes(),
        &SEQUENCE.to_ne_bytes(),
        &0_u32.to_ne_bytes(),
        &payload.to_ne_bytes(),
    ]
    .concat()
}

#[test]
fn refusals_and_interrupted_replies_are_distinguished_from_complete_ones() {
    let read = |bytes: &[u8]| read_datagram(bytes, Some(SEQUENCE), &mut |_| panic!("no socket"));
    let refused = |errno| Some(End::Refused(errno));
    assert_eq!(
        read(&made(libc::NLMSG_ERROR, 0, -libc::ENOENT)).end,
        refused(libc::ENOENT)
    );
    assert_eq!(
        read(&made(libc::NLMSG_DONE, 0, -libc::EINVAL)).end,
        refused(libc::EINVAL)
    );
    assert_eq!(
        read(&made(libc::NLMSG_ERROR, 0, i32::MIN)).end,
        refused(i32::MAX)
    );
    let interrupted = read(&made(libc::NLMSG_DONE, libc::NLM_F_DUMP_INTR, 0));
    assert!(interrupted.is_interrupted);
    assert_eq!(interrupted.end, Some(End::Done));
    assert!(!read(&made(libc::NLMSG_DONE, libc::NLM_F_MULTI, 0)).is_interrupted);
    // A length shorter than the header ends parsing.
    let mut endless = made(libc::NLMSG_DONE, 0, 0);
    endless[..4].fill(0);
    assert_eq!(read(&endless), DatagramRest::default());
}

#[test]
fn unknown_families_states_and_attributes_are_left_out() {
    let message = messages(IPV4).next().unwrap();
    let with = |at: usize, value: u8| {
        let mut payload = message.payload.to_vec();
        payload[at] = value;
        socket(&payload)
    };
    assert!(with(0, 2).is_some());
    assert_eq!(with(0, 77), None);
    for state in [0, 12, 14, 255] {
        assert_eq!(with(1, state), None);
    }
    let known = socket(message.payload).unwrap();
    // Eight bytes of an unknown attribute, before and after the known ones.
    let unknown = [8, 0, 0xee, 0x3e, 1, 2, 3, 4];
    let (head, attributes) = message.payload.split_at(MESSAGE_BYTES);
    assert_eq!(
        socket(&[head, &unknown, attributes].concat()),
        Some(known.clone())
    );
    assert_eq!(socket(&[head, attributes, &unknown].concat()), Some(known));
}

#[test]
fn a_request_has_the_stated_length_and_contains_family_and_states() {
    let request = request(libc::AF_INET as u8, States::LISTENING, 9);
    let head = Members(&request);
    assert_eq!(request.len(), 16 + 56);
    assert_eq!(head.u32(0), Some(72));
    assert_eq!(head.u16(4), Some(SOCK_DIAG_BY_FAMILY));
    assert_eq!(head.u32(8), Some(9));
    assert_eq!(request[16..20], [2, 6, 0xfe, 0]);
    assert_eq!(head.u32(20), Some(1 << 10 | 1 << 7));
}

proptest::proptest! {
    #[test]
    fn parsing_ends_for_all_bytes(
        recording in proptest::sample::select(RECORDINGS.to_vec()),
        changes in proptest::collection::vec((0_usize..6024, proptest::num::u8::ANY), 0..40),
    ) {
        let mut bytes = recording.to_vec();
        for (at, value) in changes {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        for socket in parse_datagram(&bytes) {
            proptest::prop_assert!(object(&socket).contains_key("state"));
        }
    }
}
