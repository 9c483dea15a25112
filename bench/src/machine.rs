//! The machine and the versions of the programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::options::CommonOptions;

/// The conditions of a measurement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// Date and time, RFC 3339.
    pub(crate) date: String,
    /// Model name of the first processor.
    pub(crate) cpu: String,
    /// Number of logical processors.
    pub(crate) cores: usize,
    /// Release of the kernel, as uname(1) shows it.
    pub(crate) kernel: String,
    /// TCP's congestion control, which has an effect on loopback too.
    pub(crate) congestion_control: String,
    /// First line of `wrkbench --version`.
    pub(crate) wrkbench: String,
    /// First line of `wrk -v`, if installed.
    pub(crate) wrk: Option<String>,
    /// First line of `wrk2 -v`, if installed.
    pub(crate) wrk2: Option<String>,
    /// First line of `h2load --version`, if installed.
    pub(crate) h2load: Option<String>,
}

impl Machine {
    pub(crate) fn look(wrkbench: &Path, others: &CommonOptions) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            date: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            cpu: model_name(&cpuinfo).unwrap_or("unknown CPU").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            kernel: sysctl("kernel/osrelease"),
            congestion_control: sysctl("net/ipv4/tcp_congestion_control"),
            wrkbench: version(wrkbench, "--version").unwrap_or_else(|| "wrkbench ?".to_owned()),
            wrk: version(&others.wrk, "-v"),
            wrk2: version(&others.wrk2, "-v"),
            h2load: version(&others.h2load, "--version"),
        }
    }
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

fn sysctl(path: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(path))
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// First line of a program's version output. The exit code is ignored, since wrk's is 1.
fn version(program: &Path, option: &str) -> Option<String> {
    let output = Command::new(program).arg(option).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_name_is_found() {
        let text = "processor\t: 0\nmodel name\t: A CPU: 2 GHz\nprocessor\t: 1\n";
        assert_eq!(model_name(text), Some("A CPU: 2 GHz"));
        assert_eq!(model_name("processor : 0"), None);
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(version(Path::new("/nonexistent/wrk"), "-v"), None);
    }
}
