//! CPU usage of other programs during a measurement.

use std::fs;

use anyhow::Context;

use crate::procfs::{self, MachineTime};

/// CPU time of machine and server at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    machine: MachineTime,
    server_us: u64,
}

impl Usage {
    /// The current CPU time; `server_us` is that of the server, in microseconds.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn now(server_us: u64) -> anyhow::Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Ok(Self {
            // Without these numbers, other programs are not reported.
            machine: procfs::parse_machine_time(&text).unwrap_or_default(),
            server_us,
        })
    }

    /// Share of the machine since `before` that was used by neither server nor client, 0..=1.
    pub(crate) fn others_share(self, before: Self, client_us: u64) -> f64 {
        let busy_us = self.machine.busy_us.saturating_sub(before.machine.busy_us);
        let total_us = self
            .machine
            .total_us
            .saturating_sub(before.machine.total_us);
        let ours_us = client_us + self.server_us.saturating_sub(before.server_us);
        busy_us.saturating_sub(ours_us) as f64 / total_us.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(busy_us: u64, total_us: u64, server_us: u64) -> Usage {
        let machine = MachineTime { busy_us, total_us };
        Usage { machine, server_us }
    }

    #[test]
    fn what_client_and_server_used_is_not_counted_as_others() {
        let before = usage(1_000, 10_000, 500);
        let after = usage(4_000, 20_000, 1_500);
        assert_eq!(after.others_share(before, 2_000), 0.0);
        assert_eq!(after.others_share(before, 1_000), 0.1);
        assert_eq!(after.others_share(before, 9_000), 0.0);
    }

    #[test]
    fn a_machine_that_tells_nothing_has_no_others() {
        assert_eq!(usage(0, 0, 9).others_share(usage(0, 0, 4), 5), 0.0);
    }
}
