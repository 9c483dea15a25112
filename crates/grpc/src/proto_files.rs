//! `.proto` files in folders, read with a limit like every other input.

use std::io;
use std::path::{Component, Path, PathBuf};

use protox::Error;
use protox::file::{File, FileResolver, IncludeFileResolver};

use crate::schema::SchemaError;

/// The limit for one file. People write them: the largest public ones have less than 1 MB.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The files that a user has named, and the folders in which their imports are.
pub(crate) struct ProtoFiles {
    named: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl ProtoFiles {
    pub(crate) fn new(named: &[PathBuf], folders: &[PathBuf]) -> Self {
        Self {
            named: named.to_vec(),
            folders: folders.to_vec(),
        }
    }

    /// Refuses a file if an import of its name means another one, in a folder before its own.
    pub(crate) fn check_shadowed(&self, file: &Path) -> Result<(), SchemaError> {
        let Some(name) = self.resolve_path(file) else {
            return Ok(());
        };
        let mut places = self.folders.iter().map(|folder| folder.join(&name));
        match places.find(|place| place.exists()) {
            Some(other) if !is_same(&other, file) => Err(SchemaError::Proto(format!(
                "{}: an import of {name} means {}, whose folder is before",
                file.display(),
                other.display()
            ))),
            _ => Ok(()),
        }
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        if self.named.iter().any(|named| is_same(named, path)) {
            return files::read_text(path, MAX_FILE_BYTES);
        }
        files::text(files::read_regular(path, MAX_FILE_BYTES)?)
    }
}

impl FileResolver for ProtoFiles {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        let mut folders = self.folders.iter().cloned();
        folders.find_map(|folder| IncludeFileResolver::new(folder).resolve_path(path))
    }

    fn open_file(&self, name: &str) -> Result<File, Error> {
        for folder in &self.folders {
            let path = folder.join(name);
            return match self.read(&path) {
                Ok(text) => File::from_source(name, &text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Err(Error::new(format!("{}: {error}", path.display()))),
            };
        }
        Err(Error::file_not_found(name))
    }
}

/// Whether two paths are the same but for `.`.
fn is_same(one: &Path, other: &Path) -> bool {
    let parts = |path: &Path| -> PathBuf {
        let parts = path.components();
        parts.filter(|part| *part != Component::CurDir).collect()
    };
    parts(one) == parts(other)
}
