//! The meaning of filters.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;
use crate::sockets::States;
use crate::sockets::inet_diag::parse_datagram;
use crate::sockets::state::TcpState;

/// A connection from 10.1.2.3:40000 to 192.0.2.1:80.
fn socket() -> Socket {
    let recording = include_bytes!("../../../tests/data/sockets/ipv4.bin");
    let mut socket = parse_datagram(recording).remove(0);
    socket.state = TcpState::Established;
    socket.local_address = Ipv4Addr::new(10, 1, 2, 3).into();
    socket.local_port = 40000;
    socket.peer_address = Ipv4Addr::new(192, 0, 2, 1).into();
    socket.peer_port = 80;
    socket
}

#[track_caller]
fn takes(text: &str) -> bool {
    Filter::parse(text).unwrap().takes(&socket())
}

#[test]
fn ports_compare_with_each_of_sss_signs_and_words() {
    for (symbols, below, equal, above) in [
        (&["=", "==", "eq"][..], false, true, false),
        (&["!=", "ne", "neq"], true, false, true),
        (&["<", "lt"], false, false, true),
        (&["<=", "le", "leq"], false, true, true),
        (&[">", "gt"], true, false, false),
        (&[">=", "ge", "geq"], true, true, false),
    ] {
        for symbol in symbols {
            for (port, expected) in [(":79", below), (":80", equal), (":81", above)] {
                assert_eq!(
                    takes(&format!("dport {symbol} {port}")),
                    expected,
                    "{symbol} {port}"
                );
            }
        }
    }
    for text in ["dport :80", "dport 80", "dport=80", "dport 0x50"] {
        assert!(takes(text), "{text}");
        assert!(!takes(&text.replacen('d', "s", 1)), "{text}");
    }
    assert!(takes("sport = :*") && takes("dport = *"));
}

#[test]
fn addresses_match_by_prefix_and_by_port_if_there_is_one() {
    for text in [
        "src 10.1.2.3",
        "src = 10.1.2.3",
        "src 10.0.0.0/8",
        "src 10/8",
        "src 10.1/16",
        "src 10.255.255.255/8",
        "src 0.0.0.0/0",
        "src 10.1.2.3/32:40000",
        "src 10.1.2.3:40000",
        "src :40000",
        "src *:40000",
        "src *",
        "src 10.1.2.3:*",
        "dst 192.0.2.1:80",
        "dst != 192.0.2.2",
        "dst 192.0.2.1/31",
    ] {
        assert!(takes(text), "{text}");
    }
    for text in [
        "src 10.1.2.4",
        "src 11.0.0.0/8",
        "src != 10.1.2.3",
        "src 10.1.2.3:80",
        "src :80",
        "dst 10/8",
        "dst 192.0.2.2/31",
        "src ::/0",
        "src ::ffff:10.1.2.3",
        "src [::]:40000",
    ] {
        assert!(!takes(text), "{text}");
    }
}

#[test]
fn addresses_of_ipv6_match_and_ipv4_within_them_matches_ipv4() {
    let mut socket = socket();
    socket.local_address = "2001:db8::1".parse().unwrap();
    socket.peer_address = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
    for (text, expected) in [
        ("src 2001:db8::1", true),
        ("src [2001:db8::1]", true),
        ("src [2001:db8::1]:40000", true),
        ("src [2001:db8::1]:40001", false),
        ("src 2001:db8::/32", true),
        ("src [2001:db8::]/32:40000", true),
        ("src [2001:db8::/127]", true),
        ("src 2001:db9::/32", false),
        ("src ::/0", true),
        ("src 0.0.0.0/0", false),
        ("dst 192.0.2.1", true),
        ("dst 192.0.0.0/16", true),
        ("dst 192.0.2.2", false),
        ("dst ::ffff:192.0.2.1", true),
        ("dst ::ffff:0:0/96", true),
    ] {
        assert_eq!(
            Filter::parse(text).unwrap().takes(&socket),
            expected,
            "{text}"
        );
    }
}

#[test]
fn conditions_associate_to_the_left_as_in_ss() {
    let (yes, no) = ("dport = :80", "dport = :81");
    for (text, expected) in [
        ("Y", true),
        ("N", false),
        ("Y and N", false),
        ("Y & Y", true),
        ("Y && N", false),
        ("N or Y", true),
        ("N | N", false),
        ("N || Y", true),
        ("Y N", false),
        ("Y Y", true),
        // (Y or Y) and N: `and` does not bind more tightly than `or`.
        ("Y or Y and N", false),
        ("Y or Y N", false),
        ("Y or ( Y and N )", true),
        ("N and Y or Y", true),
        ("N Y or Y", true),
        ("N and ( Y or Y )", false),
        // `not` applies to one condition.
        ("not N or Y", true),
        ("not Y and N", false),
        ("not ( Y and N )", true),
        ("! Y or Y", true),
        ("not not Y", true),
        ("(Y)(Y)", true),
        ("((N)or(Y))", true),
        ("!(N)", true),
        ("Y AND NOT N", true),
    ] {
        // The keywords contain no capital Y, and no capital N of their own.
        let words: Vec<_> = lexer::tokens(text)
            .into_iter()
            .map(|word| match word.text {
                "Y" => yes,
                "N" => no,
                other => other,
            })
            .collect();
        assert_eq!(takes(&words.join(" ")), expected, "{text}");
    }
}

#[test]
fn states_and_their_groups_are_those_of_ss() {
    use TcpState::{
        CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived,
        SynSent, TimeWait,
    };
    let all = [
        Established,
        SynSent,
        SynReceived,
        FinWait1,
        FinWait2,
        TimeWait,
        Closed,
        CloseWait,
        LastAck,
        Listen,
        Closing,
    ];
    let without = |left_out: &[TcpState]| {
        all.into_iter()
            .filter(|state| !left_out.contains(state))
            .collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("", without(&[Listen, Closed, TimeWait, SynReceived])),
        ("state all", without(&[])),
        ("state connected", without(&[Listen, Closed])),
        ("state synchronized", without(&[Listen, Closed, SynSent])),
        ("state bucket", vec![SynReceived, TimeWait]),
        ("state big", without(&[SynReceived, TimeWait])),
        ("state established", vec![Established]),
        ("state ESTABLISHED sport = :40000", vec![Established]),
        ("state listening state time-wait", vec![TimeWait, Listen]),
        ("exclude listening", without(&[Listen])),
        (
            "excl bucket exclude closed",
            without(&[SynReceived, TimeWait, Closed]),
        ),
        (
            "state connected exclude time-wait",
            without(&[Listen, Closed, TimeWait]),
        ),
        ("exclude all", vec![]),
    ] {
        let filter = Filter::parse(text).unwrap();
        let found: Vec<_> = all
            .into_iter()
            .filter(|state| filter.states().has(*state))
            .collect();
        assert_eq!(found, expected, "{text:?}");
        assert!(!filter.states().has(TcpState::BoundInactive));
    }
    for (word, state) in [
        ("syn-sent", SynSent),
        ("syn-recv", SynReceived),
        ("fin-wait-1", FinWait1),
        ("fin-wait-2", FinWait2),
        ("unconnected", Closed),
        ("closed", Closed),
        ("close-wait", CloseWait),
        ("last-ack", LastAck),
        ("closing", Closing),
    ] {
        assert_eq!(States::of_word(word), Some(States::from(state)), "{word}");
    }
}

#[test]
fn states_in_the_filter_override_those_of_options() {
    let states = |text| {
        Filter::parse(text)
            .unwrap()
            .with_default_states(States::LISTENING)
            .states()
    };
    assert_eq!(states("sport = :80"), States::LISTENING);
    assert_eq!(
        states("state established sport = :80"),
        States::from(TcpState::Established)
    );
}

#[test]
fn the_state_of_a_closed_socket_does_not_matter() {
    let filter = Filter::parse("state established dport = :80").unwrap();
    let mut gone = socket();
    gone.state = TcpState::Closed;
    assert!(!filter.takes(&gone));
    assert!(filter.takes_endpoints(&gone));
    gone.peer_port = 81;
    assert!(!filter.takes_endpoints(&gone));
}

#[test]
fn errors_are_one_line_with_their_column() {
    for (text, expected) in [
        (
            "sport",
            "column 6: the filter ends here: expected a port like :80 (names of services are not \
             looked up)",
        ),
        ("sport =", "column 8: the filter ends here: expected a port"),
        (
            "sport = :80 or",
            "column 15: the filter ends here: expected sport, dport, src, dst",
        ),
        (
            "sport = :http",
            "column 9: `:http`: expected a port like :80 (names of services are not looked up)",
        ),
        ("sport = :65536", "column 9: `:65536`: expected a port"),
        ("sport = :-1", "column 9: `:-1`: expected a port"),
        ("sport = :+80", "column 9: `:+80`: expected a port"),
        ("sport = :080", "column 9: `:080`: expected a port"),
        ("sport = :0x", "column 9: `:0x`: expected a port"),
        ("sport = :", "column 9: `:`: expected a port"),
        (
            "sport = 127.0.0.1:80",
            "column 9: `127.0.0.1:80`: expected a port",
        ),
        (
            "sport > :*",
            "column 9: `:*`: every port can be compared with `=` only",
        ),
        (
            "port = :80",
            "column 1: `port`: expected sport, dport, src, dst, `not` or `(`",
        ),
        (
            "sport = :80 foo",
            "column 13: `foo`: expected `and`, `or`, a condition or `)`",
        ),
        (
            "( sport = :80",
            "column 14: the filter ends here: expected `)`",
        ),
        (
            "sport = :80 )",
            "column 13: `)`: expected a condition, `and` or `or`",
        ),
        ("()", "column 2: `)`: expected sport"),
        ("or", "column 1: `or`: expected sport"),
        ("not", "column 4: the filter ends here"),
        (
            "src localhost",
            "column 5: `localhost`: expected an address like",
        ),
        ("src 127.1", "column 5: `127.1`: expected an address"),
        (
            "src 10.0.0.0/33",
            "column 5: `10.0.0.0/33`: expected an address",
        ),
        ("src ::/129", "column 5: `::/129`: expected an address"),
        ("src 10/", "column 5: `10/`: expected an address"),
        (
            "src 1.2.3.4.5/8",
            "column 5: `1.2.3.4.5/8`: expected an address",
        ),
        (
            "src [10.0.0.1]:80",
            "column 5: `[10.0.0.1]:80`: expected an address",
        ),
        ("src [::1:80", "column 5: `[::1:80`: expected an address"),
        (
            "src 10.0.0.1:foo",
            "column 5: `10.0.0.1:foo`: expected an address",
        ),
        (
            "src > 10.0.0.1",
            "column 5: `>`: addresses compare with `=` and `!=` only",
        ),
        (
            "state",
            "column 6: the filter ends here: expected a state like established",
        ),
        (
            "state bogus",
            "column 7: `bogus`: expected a state like established",
        ),
        (
            "sport = :80 state established",
            "column 13: `state`: states come before all conditions",
        ),
        (
            "dev = eth0",
            "column 1: `dev`: ss knows this condition, but it is not supported here",
        ),
        (
            "sport = :80 and cgroup = /x",
            "column 17: `cgroup`: ss knows",
        ),
        ("ä = \n\u{1b}[1m", "column 1: `ä`: expected sport"),
        (
            "sport = \u{1b}[1m",
            "column 9: `\\u{1b}[1m`: expected a port",
        ),
    ] {
        let message = Filter::parse(text).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{text:?} gives {message:?}");
        assert_eq!(message.lines().count(), 1, "{message:?}");
    }
}

#[test]
fn very_long_and_deep_filters_are_refused() {
    let many = vec!["sport = :80"; 1000].join(" or ");
    assert!(Filter::parse(&many).unwrap().takes_endpoints(&Socket {
        local_port: 80,
        ..socket()
    }));
    let deep = |depth: usize| format!("{}sport = :80{}", "( ".repeat(depth), " )".repeat(depth));
    assert!(Filter::parse(&deep(100)).is_ok());
    for (text, expected) in [
        (
            format!("{many} or sport = :80"),
            "there are more than 1000 conditions",
        ),
        (deep(101), "`(`: more than 100 levels of nesting"),
        (
            "not ".repeat(100_000),
            "`not`: more than 100 levels of nesting",
        ),
        ("(".repeat(100_000), "`(`: more than 100 levels of nesting"),
        (
            vec![many.as_str(); 100].join(" "),
            "there are more than 1000 conditions",
        ),
    ] {
        let message = Filter::parse(&text).unwrap_err().to_string();
        assert!(message.ends_with(expected), "{message}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_filter_or_refused_in_one_line(
        words in proptest::collection::vec(prop_oneof![
            Just("sport".to_owned()), Just("dst".to_owned()), Just("=".to_owned()),
            Just("(".to_owned()), Just(")".to_owned()), Just("or".to_owned()),
            Just("not".to_owned()), Just(":80".to_owned()), Just("10/8".to_owned()),
            Just("state".to_owned()), Just("all".to_owned()), "\\PC{0,6}",
            "[0-9a-f:.\\[\\]/*]{0,12}",
        ], 0..8),
    ) {
        if let Err(error) = Filter::parse(&words.join(" ")) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
