//! Measures the finished binary: its speed compared with wrk, and the accuracy of its numbers.
//!
//! Both programs start servers and clients as processes, pinned to cores, and measure them from
//! outside, so that the results are about the binary that users run.
#![forbid(unsafe_code)]

mod figures;
mod hog;
mod machine;
mod options;
mod process;
mod procfs;
mod report_text;
mod rows;
mod scratch;
mod server;
mod session;
mod setup;
mod speed;
mod table;
mod terminal;
mod tool;
mod truth;
mod usage;

pub use speed::compare_speed;
pub use truth::verify_numbers;
