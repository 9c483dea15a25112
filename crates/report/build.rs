//! Compresses the scripts and style sheets of pages, which makes the program 0.1 MB smaller.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Folders with assets, below the crate's folder.
const FOLDERS: [&str; 2] = ["assets", "assets/vendor/uplot"];

fn main() -> io::Result<()> {
    let output = std::env::var_os("OUT_DIR")
        .ok_or_else(|| io::Error::other("OUT_DIR is not set: cargo runs this"))?;
    println!("cargo::rerun-if-changed=assets");
    for folder in FOLDERS {
        fs::create_dir_all(Path::new(&output).join(folder))?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "js" || it == "css") {
                compress(&path, &Path::new(&output).join(&path))?;
            }
        }
    }
    Ok(())
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let mut encoder = DeflateEncoder::new(File::create(to)?, Compression::best());
    encoder.write_all(&fs::read(from)?)?;
    encoder.finish().map(drop)
}
