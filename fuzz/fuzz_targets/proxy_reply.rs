//! Any bytes as the answers of a proxy, cut into pieces.

#![no_main]

#[path = "../given.rs"]
mod given;

use libfuzzer_sys::fuzz_target;
use protocol::proxy::{Connect, Destination, Login, Opening, ProxyFault, Socks, Tunnel};

/// What came of it: what was sent, and the target's first bytes or the fault.
type Outcome = (Vec<u8>, Result<Option<Vec<u8>>, ProxyFault>);

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, piece], answer)) = data.split_first_chunk() else {
        return;
    };
    let tunnel = match kind % 3 {
        0 => Tunnel::Connect(Connect::new("t:1", "Proxy-Authorization: Basic dTpw\r\n")),
        1 => Tunnel::Socks(socks(None)),
        _ => Tunnel::Socks(socks(Some(&Login {
            user: b"u".to_vec(),
            password: b"p".to_vec(),
        }))),
    };
    let whole = outcome(&tunnel, answer, answer.len().max(1));
    let cut = outcome(&tunnel, answer, usize::from(piece).max(1));
    assert_eq!(cut, whole);
    if let Err(fault) = whole.1 {
        let line = fault.to_string();
        given::one_line(&line);
        assert!(line.chars().count() < 200, "{line}");
    }
});

fn socks(login: Option<&Login>) -> Socks {
    let name = Destination::Name("t.example".to_owned());
    Socks::new(&name, 443, login).expect("nothing is too long")
}

fn outcome(tunnel: &Tunnel, answer: &[u8], piece: usize) -> Outcome {
    let mut opening = Opening::default();
    let mut sent = Vec::new();
    opening.begin(tunnel, &mut sent);
    let mut pieces = answer.chunks(piece);
    while let Some(part) = pieces.next() {
        match opening.receive(tunnel, part, &mut sent) {
            Ok(None) => assert!(!opening.is_complete()),
            Ok(Some(mut rest)) => {
                assert!(opening.is_complete());
                rest.extend(pieces.flatten());
                return (sent, Ok(Some(rest)));
            }
            Err(fault) => return (sent, Err(fault)),
        }
    }
    (sent, Ok(None))
}
