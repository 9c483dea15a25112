//! The records that the kernel writes for samples, and for threads and programs that are started
//! (linux/perf_event.h, `enum perf_event_type`). Any bytes are accepted.

/// Bytes of each stack that are copied for unwinding: frames of most servers fit. A multiple of 8.
pub(crate) const STACK_BYTES: u32 = 16 << 10;

/// The registers that are copied for unwinding (`asm/perf_regs.h`), as a mask.
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: u64 = (1 << 6) | (1 << 7) | (1 << 8);
/// The registers that are copied for unwinding (`asm/perf_regs.h`), as a mask.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const REGISTERS: u64 = (1 << 29) | (1 << 30) | (1 << 31) | (1 << 32);

const REGISTER_COUNT: usize = REGISTERS.count_ones() as usize;

/// From here on, an address of a call chain says what kind of addresses follow
/// (PERF_CONTEXT_MAX).
const CONTEXT_FIRST: u64 = 4095_u64.wrapping_neg();
const CONTEXT_KERNEL: u64 = 128_u64.wrapping_neg();
const CONTEXT_USER: u64 = 512_u64.wrapping_neg();

const TYPE_LOST: u32 = 2;
const TYPE_COMM: u32 = 3;
const TYPE_EXIT: u32 = 4;
const TYPE_THROTTLE: u32 = 5;
const TYPE_FORK: u32 = 7;
const TYPE_SAMPLE: u32 = 9;
const TYPE_MMAP2: u32 = 10;
const TYPE_LOST_SAMPLES: u32 = 13;
/// Bits of a header that say that a COMM is that of a new program.
const MISC_EXEC: u16 = 1 << 13;
const HEADER_BYTES: usize = 8;

/// A thread and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) process: u32,
    pub(crate) thread: u32,
}

/// Where a thread was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    pub(crate) task: Task,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub(crate) at_ns: u64,
    /// Addresses in the kernel, innermost first. As the kernel found them.
    pub(crate) kernel: Vec<u64>,
    /// Addresses in the program by frame pointers, innermost first.
    pub(crate) user: Vec<u64>,
    /// Registers in the program, in the order of [`REGISTERS`].
    pub(crate) registers: Option<[u64; REGISTER_COUNT]>,
    /// The stack from the stack pointer on.
    pub(crate) stack: &'a [u8],
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Where a thread was.
    Sample(Sample<'a>),
    /// A process has mapped code.
    Mapped { process: u32 },
    /// A process runs another program.
    Executed { process: u32 },
    /// A thread or a process was started.
    Started { task: Task, parent: Task },
    /// A thread has ended.
    Ended { task: Task },
    /// This many records did not fit into the ring.
    Lost { records: u64 },
    /// The kernel stopped sampling for a while because samples took too long.
    Throttled,
}

/// The records of a ring. Ends at bytes that are no record, which no kernel writes.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = Fields(bytes);
    std::iter::from_fn(move || {
        let kind = rest.u32()?;
        let misc = rest.u16()?;
        let length = usize::from(rest.u16()?).checked_sub(HEADER_BYTES)?;
        let body = Fields(rest.bytes(length)?);
        Some(parse(kind, misc, body))
    })
    .flatten()
}

/// The number of addresses in the stacks of all samples among these records, for the fuzz target.
#[must_use]
pub fn addresses_in_records(bytes: &[u8]) -> usize {
    let samples = records(bytes).filter_map(|record| match record {
        Record::Sample(sample) => Some(sample.kernel.len() + sample.user.len()),
        _ => None,
    });
    samples.sum()
}

/// `None` for a record that is of no interest, or is truncated.
fn parse(kind: u32, misc: u16, mut body: Fields<'_>) -> Option<Record<'_>> {
    Some(match kind {
        TYPE_SAMPLE => Record::Sample(sample(body)?),
        TYPE_MMAP2 => Record::Mapped {
            process: body.u32()?,
        },
        TYPE_COMM if misc & MISC_EXEC != 0 => Record::Executed {
            process: body.u32()?,
        },
        TYPE_FORK | TYPE_EXIT => {
            let (process, parent_process) = (body.u32()?, body.u32()?);
            let (thread, parent_thread) = (body.u32()?, body.u32()?);
            let task = Task { process, thread };
            match kind {
                TYPE_EXIT => Record::Ended { task },
                _ => Record::Started {
                    task,
                    parent: Task {
                        process: parent_process,
                        thread: parent_thread,
                    },
                },
            }
        }
        TYPE_LOST => {
            let _id = body.u64()?;
            Record::Lost {
                records: body.u64()?,
            }
        }
        TYPE_LOST_SAMPLES => Record::Lost {
            records: body.u64()?,
        },
        TYPE_THROTTLE => Record::Throttled,
        _ => return None,
    })
}

/// In the order of the bits of [`super::perf_event`]'s sample type.
fn sample(mut body: Fields<'_>) -> Option<Sample<'_>> {
    let (process, thread) = (body.u32()?, body.u32()?);
    let at_ns = body.u64()?;
    let (kernel, user) = call_chain(&mut body)?;
    let registers = match body.u64()? {
        // A kernel thread, or a process that is ending.
        0 => None,
        _ => {
            let mut registers = [0; REGISTER_COUNT];
            for register in &mut registers {
                *register = body.u64()?;
            }
            Some(registers)
        }
    };
    Some(Sample {
        task: Task { process, thread },
        at_ns,
        kernel,
        user,
        registers,
        stack: stack(&mut body)?,
    })
}

fn call_chain(body: &mut Fields<'_>) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let count = usize::try_from(body.u64()?).ok()?;
    let mut addresses = Fields(body.bytes(count.checked_mul(8)?)?);
    let mut context = CONTEXT_USER;
    while let Some(address) = addresses.u64() {
        match context {
            _ if address >= CONTEXT_FIRST => context = address,
            CONTEXT_KERNEL => kernel.push(address),
            CONTEXT_USER => user.push(address),
            // Of a guest or a hypervisor.
            _ => {}
        }
    }
    Some((kernel, user))
}

/// The part of the copied stack that was readable.
fn stack<'a>(body: &mut Fields<'a>) -> Option<&'a [u8]> {
    let size = usize::try_from(body.u64()?).ok()?;
    if size == 0 {
        return Some(&[]);
    }
    let bytes = body.bytes(size)?;
    let used = usize::try_from(body.u64()?).ok()?;
    bytes.get(..used)
}

/// Reads fields one after another.
#[derive(Debug, Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record as the kernel writes it.
    fn written(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let length = HEADER_BYTES + words.len() * 8;
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(misc.to_le_bytes());
        bytes.extend(u16::try_from(length).expect("it is short").to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | (u64::from(high) << 32)
    }

    fn a_sample(used: u64) -> Vec<u8> {
        let mut words = vec![pair(7, 8), 123, 5];
        words.extend([
            CONTEXT_KERNEL,
            0xffff_ffff_8100_0000,
            CONTEXT_USER,
            0x1000,
            0x2000,
        ]);
        words.push(2);
        words.extend((1..).take(REGISTER_COUNT));
        words.extend([16, 0x3000, 0x4000, used]);
        written(TYPE_SAMPLE, 2, &words)
    }

    fn all(bytes: &[u8]) -> Vec<Record<'_>> {
        records(bytes).collect()
    }

    #[test]
    fn a_sample_has_its_thread_time_stack_and_registers() {
        let bytes = a_sample(8);
        let task = Task {
            process: 7,
            thread: 8,
        };
        let expected = Sample {
            task,
            at_ns: 123,
            kernel: vec![0xffff_ffff_8100_0000],
            user: vec![0x1000, 0x2000],
            registers: Some(std::array::from_fn(|at| at as u64 + 1)),
            stack: &[0, 0x30, 0, 0, 0, 0, 0, 0],
        };
        assert_eq!(all(&bytes), [Record::Sample(expected)]);
    }

    #[test]
    fn a_thread_without_a_program_has_no_registers_and_no_stack() {
        let bytes = written(TYPE_SAMPLE, 1, &[pair(7, 7), 9, 0, 0, 0]);
        let [Record::Sample(sample)] = &all(&bytes)[..] else {
            panic!("it is a sample");
        };
        assert_eq!((sample.registers, sample.stack), (None, &[][..]));
    }

    #[test]
    fn threads_programs_and_losses_are_told() {
        let task = Task {
            process: 1,
            thread: 3,
        };
        let parent = Task {
            process: 2,
            thread: 4,
        };
        for (kind, misc, words, expected) in [
            (
                TYPE_FORK,
                0,
                vec![pair(1, 2), pair(3, 4), 9],
                Record::Started { task, parent },
            ),
            (
                TYPE_EXIT,
                0,
                vec![pair(1, 2), pair(3, 4), 9],
                Record::Ended { task },
            ),
            (
                TYPE_MMAP2,
                0,
                vec![pair(1, 1), 5],
                Record::Mapped { process: 1 },
            ),
            (
                TYPE_COMM,
                MISC_EXEC,
                vec![pair(1, 1)],
                Record::Executed { process: 1 },
            ),
            (TYPE_LOST, 0, vec![1, 5], Record::Lost { records: 5 }),
            (TYPE_LOST_SAMPLES, 0, vec![6], Record::Lost { records: 6 }),
            (TYPE_THROTTLE, 0, vec![1, 2, 3], Record::Throttled),
        ] {
            assert_eq!(all(&written(kind, misc, &words)), [expected]);
        }
    }

    #[test]
    fn what_is_of_no_interest_or_truncated_is_skipped() {
        let mut bytes = written(TYPE_COMM, 0, &[pair(1, 1)]);
        bytes.extend(written(99, 0, &[1, 2]));
        bytes.extend(written(TYPE_FORK, 0, &[1]));
        // More of the stack is used than was copied.
        bytes.extend(a_sample(17));
        bytes.extend(written(TYPE_LOST, 0, &[1, 5]));
        assert_eq!(all(&bytes), [Record::Lost { records: 5 }]);
    }

    #[test]
    fn lengths_that_no_kernel_writes_end_the_records() {
        let whole = a_sample(8);
        for end in 0..whole.len() {
            assert_eq!(all(&whole[..end]), [], "{end} bytes");
        }
        for length in [0_u16, 7, u16::MAX] {
            let mut bytes = whole.clone();
            bytes[6..8].copy_from_slice(&length.to_le_bytes());
            assert_eq!(all(&bytes), [], "length {length}");
        }
        // The number of addresses, of bytes of the stack, and of those that are used.
        for at in [24, whole.len() - 32, whole.len() - 8] {
            for count in [u64::MAX, u64::MAX / 8 + 1, 1 << 40] {
                let mut bytes = whole.clone();
                bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
                assert_eq!(all(&bytes), [], "{count} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            at in 0_usize..120,
            with in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            // A record has a header.
            prop_assert!(all(&bytes).len() * HEADER_BYTES <= bytes.len());
            let mut sample = a_sample(8);
            let end = (at + with.len()).min(sample.len());
            sample.splice(at.min(end)..end, with);
            for record in all(&sample) {
                if let Record::Sample(sample) = record {
                    prop_assert!(sample.kernel.len() + sample.user.len() < 20);
                }
            }
        }
    }
}
