//! Page-aligned memory that the kernel writes into.
#![allow(
    unsafe_code,
    reason = "mmap, and slices over memory shared with the kernel"
)]

use std::io;

/// Anonymous pages, zeroed. Pages that are never used cost nothing.
pub(crate) struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// # Errors
    /// If there is no memory.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address chosen by the kernel touches nothing else.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: start.cast(),
            bytes,
        })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// A part that the kernel has filled and no longer writes to.
    ///
    /// # Safety
    /// The kernel must not write to this part while the slice lives.
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.bytes);
        // SAFETY: the part lies within the mapping, which lives as long as `self`. The caller
        // guarantees that nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.start.add(offset), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned here, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
