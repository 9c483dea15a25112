//! Measures the finished binary: its speed beside wrk, and its numbers beside the truth.
//!
//! Both programs start servers and clients as processes, pinned to cores, and watch them from
//! outside: what they say of wrkbench holds of the file that people run.
#![forbid(unsafe_code)]

mod figures;
mod machine;
mod options;
mod place;
mod process;
mod procfs;
mod report_text;
mod rows;
mod scratch;
mod server;
mod session;
mod speed;
mod table;
mod terminal;
mod tool;
mod truth;
mod usage;

pub use speed::compare_speed;
pub use truth::hold_against_truth;
