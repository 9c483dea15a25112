//! perf_event_open(2): counters that sample the call stacks of threads into rings.
#![allow(
    unsafe_code,
    reason = "a system call and memory that the kernel writes to"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::record::{REGISTERS, STACK_BYTES};

/// Stacks sampled per second of CPU time, per CPU. Not a round number, so that samples do not keep
/// step with timers.
pub(crate) const SAMPLES_PER_SEC: u32 = 99;

/// Pages of a ring's data: with the page in front of them, all that a user without privileges may
/// have for each CPU (`kernel.perf_event_mlock_kb`). It is half a second of samples.
const RING_PAGES: usize = 128;

/// The part of `struct perf_event_attr` that is used (linux/perf_event.h, version 4), as words.
/// Both processors are little-endian, so its first bit field is the lowest bit.
type Attributes = [u64; 13];

const TYPE_SOFTWARE: u64 = 1;
/// Time on a CPU, in place of a hardware counter, which virtual machines seldom have: the share of
/// samples is a share of CPU time, on each machine.
const CONFIG_TASK_CLOCK: u64 = 1;
/// PERF_SAMPLE_TID, TIME, CALLCHAIN, REGS_USER and STACK_USER; [`super::record`] reads them.
const SAMPLE_TYPE: u64 = (1 << 1) | (1 << 2) | (1 << 5) | (1 << 12) | (1 << 13);
const DISABLED: u64 = 1;
/// Threads and processes that are started later are sampled too.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQUENCY: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK: u64 = 1 << 25;

const FLAG_CLOEXEC: libc::c_ulong = 1 << 3;
const IOCTL_ENABLE: libc::c_ulong = 0x2400;
const IOCTL_SET_OUTPUT: libc::c_ulong = 0x2405;

/// Where the positions are in the first page of a ring (`struct perf_event_mmap_page`).
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

fn attributes(with_kernel: bool) -> Attributes {
    let mut flags = DISABLED | INHERIT | EXCLUDE_HYPERVISOR | MMAP | COMM | FREQUENCY | TASK;
    flags |= MMAP2 | COMM_EXEC | USE_CLOCK;
    if !with_kernel {
        flags |= EXCLUDE_KERNEL;
    }
    let clock = u64::from(libc::CLOCK_MONOTONIC.unsigned_abs());
    let size = size_of::<Attributes>() as u64;
    [
        TYPE_SOFTWARE | (size << 32),
        CONFIG_TASK_CLOCK,
        u64::from(SAMPLES_PER_SEC),
        SAMPLE_TYPE,
        0,
        flags,
        0,
        0,
        0,
        0,
        REGISTERS,
        u64::from(STACK_BYTES) | (clock << 32),
        0,
    ]
}

/// The counter of a thread on a CPU.
#[derive(Debug)]
pub(crate) struct Counter(OwnedFd);

impl Counter {
    /// Opens a counter, which is off at first.
    ///
    /// # Errors
    /// Those of perf_event_open(2).
    pub(crate) fn open(thread: u32, cpu: u32, with_kernel: bool) -> io::Result<Self> {
        let attributes = attributes(with_kernel);
        let number = |number: u32| {
            libc::c_int::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let (thread, cpu) = (number(thread)?, number(cpu)?);
        let (no_group, flags): (libc::c_int, _) = (-1, FLAG_CLOEXEC);
        // SAFETY: the attributes live until the call has returned, and say how long they are.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                thread,
                cpu,
                no_group,
                flags,
            )
        };
        let file = libc::c_int::try_from(outcome).unwrap_or(-1);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for this caller.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(file) }))
    }

    /// Starts sampling.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.control(IOCTL_ENABLE, 0)
    }

    /// Writes the samples to the ring of another counter of the same CPU.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub(crate) fn write_to(&self, other: &Self) -> io::Result<()> {
        self.control(IOCTL_SET_OUTPUT, other.0.as_raw_fd())
    }

    fn control(&self, request: libc::c_ulong, argument: libc::c_int) -> io::Result<()> {
        // SAFETY: both requests take a number and no memory of ours.
        let outcome = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) };
        match outcome {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The memory into which the kernel writes the records of a CPU.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: *mut libc::c_void,
    page: usize,
}

// SAFETY: only the owner of a ring uses its memory, and the kernel, which any thread may meet.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes the ring of a counter.
    ///
    /// # Errors
    /// Those of mmap(2); EPERM if this user has too much locked memory.
    pub(crate) fn of(counter: &Counter) -> io::Result<Self> {
        // SAFETY: sysconf takes a number and returns one.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the place; nothing else is there.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page * (1 + RING_PAGES),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                counter.0.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { memory, page })
        }
    }

    /// Moves the records that have arrived to `records`, which is emptied first.
    pub(crate) fn take(&mut self, records: &mut Vec<u8>) {
        records.clear();
        let size = (self.page * RING_PAGES) as u64;
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        // The kernel never writes more than fits; if it did, the records would be useless.
        let length = head.wrapping_sub(tail).min(size);
        let start = (tail % size) as usize;
        let first = (length as usize).min(size as usize - start);
        records.reserve(length as usize);
        for (from, length) in [(start, first), (0, length as usize - first)] {
            // SAFETY: the data has `size` bytes behind the first page, and the range is within it.
            // The kernel does not write between tail and head until the tail is moved.
            let bytes = unsafe {
                let data = self.memory.cast::<u8>().add(self.page + from);
                std::slice::from_raw_parts(data, length)
            };
            records.extend_from_slice(bytes);
        }
        self.position(TAIL_AT).store(head, Ordering::Release);
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the number is aligned within the first page, which lives as long as the ring, and
        // the kernel also reads and writes it as a whole.
        unsafe { AtomicU64::from_ptr(self.memory.cast::<u8>().add(at).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no reference into it is left.
        unsafe { libc::munmap(self.memory, self.page * (1 + RING_PAGES)) };
    }
}
