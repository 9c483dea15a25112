//! Kernel counters and sockets sampled during a run: CPU use of threads, and what happened to the
//! machine and to our control group.
//!
//! Reading is cheap and never fails: values that this kernel does not provide, or that cannot be
//! parsed, are `None`.

#![warn(missing_docs)]

mod clock;
mod counters;
mod file;
mod kernel_clock;
mod machine;
mod procfs;
mod profile;
mod sampler;
pub mod scrape;
mod server;
mod server_cpu;
pub mod sockets;
mod target;
mod thread;

pub use counters::Counters;
pub use kernel_clock::{SynchronizedClock, synchronized_clock};
pub use machine::MachineMeter;
pub use profile::{Profiler, Profiling, addresses_in_records};
pub use sampler::{Sampler, SamplerOptions, Sampling, Window};
pub use server::{ServerAddress, ServerMeter};
pub use server_cpu::ServerCpuMeter;
pub use target::AttachError;
pub use thread::ThreadMeter;
