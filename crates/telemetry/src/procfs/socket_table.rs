//! Listening sockets in `/proc/net/tcp`, `tcp6` and `unix` (proc(5)), and the links to sockets in
//! `/proc/PID/fd`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::whole_lines;

/// TCP_LISTEN of `include/net/tcp_states.h`, as the table has it.
const LISTEN: &str = "0A";

/// The flag `__SO_ACCEPTCON` of a Unix socket that listens (`include/uapi/linux/net.h`).
const ACCEPTS: u32 = 1 << 16;

/// The inodes of the sockets that accept connections to an address: those that listen on its port
/// at this address or at all addresses.
pub(crate) fn listening_tcp(table: &str, address: SocketAddr) -> impl Iterator<Item = u64> {
    whole_lines(table).filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, *fields.get(3)?, fields.get(9)?);
        let (ip, port) = local.split_once(':')?;
        let is_port = u16::from_str_radix(port, 16).ok()? == address.port();
        let ip = parse_ip(ip)?;
        let is_it = ip.is_unspecified() || ip == address.ip().to_canonical();
        (state == LISTEN && is_port && is_it).then(|| inode.parse().ok())?
    })
}

/// The kernel prints addresses as words of 32 bits in the byte order of the machine.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

/// The inodes of the Unix sockets that listen at a path.
pub(crate) fn listening_unix(table: &str, path: &Path) -> impl Iterator<Item = u64> {
    whole_lines(table).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip(3);
        let flags = u32::from_str_radix(fields.next()?, 16).ok()?;
        let inode = fields.nth(2)?.parse().ok()?;
        // A path may contain blanks.
        let is_path = line.ends_with(path.to_str()?) && fields.next().is_some();
        (flags & ACCEPTS != 0 && is_path).then_some(inode)
    })
}

/// The inode in the target of a link to a socket.
pub(crate) fn inode_of_link(target: &str) -> Option<u64> {
    let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(local: &str, state: &str, inode: u64) -> String {
        format!(
            "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 \
             {inode} 1 0000000000000000 100 0 0 10 0\n"
        )
    }

    fn found(table: &str, address: &str) -> Vec<u64> {
        listening_tcp(table, address.parse().expect("an address")).collect()
    }

    #[test]
    fn sockets_that_listen_on_the_port_are_found_by_address_or_for_all_addresses() {
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let table = row(&format!("{loopback}:1F90"), "0A", 1)
            + &row("00000000:1F90", "0A", 2)
            + &row("00000000:1F91", "0A", 3)
            + &row(&format!("{loopback}:1F90"), "01", 4)
            + &row(&format!("{}:1F90", "0".repeat(32)), "0A", 5);
        assert_eq!(found(&table, "127.0.0.1:8080"), [1, 2, 5]);
        assert_eq!(found(&table, "127.0.0.2:8080"), [2, 5]);
        assert_eq!(found(&table, "127.0.0.1:80"), [0; 0]);
    }

    #[test]
    fn broken_tables_yield_nothing() {
        for table in [
            "",
            "\n",
            "a b c\n",
            "0: xyz:1F90 0 0A 0 0 0 0 0 7\n",
            "0: :: 0 0A",
        ] {
            assert_eq!(found(table, "127.0.0.1:8080"), [0; 0], "{table:?}");
        }
    }

    #[test]
    fn unix_sockets_that_listen_are_found_by_path() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
            ffff: 00000002 00000000 00010000 0001 01 31 /run/a b.sock\n\
            ffff: 00000003 00000000 00000000 0001 03 32 /run/a b.sock\n\
            ffff: 00000002 00000000 00010000 0001 01 33\n";
        let inodes: Vec<u64> = listening_unix(table, Path::new("/run/a b.sock")).collect();
        assert_eq!(inodes, [31]);
    }

    #[test]
    fn only_links_to_sockets_have_an_inode() {
        assert_eq!(inode_of_link("socket:[77]"), Some(77));
        for other in ["pipe:[77]", "socket:[x]", "/dev/null", "socket:[77"] {
            assert_eq!(inode_of_link(other), None, "{other}");
        }
    }
}
