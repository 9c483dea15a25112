//! What to change when the load generator was disturbed or saturated: one remedy for all symptoms.

use results::{RunResult, Symptom};

use crate::verdict::{cpus, is_share, others_ns, usable_workers};

/// Another thread helps only if an existing one used at least this share of a CPU.
const SHARED_WORK_PERCENT: u64 = 70;

/// The remedies, each for one cause of a disturbed or saturated load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    RaiseFileLimit,
    AddPorts,
    RaiseReceiveBuffer,
    RaiseQuota,
    LeaveSharedHost,
    FasterScript,
    FewerThreads { threads: u32, cpus: u32 },
    SeparateFromServer,
    SeparateFromOthers,
    KeepOthersOff,
    AddMachine,
    MoreThreads,
    RunAgain,
    KeepOthersOffOrLowerLoad,
}

/// The remedy for the first cause that has a symptom. Only one is given, so that no two contradict
/// each other. Pauses come last, since everything else may be their cause.
pub(crate) fn remedy(symptoms: &[Symptom], result: &RunResult) -> Remedy {
    let has = |is_wanted: fn(&Symptom) -> bool| symptoms.iter().any(is_wanted);
    if has(|symptom| matches!(symptom, Symptom::FilesExhausted { .. })) {
        return Remedy::RaiseFileLimit;
    }
    if has(|symptom| matches!(symptom, Symptom::PortsExhausted { .. })) {
        return Remedy::AddPorts;
    }
    if has(|symptom| matches!(symptom, Symptom::DatagramsDropped { .. })) {
        return Remedy::RaiseReceiveBuffer;
    }
    if has(|symptom| matches!(symptom, Symptom::CgroupThrottled { .. })) {
        return Remedy::RaiseQuota;
    }
    if has(|symptom| matches!(symptom, Symptom::Steal { .. })) {
        return Remedy::LeaveSharedHost;
    }
    if has(|symptom| matches!(symptom, Symptom::SlowScript { .. })) {
        return Remedy::FasterScript;
    }
    let (threads, cpus) = (result.plan.load.threads, cpus(result));
    if let Some(cpus) = cpus.filter(|cpus| threads > *cpus) {
        return Remedy::FewerThreads { threads, cpus };
    }
    if let Some(remedy) = symptoms.iter().find_map(of_shared_cpus) {
        return remedy;
    }
    if has(|symptom| matches!(symptom, Symptom::RunQueueWait { .. })) {
        return Remedy::KeepOthersOff;
    }
    let is_busy =
        has(|symptom| matches!(symptom, Symptom::WorkerBusy { .. })) || has_busy_thread(result);
    match (is_busy, cpus) {
        (true, Some(cpus)) if threads >= cpus => Remedy::AddMachine,
        (true, _) => Remedy::MoreThreads,
        (false, _) if has(|symptom| matches!(symptom, Symptom::Paused { .. })) => Remedy::RunAgain,
        (false, _) => Remedy::KeepOthersOffOrLowerLoad,
    }
}

/// Whoever used more of the CPUs has to leave.
fn of_shared_cpus(symptom: &Symptom) -> Option<Remedy> {
    let Symptom::SharedCpus {
        server_ns,
        generator_ns,
        busy_ns,
        ..
    } = *symptom
    else {
        return None;
    };
    let others_ns = others_ns(busy_ns, server_ns, generator_ns);
    Some(if server_ns.is_some_and(|ns| ns >= others_ns) {
        Remedy::SeparateFromServer
    } else {
        Remedy::SeparateFromOthers
    })
}

fn has_busy_thread(result: &RunResult) -> bool {
    usable_workers(result).any(|worker| {
        let elapsed_ns = u128::from(worker.elapsed_ns);
        is_share(worker.usage.cpu_ns, elapsed_ns, SHARED_WORK_PERCENT)
    })
}
