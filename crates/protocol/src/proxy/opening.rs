//! The exchange with a proxy that opens a tunnel: bytes in, bytes out.

use super::connect::{self, Answer};
use super::{ProxyFault, Tunnel, socks};

/// Proxies send few interim responses, if any.
const INTERIM_MAX: u8 = 10;

/// The state of the exchange. One value serves any number of connections; [`Opening::begin`]
/// resets it.
#[derive(Debug, Default)]
pub struct Opening {
    state: TunnelState,
    /// What has arrived of an answer.
    partial: Vec<u8>,
    interim: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TunnelState {
    /// Waits for the answer to CONNECT.
    #[default]
    Connect,
    /// Waits for the choice of a method.
    Choice,
    /// Waits for the answer to the login.
    Login,
    /// Waits for the reply to the request.
    Reply,
    /// The tunnel is open.
    Complete,
}

/// What part of an answer was read.
enum Step {
    /// It needs more bytes.
    More,
    /// This many bytes; another answer follows.
    Taken(usize),
    /// This many bytes. The tunnel is open.
    Opened(usize),
}

impl Opening {
    /// A new connection to the proxy is established. Appends what to send.
    pub fn begin(&mut self, tunnel: &Tunnel, output: &mut Vec<u8>) {
        self.partial.clear();
        self.interim = 0;
        match tunnel {
            Tunnel::Connect(connect) => {
                self.state = TunnelState::Connect;
                output.extend_from_slice(connect.request());
            }
            Tunnel::Socks(socks) => {
                self.state = TunnelState::Choice;
                output.extend_from_slice(socks.greeting());
            }
        }
    }

    /// There is nothing to ask the proxy for.
    pub(super) fn skip(&mut self) {
        self.state = TunnelState::Complete;
    }

    /// Whether the tunnel is open.
    #[inline]
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state == TunnelState::Complete
    }

    /// Reads bytes of the proxy and appends what to send. Once the tunnel is open, returns the
    /// bytes behind the answer, which are the target's.
    ///
    /// # Errors
    /// If the proxy does not open the tunnel. The connection is then of no use.
    pub fn receive(
        &mut self,
        tunnel: &Tunnel,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Vec<u8>>, ProxyFault> {
        self.partial.extend_from_slice(input);
        loop {
            match self.step(tunnel, output)? {
                Step::More => return Ok(None),
                Step::Taken(length) => drop(self.partial.drain(..length)),
                Step::Opened(length) => {
                    self.state = TunnelState::Complete;
                    let rest = self.partial.split_off(length);
                    self.partial.clear();
                    return Ok(Some(rest));
                }
            }
        }
    }

    fn step(&mut self, tunnel: &Tunnel, output: &mut Vec<u8>) -> Result<Step, ProxyFault> {
        let bytes = &self.partial;
        let pair = bytes.first_chunk::<2>().copied();
        Ok(match (self.state, tunnel) {
            (TunnelState::Choice, Tunnel::Socks(socks)) => {
                if bytes.first().is_some_and(|version| *version != 5) {
                    return Err(ProxyFault::NotSocks);
                }
                let Some(pair) = pair else {
                    return Ok(Step::More);
                };
                let (next, is_login) = socks.choice(pair)?;
                output.extend_from_slice(next);
                self.state = if is_login {
                    TunnelState::Login
                } else {
                    TunnelState::Reply
                };
                Step::Taken(2)
            }
            (TunnelState::Login, Tunnel::Socks(socks)) => {
                let Some(pair) = pair else {
                    return Ok(Step::More);
                };
                output.extend_from_slice(socks.login_answer(pair)?);
                self.state = TunnelState::Reply;
                Step::Taken(2)
            }
            (TunnelState::Reply, _) => socks::reply(bytes)?.map_or(Step::More, Step::Opened),
            (TunnelState::Complete, _) => Step::Opened(0),
            (TunnelState::Connect | TunnelState::Choice | TunnelState::Login, _) => {
                match connect::answer(bytes)? {
                    Answer::Partial => Step::More,
                    Answer::Open(length) => Step::Opened(length),
                    Answer::Interim(_) if self.interim == INTERIM_MAX => {
                        return Err(ProxyFault::HeadTooLarge);
                    }
                    Answer::Interim(length) => {
                        self.interim += 1;
                        Step::Taken(length)
                    }
                }
            }
        })
    }
}
