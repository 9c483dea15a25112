//! What an operation of the ring is, and the user data that names it.

use crate::Token;

/// The kind of operation of a completion; the top byte of the user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Connect = 1,
    Receive,
    Send,
    QuietSend,
    Shutdown,
    SetOption,
    Cancel,
    Close,
    Accept,
    ReceiveTimestamped,
    ReceiveOnce,
    Discard,
    ReceiveDatagrams,
    SendDatagrams,
}

/// Generations are compared in the 24 bits that fit into the user data.
pub(super) const GENERATION_MASK: u32 = 0x00ff_ffff;

pub(super) fn user_data(op: Op, token: Token) -> u64 {
    (op as u64) << 56 | u64::from(token.generation & GENERATION_MASK) << 32 | u64::from(token.index)
}

pub(super) fn token_of(user_data: u64) -> Token {
    Token {
        index: user_data as u32,
        generation: (user_data >> 32) as u32 & GENERATION_MASK,
    }
}

pub(super) fn op_of(user_data: u64) -> Option<Op> {
    const OPS: [Op; 14] = [
        Op::Connect,
        Op::Receive,
        Op::Send,
        Op::QuietSend,
        Op::Shutdown,
        Op::SetOption,
        Op::Cancel,
        Op::Close,
        Op::Accept,
        Op::ReceiveTimestamped,
        Op::ReceiveOnce,
        Op::Discard,
        Op::ReceiveDatagrams,
        Op::SendDatagrams,
    ];
    let number = (user_data >> 56) as usize;
    OPS.get(number.wrapping_sub(1)).copied()
}
