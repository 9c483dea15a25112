//! Samples sockets and counters during a run, on its own thread.

#[cfg(test)]
mod fixtures;
mod sample_writer;
mod sampling_loop;
mod socket_stats;
mod system;

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use results::Telemetry;

pub use sampling_loop::Window;

use crate::sockets::{Filter, States, TcpState};
use sample_writer::SampleWriter;
use sampling_loop::SamplingLoop;
use system::{NetlinkSockets, SystemClock};

/// What a sampler samples, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Which sockets; includes listening ones unless the filter names states. `None` for no
    /// sockets.
    pub sockets: Option<Filter>,
    /// Time between samples, more than zero.
    pub interval: Duration,
    /// Whether to record the growth of the kernel counters.
    pub counters: bool,
}

/// A sampler that is ready to start.
#[derive(Debug)]
pub struct Sampler {
    kernel: Option<NetlinkSockets>,
    interval_ns: u64,
    counters: bool,
    notes: Vec<String>,
}

/// A running sampler. Dropping it ends it without a result.
#[derive(Debug)]
pub struct Sampling {
    interval_ns: u64,
    /// Sending starts the window, dropping ends it.
    window: Sender<Window>,
    outcome: Receiver<Telemetry>,
    thread: JoinHandle<()>,
}

/// How long to wait for the last sample after the end. Samples may go to a pipe that nobody reads,
/// which must not block the run.
const GRACE: Duration = Duration::from_secs(2);

impl Sampler {
    /// Connects to the kernel and takes a first sample as a check. Sockets are those of the network
    /// namespace of the calling thread.
    ///
    /// # Errors
    /// When this system does not list its sockets.
    pub fn prepare(options: SamplerOptions) -> io::Result<Self> {
        let mut notes = Vec::new();
        let kernel = match options.sockets {
            None => None,
            Some(filter) => {
                let states = States::OPEN | TcpState::Listen.into();
                let (kernel, why_not) = NetlinkSockets::open(filter.with_default_states(states))?;
                notes.extend(
                    why_not.map(|error| {
                        format!("final values of closed sockets are missing: {error}")
                    }),
                );
                Some(kernel)
            }
        };
        Ok(Self {
            kernel,
            interval_ns: u64::try_from(options.interval.as_nanos())
                .unwrap_or(u64::MAX)
                .max(1),
            counters: options.counters,
            notes,
        })
    }

    /// Starts the thread, which waits for [`Sampling::begin`]. Each sample is written to `samples`
    /// as a line of JSON; sampling continues even if that fails.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(self, samples: Option<Box<dyn Write + Send>>) -> io::Result<Sampling> {
        let Self {
            kernel,
            interval_ns,
            counters,
            notes,
        } = self;
        let (window_in, window) = mpsc::channel();
        let (outcome_in, outcome) = mpsc::channel();
        let watch = SamplingLoop {
            kernel,
            interval_ns,
            counters,
            lines: SampleWriter::new(samples),
            notes,
        };
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || {
                // Without a window the run never started.
                if let Ok(found) = window.recv() {
                    let telemetry = watch.run(found, &mut SystemClock { windows: window });
                    // The receiver may have given up.
                    let _ = outcome_in.send(telemetry);
                }
            })?;
        Ok(Sampling {
            interval_ns,
            window: window_in,
            outcome,
            thread,
        })
    }
}

impl Sampling {
    /// Starts the window. Until it has begun, another call moves it.
    pub fn begin(&self, window: Window) {
        // If the thread has ended, `finish` notices it.
        let _ = self.window.send(window);
    }

    /// Ends the window, unless it has already ended, and returns the result.
    #[must_use]
    pub fn finish(self) -> Telemetry {
        let Self {
            interval_ns,
            window,
            outcome,
            thread,
        } = self;
        drop(window);
        let why = match outcome.recv_timeout(GRACE) {
            Ok(telemetry) => {
                // The thread is at its end.
                let _ = thread.join();
                return telemetry;
            }
            Err(RecvTimeoutError::Timeout) => {
                "the sampler did not end: does nobody read the pipe for samples?"
            }
            Err(RecvTimeoutError::Disconnected) => "the sampler crashed",
        };
        Telemetry {
            interval_ns,
            notes: vec![why.to_owned()],
            ..Telemetry::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn sampler() -> Sampler {
        let options = SamplerOptions {
            sockets: Some(Filter::parse("sport = :1").unwrap()),
            interval: Duration::from_secs(3_600),
            counters: true,
        };
        Sampler::prepare(options).unwrap()
    }

    /// A window that begins now and has no end.
    fn window() -> Window {
        Window {
            begin_ns: crate::clock::monotonic_ns().unwrap(),
            end_ns: u64::MAX,
        }
    }

    #[test]
    fn a_window_that_is_ended_has_a_first_and_a_last_sample_and_counters() {
        let sampling = sampler().start(None).unwrap();
        sampling.begin(window());
        let telemetry = sampling.finish();
        assert_eq!(telemetry.samples, 2);
        assert_eq!(telemetry.sockets.map(|sockets| sockets.sockets), Some(0));
        assert!(telemetry.counters.contains_key("Tcp.RetransSegs"));
        assert_eq!(telemetry.notes, Vec::<String>::new());
    }

    #[test]
    fn without_a_run_no_thread_is_left() {
        let Sampling { window, thread, .. } = sampler().start(None).unwrap();
        drop(window);
        assert!(thread.join().is_ok());
    }

    /// Blocks as long as the other end exists.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn finish_does_not_wait_for_a_reader_that_does_not_read() {
        let (_held, gate) = channel();
        let sampling = sampler().start(Some(Box::new(Stuck(gate)))).unwrap();
        sampling.begin(window());
        let telemetry = sampling.finish();
        assert_eq!(telemetry.sockets, None);
        assert_eq!(telemetry.interval_ns, 3_600_000_000_000);
        assert!(telemetry.notes[0].contains("nobody read the pipe"));
    }

    #[test]
    fn a_sampler_that_panics_is_reported() {
        struct Deadly;
        impl Write for Deadly {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                panic!("on purpose");
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sampling = sampler().start(Some(Box::new(Deadly))).unwrap();
        sampling.begin(window());
        assert_eq!(sampling.finish().notes, ["the sampler crashed"]);
    }
}
