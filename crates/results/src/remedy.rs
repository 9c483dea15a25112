//! What to change when the load generator was the limit: one remedy for all signs, chosen by their cause.

use crate::verdict::{cpus, is_share, judged};
use crate::{Evidence, RunResult};

/// Another thread helps only if one had at least this share of a CPU to hand over.
const SHARED_WORK_PERCENT: u64 = 70;

/// The remedy for the first cause that there is a sign of. Late requests and responses are no cause but an effect, so
/// they come last. No two of these remedies contradict each other, since only one is given.
pub(crate) fn remedy(evidence: &[Evidence], result: &RunResult) -> String {
    let has = |is_wanted: fn(&Evidence) -> bool| evidence.iter().any(is_wanted);
    if has(|sign| matches!(sign, Evidence::StoodStill { .. })) {
        return "run again without suspending the program or the machine".to_owned();
    }
    if has(|sign| matches!(sign, Evidence::FilesExhausted { .. })) {
        return "raise the limit of open files (ulimit -n), or use fewer connections (-c)"
            .to_owned();
    }
    if has(|sign| matches!(sign, Evidence::PortsExhausted { .. })) {
        return "widen net.ipv4.ip_local_port_range, connect from more addresses (-b), or keep connections open"
            .to_owned();
    }
    if has(|sign| matches!(sign, Evidence::CgroupThrottled { .. })) {
        return "raise the CPU quota of the control group".to_owned();
    }
    if has(|sign| matches!(sign, Evidence::Steal { .. })) {
        return "measure on a machine with CPUs of its own".to_owned();
    }
    let (threads, cpus) = (result.plan.load.threads, cpus(result));
    let crowded = cpus.filter(|cpus| threads > *cpus);
    if let Some(cpus) = crowded {
        return format!("use fewer threads (-t): {threads} threads share {cpus} CPUs");
    }
    if has(|sign| matches!(sign, Evidence::RunQueueWait { .. })) {
        return "keep other programs, the server too, off the generator's cores (taskset)"
            .to_owned();
    }
    let is_busy =
        has(|sign| matches!(sign, Evidence::WorkerBusy { .. })) || has_busy_thread(result);
    match (is_busy, cpus) {
        (true, Some(cpus)) if threads >= cpus => {
            "no CPU is left for more threads: give the server another machine, or load it from a larger one"
                .to_owned()
        }
        (true, _) => "use more threads (-t)".to_owned(),
        (false, _) => {
            "keep other programs, the server too, off the generator's cores (taskset), or lower the load (-R, -c)"
                .to_owned()
        }
    }
}

fn has_busy_thread(result: &RunResult) -> bool {
    judged(result).any(|worker| {
        let elapsed_ns = u128::from(worker.elapsed_ns);
        is_share(worker.usage.cpu_ns, elapsed_ns, SHARED_WORK_PERCENT)
    })
}
