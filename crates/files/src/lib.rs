//! Input and output files. Inputs are read here: at most a given number of bytes, and never from a
//! device. Outputs go where [`outputs::destination`] says.
//!
//! Whatever a user names as an input is read here, so that no input can fill the memory. Pipes and
//! stdin are read like files, and what came through one is kept, because a program may read an
//! input several times and a pipe has its bytes only once.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod kept;
mod limited;
pub mod outputs;

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

pub use limited::Limited;

/// The path that means stdin, also if it is not one that can be opened.
pub const STDIN: &str = "/dev/stdin";

/// The input that a user names: `-` is [`STDIN`].
#[must_use]
pub fn named(path: &Path) -> &Path {
    if path.as_os_str() == "-" {
        Path::new(STDIN)
    } else {
        path
    }
}

/// `/dev/null`, major 1 and minor 3 on Linux (admin-guide/devices.txt): an empty file.
const NULL_DEVICE: u64 = 0x103;

/// The limit for keys, certificates and lists of them: the authorities of a system have 300 kB.
pub const SMALL_FILE_BYTES: u64 = 16 << 20;

/// How much is read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The beginning of compressed data (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The content of a file, a pipe or stdin ([`STDIN`]).
///
/// # Errors
/// If it cannot be opened or read, has more than `max_bytes`, or is a folder or a device.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_file(path)?;
    let metadata = file.metadata()?;
    // Stdin may be a file that cannot be opened again, and is at its end the second time.
    if metadata.is_file() && path != Path::new(STDIN) {
        content(file, &metadata, max_bytes)
    } else {
        kept::read(file, &metadata, max_bytes)
    }
}

/// As [`read`], as text.
///
/// # Errors
/// As [`read`], or if it is not UTF-8.
pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    text(read(path, max_bytes)?)
}

/// As [`read`], but only of a regular file: one that another file or a folder names, whose reading
/// must end.
///
/// # Errors
/// As [`read`], or if it is not a regular file.
pub fn read_regular(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    check_regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    // It may have been replaced in between.
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    content(file, &metadata, max_bytes)
}

/// The content of an input that is open, such as stdin.
///
/// # Errors
/// If it cannot be read, or has more than `max_bytes`.
pub fn read_from(input: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Not `read_to_end`, which clears all that it has reserved: twice the memory of the content.
    let mut input = BufReader::with_capacity(PIECE_BYTES, Limited::new(input, max_bytes));
    loop {
        let piece = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            piece => piece?,
        };
        let count = piece.len();
        if count == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(piece);
        input.consume(count);
    }
}

/// Text of bytes that were read.
///
/// # Errors
/// If they are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// As [`read`], uncompressed if it is compressed with gzip. The limit holds for both.
///
/// # Errors
/// As [`read`], or if the compressed data are damaged.
pub fn read_unpacked(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let bytes = read(path, max_bytes)?;
    if !bytes.starts_with(&GZIP_MAGIC) {
        return Ok(bytes);
    }
    read_from(MultiGzDecoder::new(bytes.as_slice()), max_bytes)
}

/// Opens a file, a pipe or stdin to be read from its start to its end, uncompressed if it is
/// compressed with gzip. Nothing is kept: a pipe can be read once.
///
/// # Errors
/// If it cannot be opened or read, or is a folder or a device. The reader fails at the end of
/// `max_bytes`.
pub fn open_unpacked(path: &Path, max_bytes: u64) -> io::Result<Box<dyn BufRead>> {
    let mut plain = BufReader::new(Limited::new(open_file(path)?, max_bytes));
    if !plain.fill_buf()?.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(plain));
    }
    let unpacked = Limited::new(MultiGzDecoder::new(plain), max_bytes);
    Ok(Box::new(BufReader::new(unpacked)))
}

fn content(file: File, metadata: &Metadata, max_bytes: u64) -> io::Result<Vec<u8>> {
    if metadata.len() > max_bytes {
        return Err(limited::too_large(max_bytes));
    }
    read_from(file, max_bytes)
}

fn open_file(path: &Path) -> io::Result<File> {
    if path == Path::new(STDIN) {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        // A terminal is where people type or paste.
        if file.is_terminal() {
            return Ok(file);
        }
        let metadata = file.metadata()?;
        check(&metadata)?;
        // A file that is opened again has a position of its own.
        let again = metadata.is_file().then(|| File::open(path));
        return Ok(again.and_then(Result::ok).unwrap_or(file));
    }
    // Before it is opened: some devices act on that.
    check(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    // It may have been replaced in between.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Refuses what is not a file, a pipe or a socket.
fn check(metadata: &Metadata) -> io::Result<()> {
    let kind: FileType = metadata.file_type();
    if kind.is_dir() {
        return Err(is_directory());
    }
    let is_device = kind.is_char_device() || kind.is_block_device();
    if is_device && metadata.rdev() != NULL_DEVICE {
        Err(refused("is a device (expected a file)"))
    } else {
        Ok(())
    }
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    match metadata.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(is_directory()),
        _ => Err(refused("not a regular file")),
    }
}

fn is_directory() -> io::Error {
    io::Error::new(
        io::ErrorKind::IsADirectory,
        "is a directory (expected a file)",
    )
}

fn refused(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use testkit::Folder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory takes everything");
        encoder.finish().expect("memory takes everything")
    }

    #[test]
    fn a_file_of_at_most_the_limit_is_read() {
        let folder = Folder::new();
        let path = folder.file_with("a", "12345");
        let path = Path::new(&path);
        assert_eq!(read(path, 5).expect("it fits"), b"12345");
        assert_eq!(read_text(path, 5).expect("it is text"), "12345");
        let error = read(path, 4).expect_err("it is larger");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(
            error.to_string(),
            "is larger than 4 bytes, the limit for such a file"
        );
    }

    #[test]
    fn what_is_not_a_file_is_refused_before_it_is_read() {
        let folder = Folder::new();
        for (path, problem) in [
            ("/dev/zero", "is a device (expected a file)"),
            ("/dev/full", "is a device (expected a file)"),
            (
                folder.path().to_str().expect("it is text"),
                "is a directory (expected a file)",
            ),
        ] {
            let path = Path::new(path);
            assert_eq!(read(path, 1).expect_err("refused").to_string(), problem);
            let opened = open_unpacked(path, 1).map(drop);
            assert_eq!(opened.expect_err("refused").to_string(), problem);
            let regular = read_regular(path, 1).expect_err("refused");
            if path.is_dir() {
                assert_eq!(regular.kind(), io::ErrorKind::IsADirectory)
            } else {
                assert_eq!(regular.to_string(), "not a regular file")
            }
        }
        let missing = read(&folder.path().join("missing"), 1).expect_err("it is missing");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(read(Path::new("/dev/null"), 1).expect("it is empty"), b"");
    }

    #[test]
    fn a_file_of_proc_is_limited_although_it_says_that_it_is_empty() {
        let path = Path::new("/proc/self/status");
        assert!(!read(path, 1 << 20).expect("it is short").is_empty());
        let error = read(path, 10).expect_err("it is longer");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn compressed_files_are_unpacked_within_the_limit() {
        let folder = Folder::new();
        let two_members = [gzip(b"one\n"), gzip(b"two\n")].concat();
        let path = folder.file_with("a.gz", two_members);
        let path = Path::new(&path);
        assert_eq!(read_unpacked(path, 100).expect("it fits"), b"one\ntwo\n");
        let mut text = String::new();
        let mut opened = open_unpacked(path, 100).expect("it can be opened");
        opened.read_to_string(&mut text).expect("it fits");
        assert_eq!(text, "one\ntwo\n");

        let bomb = folder.file_with("bomb.gz", gzip(&vec![0; 1 << 20]));
        let bomb = Path::new(&bomb);
        let error = read_unpacked(bomb, 1 << 16).expect_err("it is larger");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let mut opened = open_unpacked(bomb, 1 << 16).expect("it can be opened");
        let error = io::copy(&mut opened, &mut io::sink()).expect_err("it is larger");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);

        let mut damaged = gzip(b"some text");
        damaged.truncate(damaged.len() - 6);
        let damaged = folder.file_with("damaged.gz", damaged);
        read_unpacked(Path::new(&damaged), 100).expect_err("it is damaged");
        let plain = folder.file_with("plain.gz", "plain");
        let plain = read_unpacked(Path::new(&plain), 100).expect("its bytes decide");
        assert_eq!(plain, b"plain");
    }

    #[test]
    fn a_pipe_is_read_as_often_as_asked() {
        let mut child = Command::new("printf")
            .arg("from a pipe")
            .stdout(Stdio::piped())
            .spawn()
            .expect("printf can be started");
        let output = child.stdout.take().expect("it is piped");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&output));
        for _ in 0..2 {
            assert_eq!(
                read(Path::new(&path), 100).expect("it fits"),
                b"from a pipe"
            );
        }
        let error = read(Path::new(&path), 3).expect_err("it is larger");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let error = read_regular(Path::new(&path), 100).expect_err("it is a pipe");
        assert_eq!(error.to_string(), "not a regular file");
        child.wait().expect("it ends");
    }

    #[test]
    fn an_endless_pipe_ends_at_the_limit() {
        let mut child = Command::new("yes")
            .stdout(Stdio::piped())
            .spawn()
            .expect("yes can be started");
        let output = child.stdout.take().expect("it is piped");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&output));
        let error = read(Path::new(&path), 1 << 20).expect_err("it never ends");
        assert_eq!(
            error.to_string(),
            "is larger than 1 MiB, the limit for such a file"
        );
        drop(output);
        child.wait().expect("it ends");
    }
}
