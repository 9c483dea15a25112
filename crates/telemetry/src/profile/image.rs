//! Programs and libraries: how to unwind their stacks, and the names of their functions.

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::{ExplicitModuleSectionInfo, Module};
use object::elf::PF_X;
use object::read::elf::{ElfFile64, ElfSymbolTable64};
use object::{
    Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, ReadCache,
    SegmentFlags, SymbolKind,
};

use super::mappings::Mapping;

/// Bytes of a section, shared by all processes that have the image.
pub(crate) type Bytes = Arc<[u8]>;

/// The largest section with rules for unwinding that is read: that of a browser has 10 MB.
const SECTION_BYTES_MAX: u64 = 64 << 20;

/// The longest table of symbols that is read: that of a browser has 50 MB.
const SYMBOL_BYTES_MAX: u64 = 512 << 20;

/// Where the symbols of stripped programs are, by build id.
const DEBUG_FOLDER: &str = "/usr/lib/debug/.build-id";

/// A file with code, or the code that the kernel gives each process.
#[derive(Debug)]
pub(crate) struct Image {
    /// The last part of its path.
    pub(crate) name: String,
    source: ImageSource,
    segments: Vec<Segment>,
    eh_frame: Option<Section>,
    eh_frame_header: Option<Section>,
    build_id: Vec<u8>,
}

#[derive(Debug)]
enum ImageSource {
    File(File),
    Memory(Vec<u8>),
}

trait ReadSeek: Read + Seek {}
impl<T: Read + Seek> ReadSeek for T {}

type Cache<'a> = ReadCache<Box<dyn ReadSeek + 'a>>;
type Elf<'a, 'data> = ElfFile64<'data, Endianness, &'data Cache<'a>>;

/// A part of a file that is mapped to memory as code.
#[derive(Debug)]
struct Segment {
    offset: u64,
    size: u64,
    /// Its address in the file's own counting.
    address: u64,
}

#[derive(Debug, Clone)]
struct Section {
    address: u64,
    bytes: Bytes,
}

/// A file is the same if these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    modified_ns: i64,
}

/// Opens the file of a mapping as the process sees it, which may be in a container.
pub(crate) fn open(process: u32, mapping: &Mapping) -> Option<(FileId, File)> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let range = format!("{:x}-{:x}", mapping.range.start, mapping.range.end);
    let places = [
        // Root may open what is really mapped, even if the file has been replaced.
        folder.join("map_files").join(range),
        folder
            .join("root")
            .join(mapping.path.trim_start_matches('/')),
        PathBuf::from(&mapping.path),
    ];
    places.iter().find_map(|place| {
        // Opening a pipe would block.
        let data = std::fs::metadata(place).ok().filter(|it| it.is_file())?;
        let seconds_ns = data.mtime().wrapping_mul(1_000_000_000);
        let id = FileId {
            device: data.dev(),
            inode: data.ino(),
            modified_ns: seconds_ns.wrapping_add(data.mtime_nsec()),
        };
        Some((id, File::open(place).ok()?))
    })
}

/// The code that the kernel gives each process: this one has the same.
pub(crate) fn vdso() -> Option<Image> {
    let maps = crate::file::read(Path::new("/proc/self/maps"))?;
    let own = super::mappings::parse(&maps);
    let own = own.into_iter().find(|mapping| mapping.path == "[vdso]")?;
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(own.range.start)).ok()?;
    let mut bytes = vec![0; usize::try_from(own.range.end - own.range.start).ok()?];
    memory.read_exact(&mut bytes).ok()?;
    Image::of("[vdso]", ImageSource::Memory(bytes))
}

impl Image {
    /// Reads what is needed to unwind; `None` if the file is no program for 64 bits.
    pub(crate) fn read(name: &str, file: File) -> Option<Self> {
        Self::of(name, ImageSource::File(file))
    }

    fn of(name: &str, source: ImageSource) -> Option<Self> {
        let cache = source.cache();
        let file = Elf::parse(&cache).ok()?;
        // Neighbouring segments share a page of the file, so only those with code are looked at.
        let has_code = |flags| match flags {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
            _ => false,
        };
        let segments = file.segments().filter(|segment| has_code(segment.flags()));
        let segments = segments.map(|segment| {
            let (offset, size) = segment.file_range();
            Segment {
                offset,
                size,
                address: segment.address(),
            }
        });
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            let is_small = section.size() <= SECTION_BYTES_MAX;
            let bytes = is_small.then(|| section.data().ok()).flatten()?;
            Some(Section {
                address: section.address(),
                bytes: bytes.into(),
            })
        };
        let (segments, eh_frame) = (segments.collect(), section(".eh_frame"));
        let eh_frame_header = section(".eh_frame_hdr");
        let build_id = file.build_id().ok().flatten().unwrap_or_default().to_vec();
        drop(cache);
        Some(Self {
            name: name.to_owned(),
            source,
            segments,
            eh_frame,
            eh_frame_header,
            build_id,
        })
    }

    /// What has to be added to an address of this image to get that in a process with this mapping;
    /// `None` if the mapping is of no part of the image.
    pub(crate) fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            // Segments are mapped by whole pages.
            let end = segment.offset.saturating_add(segment.size);
            let mapped = mapping.range.end - mapping.range.start;
            mapping.offset < end && segment.offset < mapping.offset.saturating_add(mapped)
        })?;
        let start = mapping.range.start.wrapping_sub(mapping.offset);
        Some(
            start
                .wrapping_add(segment.offset)
                .wrapping_sub(segment.address),
        )
    }

    /// The image at a place, for unwinding.
    pub(crate) fn module(&self, mapping: &Mapping, bias: u64) -> Module<Bytes> {
        let range = |section: &Option<Section>| {
            let section = section.as_ref()?;
            let end = section.address.saturating_add(section.bytes.len() as u64);
            Some(section.address..end)
        };
        let bytes = |section: &Option<Section>| Some(section.as_ref()?.bytes.clone());
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_header),
            eh_frame_hdr: bytes(&self.eh_frame_header),
            ..Default::default()
        };
        Module::new(self.name.clone(), mapping.range.clone(), bias, sections)
    }

    /// The functions at these addresses of the image, as the linker names them; those of its debug
    /// file if that is installed.
    pub(crate) fn functions(&self, addresses: &[u64]) -> Vec<Option<String>> {
        let mut names = vec![None; addresses.len()];
        let has_code = |address: u64| self.segments.iter().any(|it| it.has(address));
        if let Some(file) = self.debug_file() {
            name_functions(&ImageSource::File(file), &has_code, addresses, &mut names);
        }
        name_functions(&self.source, &has_code, addresses, &mut names);
        names
    }

    fn debug_file(&self) -> Option<File> {
        let (first, rest) = self.build_id.split_first()?;
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        File::open(format!("{DEBUG_FOLDER}/{first:02x}/{rest}.debug")).ok()
    }
}

impl ImageSource {
    fn cache(&self) -> Cache<'_> {
        ReadCache::new(match self {
            Self::File(file) => Box::new(file),
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
        })
    }
}

impl Segment {
    fn has(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.size
    }
}

/// Fills in the names that are missing.
fn name_functions(
    source: &ImageSource,
    has_code: &impl Fn(u64) -> bool,
    addresses: &[u64],
    names: &mut [Option<String>],
) {
    let cache = source.cache();
    let Ok(file) = Elf::parse(&cache) else {
        return;
    };
    let is_small = |section: &str| {
        let section = file.section_by_name(section);
        section.is_none_or(|section| section.size() <= SYMBOL_BYTES_MAX)
    };
    let tables = [
        file.symbol_table().filter(|_| is_small(".symtab")),
        file.dynamic_symbol_table().filter(|_| is_small(".dynsym")),
    ];
    for table in tables.into_iter().flatten() {
        name_by(&table, has_code, addresses, names);
    }
}

fn name_by<'data>(
    table: &ElfSymbolTable64<'data, '_, Endianness, &'data Cache<'_>>,
    has_code: &impl Fn(u64) -> bool,
    addresses: &[u64],
    names: &mut [Option<String>],
) {
    // Functions in assembly may have no type.
    let is_function = |kind| matches!(kind, SymbolKind::Text | SymbolKind::Unknown);
    let symbols = table.symbols().filter(|symbol| {
        symbol.is_definition() && is_function(symbol.kind()) && has_code(symbol.address())
    });
    let mut symbols: Vec<_> = symbols
        .map(|symbol| (symbol.address(), symbol.size(), symbol.index()))
        .collect();
    symbols.sort_by_key(|(address, size, _)| (*address, *size));
    for (wanted, name) in addresses.iter().zip(names) {
        if name.is_some() || !has_code(*wanted) {
            continue;
        }
        let end = symbols.partition_point(|(address, _, _)| address <= wanted);
        let Some((start, _, _)) = end.checked_sub(1).map(|last| symbols[last]) else {
            continue;
        };
        let same = symbols[..end].iter().rev();
        let same = same.take_while(|(address, _, _)| *address == start);
        // And no size.
        let covers = |size: u64| size == 0 || wanted - start < size;
        let found = same.filter(|(_, size, _)| covers(*size)).filter_map(|it| {
            let symbol = table.symbol_by_index(it.2).ok()?;
            // On aarch64, `$x` marks where code begins.
            symbol
                .name()
                .ok()
                .filter(|name| !name.starts_with('$') && !name.is_empty())
        });
        // Of several names, that which programs use: `write`, not `__GI___libc_write`.
        let best = found.min_by_key(|name| (name.len(), name.to_owned()));
        *name = best.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn known_function() -> usize {
        std::hint::black_box(7)
    }

    /// The image of this test program, and the mapping of its code.
    fn own() -> (Image, Mapping) {
        let process = std::process::id();
        let maps = crate::file::read(Path::new("/proc/self/maps")).expect("it is there");
        let code = known_function as fn() -> usize as usize as u64;
        let mappings = super::super::mappings::parse(&maps);
        let mapping = mappings.into_iter().find(|it| it.range.contains(&code));
        let mapping = mapping.expect("this code is mapped");
        let (_, file) = open(process, &mapping).expect("it can be read");
        let image = Image::read(mapping.name(), file).expect("it is a program");
        (image, mapping)
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        assert_eq!(known_function(), 7);
        let (image, mapping) = own();
        let bias = image.bias(&mapping).expect("it is a part of the image");
        let code = known_function as fn() -> usize as usize as u64 - bias;
        let names = image.functions(&[code, code + 1, u64::MAX]);
        assert!(
            names[0]
                .as_ref()
                .is_some_and(|name| name.contains("known_function"))
        );
        assert_eq!(names[0], names[1]);
        assert_eq!(names[2], None);
    }

    #[test]
    fn the_code_of_the_kernel_in_each_process_has_rules_for_unwinding() {
        let vdso = vdso().expect("this kernel has it");
        assert!(vdso.eh_frame.is_some());
    }

    #[test]
    fn what_is_no_program_is_no_image() {
        let folder = testkit::Folder::new();
        let program = std::fs::read("/proc/self/exe").expect("it can be read");
        for (name, bytes) in [
            ("empty", &[][..]),
            ("text", b"#!/bin/sh\n"),
            ("head", &program[..64]),
            ("half", &program[..program.len() / 2]),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, bytes).expect("a file");
            let file = File::open(&path).expect("it is there");
            if let Some(image) = Image::read(name, file) {
                assert_eq!(image.functions(&[0x1000]), [None], "{name}");
            }
        }
    }
}
