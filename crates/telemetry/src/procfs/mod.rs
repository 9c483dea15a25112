//! What the kernel's text files say: parsers without a file, for whatever may stand in them.

pub(crate) mod cgroup;
pub(crate) mod pressure;
pub(crate) mod schedstat;
pub(crate) mod snmp;
pub(crate) mod softnet;
pub(crate) mod stat;

/// Lines that end: the last one of a text that was cut may look like another number.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}
