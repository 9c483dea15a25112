//! Writes the catalogue page to the file that is named: what the browser tests open.

use std::fs::File;
use std::io::{self, BufWriter, Write};

#[path = "../tests/catalogue/mod.rs"]
mod catalogue;

fn main() -> io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "name the file to write"))?;
    let mut file = BufWriter::new(File::create(path)?);
    report::page::render(&catalogue::page(), &mut file)?;
    file.flush()
}
