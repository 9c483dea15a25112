//! `memcpy`, `memmove` and `memcmp` of a static binary for x86_64.
//!
//! musl's copy of a few bytes takes as long as that of a hundred, and it compares byte by byte.
//! LuaJIT does both for every string. These functions take their place when the program is linked.
#![expect(unsafe_code, reason = "the functions' interface is C's")]

use std::arch::asm;
use std::ffi::{c_int, c_void};

/// Lengths up to this one are copied without a loop.
const SHORT: usize = 128;

/// From this length on, the processor's own loop is the fastest.
const LONG: usize = 4096;

/// # Safety
/// As memcpy(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memcpy(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
) -> *mut c_void {
    // SAFETY: by the contract.
    unsafe {
        if len <= SHORT {
            copy_short(to.cast(), from.cast(), len);
        } else {
            copy_forward(to.cast(), from.cast(), len);
        }
    }
    to
}

/// # Safety
/// As memmove(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memmove(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
) -> *mut c_void {
    // SAFETY: by the contract. Copying forward overwrites bytes that are still to be read only if
    // `to` lies within what is read.
    unsafe {
        if len <= SHORT {
            copy_short(to.cast(), from.cast(), len);
        } else if to.addr().wrapping_sub(from.addr()) >= len {
            copy_forward(to.cast(), from.cast(), len);
        } else {
            copy_backward(to.cast(), from.cast(), len);
        }
    }
    to
}

/// # Safety
/// As memcmp(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn memcmp(
    left: *const c_void,
    right: *const c_void,
    len: usize,
) -> c_int {
    let (left, right) = (left.cast::<u8>(), right.cast::<u8>());
    let mut at = 0;
    // SAFETY: `at` stays within both, by the contract.
    unsafe {
        while at + 8 <= len {
            let (a, b): (u64, u64) = (read(left, at), read(right, at));
            if a != b {
                // The first byte in memory counts most.
                return order(a.swap_bytes(), b.swap_bytes());
            }
            at += 8;
        }
        while at < len {
            let (a, b): (u8, u8) = (read(left, at), read(right, at));
            if a != b {
                return order(a, b);
            }
            at += 1;
        }
    }
    0
}

/// What the compiler calls where only equality counts.
///
/// # Safety
/// As memcmp(3).
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn bcmp(
    left: *const c_void,
    right: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { memcmp(left, right, len) }
}

fn order<T: Ord>(left: T, right: T) -> c_int {
    if left < right { -1 } else { 1 }
}

unsafe fn read<T>(from: *const u8, at: usize) -> T {
    // SAFETY: callers stay within their memory.
    unsafe { from.add(at).cast::<T>().read_unaligned() }
}

/// Copies the size of `T` or up to twice as much: the first and the last `T`, which may overlap.
/// Everything is read before anything is written, so `to` and `from` may overlap too.
unsafe fn copy_ends<T>(to: *mut u8, from: *const u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: callers pass at least the size of `T`.
    unsafe {
        let (start, end): (T, T) = (read(from, 0), read(from, last));
        to.cast::<T>().write_unaligned(start);
        to.add(last).cast::<T>().write_unaligned(end);
    }
}

/// Copies up to [`SHORT`] bytes, also if `to` and `from` overlap.
unsafe fn copy_short(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the lengths.
    unsafe {
        match len {
            0 => {}
            1 => *to = *from,
            2..4 => copy_ends::<u16>(to, from, len),
            4..8 => copy_ends::<u32>(to, from, len),
            8..16 => copy_ends::<u64>(to, from, len),
            16..=32 => copy_ends::<[u64; 2]>(to, from, len),
            33..=64 => copy_ends::<[u64; 4]>(to, from, len),
            _ => copy_ends::<[u64; 8]>(to, from, len),
        }
    }
}

/// Copies more than [`SHORT`] bytes, the first ones first.
unsafe fn copy_forward(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: `at` stays below the length. Bytes of the end are read before others are written.
    unsafe {
        if len >= LONG {
            let end: u64 = read(from, len - 8);
            asm!(
                "rep movsq",
                inout("rcx") len / 8 => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags),
            );
            to.add(len - 8).cast::<u64>().write_unaligned(end);
            return;
        }
        let last = len - 64;
        let end: [u64; 8] = read(from, last);
        let mut at = 0;
        while at < last {
            copy_64(to.add(at), from.add(at));
            at += 64;
        }
        to.add(last).cast::<[u64; 8]>().write_unaligned(end);
    }
}

/// Copies more than [`SHORT`] bytes, the last ones first.
unsafe fn copy_backward(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: `at` stays below the length. Bytes of the start are read before others are written.
    unsafe {
        let start: [u64; 8] = read(from, 0);
        let mut at = len;
        while at > 64 {
            at -= 64;
            copy_64(to.add(at), from.add(at));
        }
        to.cast::<[u64; 8]>().write_unaligned(start);
    }
}

/// Copies 64 bytes, all of which are read before any is written. Not in Rust: the compiler would
/// see what the loops do, and replace them by a call of the function that they are in.
unsafe fn copy_64(to: *mut u8, from: *const u8) {
    // SAFETY: callers stay within their memory.
    unsafe {
        asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that differ from their neighbours.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    fn lengths() -> impl Iterator<Item = usize> {
        (0..300).chain([1000, LONG - 1, LONG, LONG + 1, 10_000])
    }

    #[test]
    fn memcpy_copies_every_length_and_nothing_beside_it() {
        let source = bytes(10_100);
        for len in lengths() {
            for offset in [0, 1, 7] {
                let mut target = vec![0xee; len + 20];
                // SAFETY: both have the bytes.
                unsafe {
                    memcpy(
                        target.as_mut_ptr().add(10).cast(),
                        source.as_ptr().add(offset).cast(),
                        len,
                    )
                };
                assert_eq!(target[10..10 + len], source[offset..offset + len]);
                assert!(target[..10].iter().all(|byte| *byte == 0xee), "{len}");
                assert!(target[10 + len..].iter().all(|byte| *byte == 0xee), "{len}");
            }
        }
    }

    #[test]
    fn memmove_copies_what_overlaps() {
        for len in lengths() {
            for (to, from) in [(0, 1), (1, 0), (0, 64), (64, 0), (3, 70), (70, 3), (5, 5)] {
                let mut moved = bytes(len + 100);
                let mut wanted = moved.clone();
                wanted.copy_within(from..from + len, to);
                let start = moved.as_mut_ptr();
                // SAFETY: the vector has the bytes.
                unsafe { memmove(start.add(to).cast(), start.add(from).cast(), len) };
                assert!(moved == wanted, "{len} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn memcmp_orders_by_the_first_byte_that_differs() {
        for len in lengths().filter(|len| *len > 0) {
            let left = bytes(len);
            let compare = |right: &[u8]| {
                // SAFETY: both have the bytes.
                unsafe { memcmp(left.as_ptr().cast(), right.as_ptr().cast(), len) }
            };
            assert_eq!(compare(&left), 0);
            // SAFETY: both have the bytes.
            let equal = unsafe { bcmp(left.as_ptr().cast(), left.as_ptr().cast(), len) };
            assert_eq!(equal, 0);
            for at in [0, len / 2, len - 1] {
                let mut right = left.clone();
                right[at] ^= 0x81;
                // A later difference, the other way round.
                if at + 1 < len {
                    right[len - 1] ^= 0x81;
                }
                let expected = left[at].cmp(&right[at]) as c_int;
                assert_eq!(compare(&right).signum(), expected, "{len}, {at}");
            }
        }
    }
}
