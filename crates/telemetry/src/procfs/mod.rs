//! What the kernel's text files say: parsers without a file, for whatever may stand in them.

pub(crate) mod cgroup;
pub(crate) mod pressure;
pub(crate) mod schedstat;
pub(crate) mod stat;
