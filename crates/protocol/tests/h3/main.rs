//! The codec of HTTP/3: frames.

mod frames;
