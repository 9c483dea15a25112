//! Fixtures for the tests of the sampler.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::sockets::{Socket, TcpInfo, TcpState};

/// A socket with only a cookie, a state and TCP values.
pub(super) fn socket(cookie: u64, state: TcpState, info: Option<TcpInfo>) -> Socket {
    Socket {
        cookie,
        state,
        info,
        local_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        local_port: 80,
        peer_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        peer_port: 40_000,
        is_v6_only: None,
        interface_index: None,
        interface: None,
        uid: None,
        inode: None,
        recv_queue_bytes: None,
        send_queue_bytes: None,
        listen: None,
        timer: None,
        congestion: None,
        congestion_info: None,
        memory: None,
        tos: None,
        tclass: None,
        class_id: None,
        shutdown: None,
        fwmark: None,
        cgroup_id: None,
        upper_protocol: None,
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
