//! What came through pipes: a program reads some inputs several times, and a pipe has its bytes
//! once.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use crate::limited::too_large;
use crate::read_from;

/// By device and inode, which name a pipe as long as it is open. Until the end of the program: few
/// inputs are pipes, and each has its limit.
static KEPT: Mutex<BTreeMap<(u64, u64), Vec<u8>>> = Mutex::new(BTreeMap::new());

/// The content of a pipe: the first time what comes through it, then the same.
pub(crate) fn read(file: File, metadata: &Metadata, max_bytes: u64) -> io::Result<Vec<u8>> {
    let identity = (metadata.dev(), metadata.ino());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = kept.get(&identity) {
        return if bytes.len() as u64 > max_bytes {
            Err(too_large(max_bytes))
        } else {
            Ok(bytes.clone())
        };
    }
    let bytes = read_from(file, max_bytes)?;
    kept.insert(identity, bytes.clone());
    Ok(bytes)
}
