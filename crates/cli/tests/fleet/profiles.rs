//! A server is profiled on its machine while agents with other clocks make the load.

use results::ProfileComparison;
use testkit::{Process, skip};

use crate::harness::{FOUR, Lab, Setting, await_true};

#[test]
#[ignore = "needs root; make fleet"]
fn samples_and_requests_of_clocks_that_are_hours_apart_are_compared() {
    let Some(lab) = Lab::new(&FOUR) else {
        return;
    };
    let journal = lab.network.folder.file("journal");
    let web1 = Setting {
        name: "web1",
        place: "server",
        // Samples have the clock of the kernel, without that of a namespace.
        ahead_s: 0,
        options: &["--allow-changes", "--journal", &journal],
    };
    let _web1 = lab.agent(env!("CARGO_BIN_EXE_wrkbench"), &web1);
    await_true("the host is there", || {
        let options = ["fleet", "status", "--nats", crate::harness::Hub::URL];
        let status = Process::start(lab.coordinator.wrkbench(&options)).finish();
        status.stdout.contains("web1")
    });
    let server = format!("--profile=host=web1:{}", lab.target.process_id());
    let output = lab.load(&["-t1", "-c4", "-d8", "-R2000", &server]).finish();
    if output.stderr.contains("not permitted") {
        return skip("--profile", &output.stderr);
    }
    assert!(output.code.is_some_and(|code| code != 1), "{output:?}");
    let result = lab.result();
    let profile = result.profile.as_ref().unwrap();
    assert_eq!(profile.host.as_deref(), Some("web1"));
    // With a wrong clock no request would be within the window, or no sample.
    assert!(profile.slow.requests > 0, "{profile:?}");
    assert!(profile.samples > 0, "{profile:?}");
    assert_ne!(profile.comparison, ProfileComparison::NoSlowRequests);
    assert!(profile.clock_bound_ns.unwrap() < 20_000_000, "{profile:?}");
}
