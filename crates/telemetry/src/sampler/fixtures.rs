//! Fixtures for the tests of the sampler.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::sockets::{Socket, TcpInfo, TcpState};

/// A socket with only a cookie, a state and TCP values.
pub(super) fn socket(cookie: u64, state: TcpState, info: Option<TcpInfo>) -> Socket {
    let [local, peer] = [80, 40_000].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    Socket {
        info,
        ..Socket::bare(cookie, state, local, peer)
    }
}

/// A shared in-memory writer.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The lines that were written, each parsed.
    pub(super) fn lines(&self) -> Vec<Value> {
        let bytes = self.bytes();
        assert!(bytes.is_empty() || bytes.ends_with(b"\n"));
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        lines
            .map(|line| serde_json::from_slice(line).expect("a line is JSON"))
            .collect()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        page.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
