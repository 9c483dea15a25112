//! Requests as HTTP/1.1 text: the form in which users and scripts state them, whatever protocol
//! sends them.

mod cookies;
mod encode;
mod field;
mod scan;

pub use cookies::add_cookies;
pub use encode::{Request, encode};
pub use field::add_field;
pub use scan::{RequestError, RequestFault, RequestText, RequestTexts, scan, split};
