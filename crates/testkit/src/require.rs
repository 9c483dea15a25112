//! What a test needs and may not find: programs, rights, features of the kernel.
//!
//! A test without it is skipped, with one line on stderr that the test runner does not hide. Where
//! `CI` is `true`, a skipped test fails instead, unless what is missing is listed in
//! [`MAY_BE_MISSING`] or, by whoever starts the tests, in the environment variable
//! `WRKBENCH_MAY_SKIP` (`WRKBENCH_MAY_SKIP=io_uring,root make test-all`).

use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What the tests of `.ci/run` may lack, and why.
const MAY_BE_MISSING: [(&str, &str); 4] = [
    ("wrk2", "no distribution has a package of it"),
    ("wrk-cmm", "no distribution has a package of it"),
    ("prometheus3", "its build takes ten minutes"),
    ("otelcol", "it is built together with Prometheus"),
];

/// Where Debian has programs of administrators; `PATH` of other users lacks them.
const MORE_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// Finds a program that a test needs. `None`: the test is skipped and has nothing to do but return.
///
/// # Panics
/// If the program is missing, `CI` is `true`, and it may not be missing there.
#[must_use]
pub fn require(program: &str) -> Option<PathBuf> {
    require_any(&[program])
}

/// Finds a program that has one of these names, as [`require`] does. The first one names it where
/// it is missing.
///
/// # Panics
/// As [`require`].
#[must_use]
pub fn require_any(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(MORE_FOLDERS.map(PathBuf::from))
        .collect();
    let candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = candidates.into_iter().find(|path| path.is_file());
    require_ok(
        names[0],
        found.ok_or("not installed; `make test-packages` installs what Debian has"),
    )
}

/// The value of something that a test needs: `require_ok("io_uring", probe())`. The error says why
/// it is not there. `None`: the test is skipped.
///
/// # Panics
/// As [`require`].
#[must_use]
pub fn require_ok<T>(what: &str, found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(reason) => {
            skip(what, reason);
            None
        }
    }
}

/// Says that a test is skipped because it lacks something.
///
/// # Panics
/// If `CI` is `true`, and this may not be missing there.
pub fn skip(what: &str, reason: impl Display) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let listed = std::env::var("WRKBENCH_MAY_SKIP").unwrap_or_default();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(
        !is_ci || may_be_missing(what, &listed),
        "{test} needs {what}: {reason} (with CI=true this is a failure; \
         WRKBENCH_MAY_SKIP={what} allows it)"
    );
    // Not with `eprintln!`, which the test runner takes in and throws away.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED {test}: it needs {what}: {reason}"
    );
}

/// Whether this process has the rights of root.
///
/// # Panics
/// If `/proc` is not mounted.
#[must_use]
pub fn is_root() -> bool {
    let own = std::fs::metadata("/proc/self").expect("/proc is mounted");
    own.uid() == 0
}

fn may_be_missing(what: &str, listed: &str) -> bool {
    MAY_BE_MISSING.iter().any(|(name, _)| *name == what)
        || listed.split(',').any(|name| name == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_each_of_its_names() {
        let shell = require("sh").expect("every machine has a shell");
        assert!(shell.ends_with("sh"));
        assert_eq!(require_any(&["no-such-shell", "sh"]), Some(shell));
    }

    #[test]
    fn only_what_is_listed_may_be_missing() {
        assert!(may_be_missing("wrk2", ""));
        assert!(!may_be_missing("nginx", ""));
        assert!(may_be_missing("nginx", "io_uring,nginx"));
        assert!(!may_be_missing("nginx", "nginx-light"));
        assert!(!may_be_missing("", "nginx"));
    }
}
