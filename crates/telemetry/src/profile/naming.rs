//! Stacks of addresses become stacks of names, after the run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::address_spaces::{self, AddressSpaces, Frame};
use super::sampling::StackTable;
use super::symbols::{SymbolTable, readable};

/// Stacks of names.
#[derive(Debug, Default)]
pub(crate) struct NamedStacks {
    pub(crate) functions: Vec<String>,
    /// Indices of functions, the outermost one first.
    pub(crate) stacks: Vec<Vec<u32>>,
    pub(crate) notes: Vec<String>,
}

/// A note lists no more programs.
const NAMED_MAX: usize = 5;

/// Names all frames.
pub(crate) fn of(table: StackTable, spaces: &AddressSpaces) -> NamedStacks {
    let (frames, stacks) = table.into_parts();
    let names = Names::of(&frames, spaces);
    let mut functions: Vec<String> = Vec::new();
    let mut by_name: HashMap<String, u32> = HashMap::new();
    let function_of_frame: Vec<u32> = frames
        .iter()
        .map(|frame| {
            let name = names.name(*frame, spaces);
            let next = u32::try_from(functions.len()).unwrap_or(u32::MAX);
            *by_name.entry(name.clone()).or_insert_with(|| {
                functions.push(name);
                next
            })
        })
        .collect();
    let stacks = stacks.iter().map(|stack| {
        let functions = stack.iter().map(|frame| function_of_frame[*frame as usize]);
        let mut functions: Vec<u32> = functions.collect();
        // Of a program without names, several functions in a row would look like recursion.
        functions.dedup();
        functions
    });
    NamedStacks {
        stacks: stacks.collect(),
        functions,
        notes: names.notes,
    }
}

/// The names of all frames.
#[derive(Debug, Default)]
struct Names {
    of_images: HashMap<(u32, u64), String>,
    kernel: SymbolTable,
    compilers: BTreeMap<u32, SymbolTable>,
    notes: Vec<String>,
}

impl Names {
    fn of(frames: &[Frame], spaces: &AddressSpaces) -> Self {
        let mut of_images: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        let mut compilers: BTreeMap<u32, SymbolTable> = BTreeMap::new();
        let mut has_kernel = false;
        for frame in frames {
            match *frame {
                Frame::Image(image, address) => {
                    of_images.entry(image).or_default().insert(address);
                }
                Frame::Made(process, _) => {
                    compilers.entry(process).or_default();
                }
                Frame::Kernel(_) => has_kernel = true,
                Frame::Process(_) | Frame::Unknown => {}
            }
        }
        let mut names = Self::default();
        let mut without_names = Vec::new();
        for (number, addresses) in of_images {
            let Some(image) = spaces.images().get(number as usize) else {
                continue;
            };
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let found = image.functions(&addresses);
            let known = found.iter().flatten().count();
            if known * 2 < addresses.len() && image.name != "[vdso]" {
                without_names.push(image.name.as_str());
            }
            for (address, name) in addresses.iter().zip(found) {
                let name = name.map_or_else(
                    || format!("[{}]", image.name.trim_matches(['[', ']'])),
                    |name| readable(&name),
                );
                names.of_images.insert((number, *address), name);
            }
        }
        if has_kernel && let Ok(text) = std::fs::read_to_string("/proc/kallsyms") {
            names.kernel = SymbolTable::of_kernel(&text);
        }
        for (process, table) in &mut compilers {
            if let Some(text) = address_spaces::compiler_map(*process) {
                *table = SymbolTable::of_compiler(&text);
            }
        }
        names.compilers = compilers;
        names.notes = note(&without_names).into_iter().collect();
        names
    }

    fn name(&self, frame: Frame, spaces: &AddressSpaces) -> String {
        match frame {
            Frame::Kernel(address) => {
                let name = self.kernel.name(address).unwrap_or("[unknown]");
                format!("{} (kernel)", readable(name))
            }
            Frame::Image(image, address) => {
                let name = self.of_images.get(&(image, address));
                name.cloned().unwrap_or_else(|| "[unknown]".to_owned())
            }
            Frame::Made(process, address) => {
                let table = self.compilers.get(&process);
                let name = table.and_then(|table| table.name(address));
                name.map_or_else(|| "[unknown]".to_owned(), readable)
            }
            Frame::Process(process) => {
                let name = spaces.process_name(process).filter(|name| !name.is_empty());
                name.map_or_else(|| "[process]".to_owned(), readable)
            }
            Frame::Unknown => "[incomplete]".to_owned(),
        }
    }
}

/// A sentence about programs whose functions have no names.
fn note(programs: &[&str]) -> Option<String> {
    let more = programs.len().saturating_sub(NAMED_MAX);
    let mut named = programs[..programs.len() - more].join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    (!programs.is_empty())
        .then(|| format!("names of functions are missing in {named}: install their debug symbols"))
}
