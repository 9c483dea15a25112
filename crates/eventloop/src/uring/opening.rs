//! Opens sockets: connects them, and accepts them from listeners.

use super::Uring;
use super::buffers::MESSAGE_HEAD_BYTES;
use super::datagram_sockets::SendingDatagrams;
use super::operation::{Op, user_data};
use super::socket_table::SocketState;
use crate::socket;
use crate::{
    Acceptor, CloseMode, Completion, EventLoop, Payload, SocketEvent, Token, monotonic_ns,
};
use io_uring::opcode;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

impl Uring {
    /// Submits at once, so that the time between the caller's clock and the kernel's work is not
    /// attributed to the server. On loopback, the connection is then already established.
    pub(super) fn submit_connect(&mut self, token: Token) {
        self.begin_submission();
        if self.submit_and_poll().is_err() {
            // The error recurs in `wait`, which reports it.
            return;
        }
        let at_ns = monotonic_ns();
        // Other completions that this call brought arrived after the previous wait.
        self.taken_ns = at_ns;
        let connect = user_data(Op::Connect, token);
        for entry in self.ring.completion() {
            if entry.user_data() == connect {
                self.sockets[token.index as usize].connected_ns = Some(at_ns);
            }
            self.backlog.push_back(entry);
        }
    }

    /// A token of a socket that could not be opened, because the failure is a completion like any
    /// other.
    pub(super) fn fail_connect(&mut self, key: u32, error: i32) -> Token {
        let index = match self.insert(key, SocketState::Connecting, None) {
            Ok(token) => token.index,
            Err(_) => 0,
        };
        let token = Token {
            index,
            generation: self.sockets[index as usize].generation,
        };
        self.release(index);
        self.push_ready(key, token, SocketEvent::ConnectFailed(error));
        token
    }

    pub(super) fn on_connect(&mut self, index: u32, result: i32) -> Option<SocketEvent> {
        let socket = &mut self.sockets[index as usize];
        socket.address = None;
        if socket.state != SocketState::Connecting {
            return None;
        }
        let token = Token {
            index,
            generation: socket.generation,
        };
        if result < 0 {
            // The token is dead from here on. The entry of the file table is closed afterwards.
            let key = socket.key;
            self.start_close(token, CloseMode::Abort);
            self.push_ready(key, token, SocketEvent::ConnectFailed(-result));
            return None;
        }
        socket.state = SocketState::Open;
        self.arm_receive(token);
        self.send_next(token);
        Some(SocketEvent::Connected)
    }

    pub(super) fn on_accept(&mut self, index: u32, result: i32, more: bool) -> Option<Completion> {
        let listener = &self.sockets[index as usize];
        let key = listener.key;
        let open = listener.state == SocketState::Listening;
        if !more && open {
            let generation = listener.generation;
            self.arm_accept(Token { index, generation });
        }
        if result < 0 {
            return self.finish(index, None);
        }
        // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        if !open {
            return self.finish(index, None);
        }
        socket::set_nodelay(fd.as_raw_fd());
        let token = self.insert(key, SocketState::Open, Some(&fd)).ok()?;
        self.arm_receive(token);
        Some(Completion {
            key,
            token,
            at_ns: self.taken_ns,
            event: SocketEvent::Accepted,
        })
    }

    fn arm_accept(&mut self, token: Token) {
        let Some(fd) = self.sockets[token.index as usize].listener.as_ref() else {
            return;
        };
        let fd: RawFd = fd.as_raw_fd();
        let entry = opcode::AcceptMulti::new(io_uring::types::Fd(fd))
            .flags(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
            .build();
        self.push_counted(token, Op::Accept, entry);
    }
}

impl Acceptor for Uring {
    fn listen(&mut self, key: u32, listener: OwnedFd) -> io::Result<()> {
        let token = self
            .insert(key, SocketState::Listening, None)
            .map_err(io::Error::from_raw_os_error)?;
        self.sockets[token.index as usize].listener = Some(listener);
        self.arm_accept(token);
        Ok(())
    }

    fn listen_datagrams(&mut self, key: u32, socket: OwnedFd) -> io::Result<Token> {
        socket::prepare_listening(&socket)?;
        let placed = self
            .start_receiving_datagrams()
            .and_then(|()| self.insert(key, SocketState::Open, Some(&socket)));
        let token = placed.map_err(io::Error::from_raw_os_error)?;
        self.sockets[token.index as usize].receive_op = Op::ReceiveDatagrams;
        self.arm_receive(token);
        Ok(token)
    }

    fn send_to(&mut self, token: Token, to: SocketAddr, buffer: Vec<u8>, segment: u16) {
        let Some(socket) = self.live(token) else {
            return;
        };
        let sending = socket.datagrams.get_or_insert_with(SendingDatagrams::boxed);
        sending.to.push_back(to);
        self.send(token, Payload::Datagrams { buffer, segment });
    }

    fn received_from(&self) -> Option<SocketAddr> {
        let loan = self.lent.as_ref()?;
        let receives = self.datagram_receives.as_ref()?;
        if loan.op != Op::ReceiveDatagrams {
            return None;
        }
        let head = receives.buffers.head(loan.buffer);
        socket::address_in(head.get(MESSAGE_HEAD_BYTES..)?)
    }
}
