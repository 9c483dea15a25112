//! Watching the generator: telemetry's meters behind the engine's seam.

use engine::Watch;
use results::ThreadUsage;
use telemetry::ThreadMeter;

/// Asked by a worker in its own thread.
struct ThreadWatch(ThreadMeter);

impl Watch for ThreadWatch {
    fn usage(&mut self) -> Option<ThreadUsage> {
        self.0.usage()
    }
}

/// One watch for each worker.
pub(crate) fn workers(count: usize) -> Vec<Box<dyn Watch>> {
    (0..count)
        .map(|_| Box::new(ThreadWatch(ThreadMeter::new())) as Box<dyn Watch>)
        .collect()
}
