//! Meters of the workers' threads, as usage probes of the engine.

use engine::UsageProbe;
use results::ThreadUsage;
use telemetry::ThreadMeter;

/// Called by a worker in its own thread.
struct ThreadProbe(ThreadMeter);

impl UsageProbe for ThreadProbe {
    fn usage(&mut self) -> Option<ThreadUsage> {
        self.0.usage()
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        self.0.cpu_ns()
    }

    fn run_queue_wait_ns(&mut self) -> Option<u64> {
        self.0.run_queue_wait_ns()
    }

    fn sleeps(&mut self) -> Option<u64> {
        self.0.sleeps()
    }
}

/// One probe per worker.
pub(crate) fn of_workers(count: usize) -> Vec<Box<dyn UsageProbe>> {
    (0..count)
        .map(|_| Box::new(ThreadProbe(ThreadMeter::new())) as Box<dyn UsageProbe>)
        .collect()
}
