//! Watches the kernel's books while a run is on: what a thread has used, and what the machine and our
//! control group did meanwhile.
//!
//! Reading is cheap and never fails: what this kernel does not tell, or tells in a way that is not
//! understood, is `None`.

mod clock;
mod counters;
mod file;
mod machine;
mod procfs;
mod sampler;
pub mod sockets;
mod thread;

pub use counters::Counters;
pub use machine::MachineMeter;
pub use sampler::{Sampler, SamplerOptions, Sampling, Window};
pub use thread::ThreadMeter;
