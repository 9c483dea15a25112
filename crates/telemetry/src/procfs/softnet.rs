//! `/proc/net/softnet_stat` (`softnet_seq_show` in `net/core/net-procfs.c`): incoming packets per
//! CPU.

use super::whole_lines;

/// One counter of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    /// Number of the CPU; the index of its line before Linux 5.10.
    pub(crate) cpu: u32,
    /// Name of the counter.
    pub(crate) name: &'static str,
    /// Value since boot; 32 bits in the kernel, which wrap.
    pub(crate) value: u32,
}

/// The columns that are counters. The others are always zero today, or are lengths.
const COLUMNS: [(usize, &str); 5] = [
    (0, "processed"),
    (1, "dropped"),
    (2, "time_squeeze"),
    (9, "received_rps"),
    (10, "flow_limit"),
];

/// The column with the CPU's number.
const CPU_COLUMN: usize = 12;

/// The counters of each CPU, as far as this kernel has them. Numbers are hexadecimal.
pub(crate) fn parse(text: &str) -> Vec<Count> {
    let mut counts = Vec::new();
    for (line, place) in whole_lines(text).zip(0..) {
        let columns: Vec<Option<u32>> = line
            .split_ascii_whitespace()
            .map(|number| u32::from_str_radix(number, 16).ok())
            .collect();
        let column = |at: usize| columns.get(at).copied().flatten();
        let cpu = column(CPU_COLUMN).unwrap_or(place);
        counts.extend(COLUMNS.iter().filter_map(|(at, name)| {
            let value = column(*at)?;
            Some(Count { cpu, name, value })
        }));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(u32, &'static str, u32)> {
        let counts = parse(text).into_iter();
        counts
            .map(|count| (count.cpu, count.name, count.value))
            .collect()
    }

    #[test]
    fn each_cpu_has_its_counters_in_hexadecimal() {
        let text = "06d6671f 00003f0d 00000042 00000000 00000000 00000000 00000000 00000000 \
                    00000000 0000000a 0000000b 00000000 00000000 00000000 00000000\n\
                    00000001 00000002 00000003 00000000 00000000 00000000 00000000 00000000 \
                    00000000 00000004 00000005 00000009 00000007 00000000 00000000\n";
        let expected = [
            (0, "processed", 0x06d6_671f),
            (0, "dropped", 0x3f0d),
            (0, "time_squeeze", 0x42),
            (0, "received_rps", 10),
            (0, "flow_limit", 11),
            (7, "processed", 1),
            (7, "dropped", 2),
            (7, "time_squeeze", 3),
            (7, "received_rps", 4),
            (7, "flow_limit", 5),
        ];
        assert_eq!(values(text), expected);
    }

    #[test]
    fn an_older_kernel_has_fewer_columns_and_no_numbers_of_cpus() {
        let text = "00000001 00000002 00000003 00000000\n00000004 00000005 00000006 00000000\n";
        let expected = [
            (0, "processed", 1),
            (0, "dropped", 2),
            (0, "time_squeeze", 3),
            (1, "processed", 4),
            (1, "dropped", 5),
            (1, "time_squeeze", 6),
        ];
        assert_eq!(values(text), expected);
    }

    #[test]
    fn invalid_numbers_and_truncated_lines_are_left_out() {
        assert_eq!(values(""), []);
        assert_eq!(values("00000001 00000002"), []);
        assert_eq!(values("x 00000002 1ffffffff\n"), [(0, "dropped", 2)]);
    }
}
