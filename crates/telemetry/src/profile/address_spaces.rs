//! The address spaces of a server's processes: what code is where, and how to unwind stacks in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative,
};

use super::image::{self, Bytes, FileId, Image};
use super::mappings::{self, Mapping};
use super::record::Sample;
use crate::file::read;

/// No deeper stacks are kept.
const FRAMES_MAX: usize = 192;

/// A compiler that makes code all the time would have its mappings read as often.
const MAPPINGS_AGE_MIN_NS: u64 = 100_000_000;

/// Where a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Frame {
    /// At an address of the kernel.
    Kernel(u64),
    /// At an address of an image, by its number.
    Image(u32, u64),
    /// At an address of a process that belongs to no file.
    Made(u32, u64),
    /// The process itself, by its number: the outermost frame.
    Process(u32),
    /// Functions that are not known because the stack could not be followed to its end.
    Unknown,
}

/// All processes and the images that they have mapped.
#[derive(Default)]
pub(crate) struct AddressSpaces {
    processes: HashMap<u32, AddressSpace>,
    images: Vec<Image>,
    /// By file: its image, if it is one.
    by_file: HashMap<FileId, Option<u32>>,
    vdso: Option<Option<u32>>,
    cache: Option<CacheNative<MayAllocateDuringUnwind>>,
}

/// The address space of a process.
#[derive(Clone, Default)]
struct AddressSpace {
    name: String,
    /// In order of their addresses, with their image and its bias.
    mappings: Vec<(Mapping, Option<(u32, u64)>)>,
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    read_ns: Option<u64>,
    is_old: bool,
}

impl AddressSpaces {
    /// A process has mapped code, or runs another program.
    pub(crate) fn has_changed(&mut self, process: u32) {
        if let Some(space) = self.processes.get_mut(&process) {
            space.is_old = true;
        }
    }

    /// A process was started and has the memory of its parent.
    pub(crate) fn has_started(&mut self, process: u32, parent: u32) {
        if process != parent
            && let Some(space) = self.processes.get(&parent)
        {
            let space = AddressSpace {
                is_old: true,
                ..space.clone()
            };
            self.processes.insert(process, space);
        }
    }

    /// The number of processes that were seen.
    pub(crate) fn len(&self) -> usize {
        self.processes.len()
    }

    /// The name of a process that was seen.
    pub(crate) fn process_name(&self, process: u32) -> Option<&str> {
        Some(&self.processes.get(&process)?.name)
    }

    /// The images that were seen, in order of their numbers.
    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    /// Reads the code of a process unless it is known.
    pub(crate) fn know(&mut self, process: u32, now_ns: u64) {
        let space = self.processes.entry(process).or_default();
        let is_due = match space.read_ns {
            None => true,
            Some(read_ns) => space.is_old && now_ns.saturating_sub(read_ns) >= MAPPINGS_AGE_MIN_NS,
        };
        if !is_due {
            return;
        }
        space.read_ns = Some(now_ns);
        space.is_old = false;
        let folder = PathBuf::from(format!("/proc/{process}"));
        // Without both the process has ended: what is known is still right for its last samples.
        let name = read(&folder.join("comm"));
        if let Some(name) = name {
            space.name = name.trim_end().to_owned();
        }
        let maps = read(&folder.join("maps")).map(|maps| mappings::parse(&maps));
        if let Some(maps) = maps.filter(|maps| !maps.is_empty()) {
            self.map(process, maps);
        }
    }

    fn map(&mut self, process: u32, mappings: Vec<Mapping>) {
        let mut unwinder = UnwinderNative::default();
        let placed = mappings.into_iter().map(|mapping| {
            let image = self.image(process, &mapping);
            let place = image.and_then(|number| {
                let image = &self.images[number as usize];
                let bias = image.bias(&mapping)?;
                unwinder.add_module(image.module(&mapping, bias));
                Some((number, bias))
            });
            (mapping, place)
        });
        let mappings = placed.collect();
        if let Some(space) = self.processes.get_mut(&process) {
            space.mappings = mappings;
            space.unwinder = unwinder;
        }
    }

    fn image(&mut self, process: u32, mapping: &Mapping) -> Option<u32> {
        if mapping.path == "[vdso]" {
            if self.vdso.is_none() {
                self.vdso = Some(image::vdso().map(|image| self.add(image)));
            }
            return self.vdso.flatten();
        }
        if !mapping.is_file() {
            return None;
        }
        let (id, file) = image::open(process, mapping)?;
        if let Some(known) = self.by_file.get(&id) {
            return *known;
        }
        let image = Image::read(mapping.name(), file).map(|image| self.add(image));
        self.by_file.insert(id, image);
        image
    }

    fn add(&mut self, image: Image) -> u32 {
        self.images.push(image);
        u32::try_from(self.images.len() - 1).unwrap_or(u32::MAX)
    }

    /// The functions of a sample, the outermost one first. The process must be known.
    pub(crate) fn frames(&mut self, sample: &Sample<'_>, frames: &mut Vec<Frame>) {
        frames.clear();
        let process = sample.task.process;
        let Some(space) = self.processes.get(&process) else {
            return;
        };
        let cache = self.cache.get_or_insert_with(CacheNative::default);
        let (unwound, is_whole) = space.unwind(sample, cache);
        // Frame pointers may reach further where there are no rules for unwinding.
        let by_pointers = return_addresses(&sample.user);
        let user = if is_whole || unwound.len() >= by_pointers.len() {
            unwound
        } else {
            by_pointers
        };
        let kernel = return_addresses(&sample.kernel);
        frames.push(Frame::Process(process));
        if !is_whole {
            frames.push(Frame::Unknown);
        }
        let user = user
            .iter()
            .rev()
            .map(|address| space.frame(process, *address));
        frames.extend(user);
        frames.extend(kernel.iter().rev().map(|address| Frame::Kernel(*address)));
    }
}

/// A call chain of the kernel as addresses within calls: all but the innermost one are where the
/// function will go on.
fn return_addresses(chain: &[u64]) -> Vec<u64> {
    let within = |(at, address): (usize, &u64)| address.saturating_sub(u64::from(at > 0));
    chain
        .iter()
        .enumerate()
        .take(FRAMES_MAX)
        .map(within)
        .collect()
}

impl AddressSpace {
    /// Addresses within the functions of the program, innermost first, and whether the last one is
    /// where the thread has begun.
    fn unwind(
        &self,
        sample: &Sample<'_>,
        cache: &mut CacheNative<MayAllocateDuringUnwind>,
    ) -> (Vec<u64>, bool) {
        let Some(registers) = sample.registers else {
            // A thread of the kernel, or one that is ending, has no functions of a program.
            return (Vec::new(), true);
        };
        let (code, stack_start, registers) = native(registers);
        let mut read_stack = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(stack_start)).map_err(|_| ())?;
            let bytes = sample.stack.get(at..).ok_or(())?;
            let bytes = bytes.first_chunk().ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        let mut frames = self
            .unwinder
            .iter_frames(code, registers, cache, &mut read_stack);
        let mut addresses = Vec::new();
        while addresses.len() < FRAMES_MAX {
            match frames.next() {
                Ok(Some(FrameAddress::InstructionPointer(address))) => addresses.push(address),
                Ok(Some(address)) => addresses.push(address.address_for_lookup()),
                Ok(None) => return (addresses, true),
                Err(_) => break,
            }
        }
        (addresses, false)
    }

    fn frame(&self, process: u32, address: u64) -> Frame {
        let behind = self
            .mappings
            .partition_point(|(mapping, _)| mapping.range.start <= address);
        let last = behind.checked_sub(1).map(|last| &self.mappings[last]);
        match last {
            Some((mapping, Some((image, bias)))) if mapping.range.contains(&address) => {
                Frame::Image(*image, address.wrapping_sub(*bias))
            }
            _ => Frame::Made(process, address),
        }
    }
}

/// The next instruction, the stack pointer, and what an unwinder starts with.
#[cfg(target_arch = "x86_64")]
fn native([bp, sp, ip]: [u64; 3]) -> (u64, u64, UnwindRegsNative) {
    (ip, sp, UnwindRegsNative::new(ip, sp, bp))
}

/// The next instruction, the stack pointer, and what an unwinder starts with.
#[cfg(not(target_arch = "x86_64"))]
fn native([fp, lr, sp, pc]: [u64; 4]) -> (u64, u64, UnwindRegsNative) {
    // Programs have addresses of 48 bits unless they ask for more; the bits above may be a
    // signature (pointer authentication).
    let mask = framehop::aarch64::PtrAuthMask(u64::MAX >> 16);
    let registers = UnwindRegsNative::new_with_ptr_auth_mask(mask, lr, sp, fp);
    (pc, sp, registers)
}

/// The file in which a program with a compiler of its own writes the names of its functions.
pub(crate) fn compiler_map(process: u32) -> Option<String> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let status = read(&folder.join("status")).unwrap_or_default();
    // In a container the process has another number.
    let inside = status.lines().find_map(|line| {
        let numbers = line.strip_prefix("NSpid:")?;
        numbers.split_ascii_whitespace().last()?.parse().ok()
    });
    let name = format!("tmp/perf-{}.map", inside.unwrap_or(process));
    let places = [folder.join("root").join(&name), Path::new("/").join(&name)];
    places.iter().find_map(|place| {
        // Anybody may put a link or a pipe there.
        let is_file = std::fs::symlink_metadata(place).is_ok_and(|it| it.is_file());
        is_file.then(|| read(place)).flatten()
    })
}
