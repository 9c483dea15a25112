//! Looks up ports by name (services(5)).

use std::fs::File;
use std::io::Read as _;

const PATH: &str = "/etc/services";

/// Debian's file has 12 kB; the whole IANA registry would be below a megabyte.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The TCP port of this name on this system.
pub(super) fn port(name: &str) -> Option<u16> {
    let mut bytes = Vec::new();
    let file = File::open(PATH).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    port_in(&String::from_utf8_lossy(&bytes), name)
}

/// Lines are `name port/protocol alias...`; `#` starts a comment.
fn port_in(services: &str, name: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let line = line.split('#').next()?;
        let mut words = line.split_whitespace();
        let official = words.next()?;
        let (port, protocol) = words.next()?.split_once('/')?;
        (protocol == "tcp" && (official == name || words.any(|alias| alias == name)))
            .then(|| port.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_by_its_name_and_by_its_aliases() {
        let services = "# comment\n\
                        domain 53/udp\n\
                        http\t\t80/tcp\twww # WorldWideWeb alt\n\
                        broken\n\
                        beyond 70000/tcp\n\
                        https 443/tcp\nhttps 443/udp\n";
        let found = |name| port_in(services, name);
        assert_eq!(found("http"), Some(80));
        assert_eq!(found("www"), Some(80));
        assert_eq!(found("https"), Some(443));
        for absent in [
            "domain",
            "WorldWideWeb",
            "alt",
            "broken",
            "beyond",
            "",
            "80/tcp",
        ] {
            assert_eq!(found(absent), None, "{absent:?}");
        }
    }
}
