//! `/proc/net/snmp` and `/proc/net/netstat` (proc_pid_net(5), RFC 4022): pairs of lines with the
//! names of a group and their values.

use super::whole_lines;

/// Settings rather than counters; so is `MaxConn`.
const SETTINGS: [&str; 6] = [
    "Ip.Forwarding",
    "Ip.DefaultTTL",
    "Tcp.RtoAlgorithm",
    "Tcp.RtoMin",
    "Tcp.RtoMax",
    "Tcp.MaxConn",
];

/// Names such as `Tcp.RetransSegs` with their values. Mismatched pairs of lines are left out, and
/// so are values that are not numbers.
pub(crate) fn parse(text: &str) -> Vec<(String, u64)> {
    let mut values = Vec::new();
    let mut lines = whole_lines(text).peekable();
    while let Some(names) = lines.next() {
        let Some((group, names)) = names.split_once(':') else {
            continue;
        };
        // The next line is only peeked at: it may be the names of another pair.
        let numbers = lines.peek().and_then(|line| line.split_once(':'));
        let Some((_, numbers)) = numbers.filter(|(other, _)| *other == group) else {
            continue;
        };
        let (names, numbers) = (words(names), words(numbers));
        if names.len() != numbers.len() || !names.iter().chain([&group]).all(|name| is_name(name)) {
            continue;
        }
        lines.next();
        values.extend(names.iter().zip(numbers).filter_map(|(name, number)| {
            let name = format!("{group}.{name}");
            let number = number.parse().ok()?;
            (!SETTINGS.contains(&name.as_str())).then_some((name, number))
        }));
    }
    values
}

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

/// Values do not begin with a letter, so a line of names without values is recognized.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL InReceives\nIp: 2 64 230173746\n\
        IcmpMsg: InType3\nIcmpMsg: 2\n\
        Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab RetransSegs\n\
        Tcp: 1 200 120000 -1 3147772 5 175141\n";

    fn parsed(text: &str) -> Vec<(String, u64)> {
        parse(text)
    }

    #[test]
    fn counters_are_named_after_their_groups_and_settings_are_left_out() {
        let expected = [
            ("Ip.InReceives", 230_173_746),
            ("IcmpMsg.InType3", 2),
            ("Tcp.ActiveOpens", 3_147_772),
            ("Tcp.CurrEstab", 5),
            ("Tcp.RetransSegs", 175_141),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        assert_eq!(parsed(SNMP), expected);
    }

    #[test]
    fn a_truncated_text_has_only_values_of_the_complete_one() {
        let whole = parsed(SNMP);
        for end in 0..SNMP.len() {
            let cut = parsed(&SNMP[..end]);
            assert!(whole.starts_with(&cut), "{end}: {cut:?}");
        }
    }

    #[test]
    fn mismatched_lines_are_left_out() {
        for text in [
            "",
            "\n\n",
            "Tcp: A B\n",
            "Tcp: A B\nTcp: 1\n",
            "Tcp: A\nUdp: 1\n",
            "Tcp: 1\nTcp: 2\n",
            "Tcp: A\nTcp: x\n",
            "Tcp: A\nTcp: 99999999999999999999\n",
            "T=p: A\nT=p: 1\n",
            "Tcp: A\"\nTcp: 1\n",
            "Tcp A\nTcp 1\n",
        ] {
            assert_eq!(parsed(text), [], "{text:?}");
        }
        // A line without its partner does not take the one of the next group.
        let text = "Tcp: A B\nUdp: C\nUdp: 3\n";
        assert_eq!(parsed(text), [("Udp.C".to_owned(), 3)]);
        let text = "Tcp: 7\nUdp: C\nUdp: 3\nUdp: 4\nIp: D\nIp: 5\n";
        assert_eq!(
            parsed(text),
            [("Udp.C".to_owned(), 3), ("Ip.D".to_owned(), 5)]
        );
    }
}
