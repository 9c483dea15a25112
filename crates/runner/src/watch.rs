//! Watching the generator: telemetry's meters behind the engine's seam.

use engine::UsageProbe;
use results::ThreadUsage;
use telemetry::ThreadMeter;

/// Asked by a worker in its own thread.
struct ThreadWatch(ThreadMeter);

impl UsageProbe for ThreadWatch {
    fn usage(&mut self) -> Option<ThreadUsage> {
        self.0.usage()
    }
}

/// One watch for each worker.
pub(crate) fn workers(count: usize) -> Vec<Box<dyn UsageProbe>> {
    (0..count)
        .map(|_| Box::new(ThreadWatch(ThreadMeter::new())) as Box<dyn UsageProbe>)
        .collect()
}
