//! Parsers for text files of the kernel. They do no I/O and accept any input.

pub(crate) mod cgroup;
pub(crate) mod pressure;
pub(crate) mod process;
pub(crate) mod schedstat;
pub(crate) mod snmp;
pub(crate) mod socket_table;
pub(crate) mod softnet;
pub(crate) mod stat;

/// Lines that are complete: a number in a truncated last line could be wrong.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}
