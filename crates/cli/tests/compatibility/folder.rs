//! A folder of its own for a test, removed with it.

use std::fs;
use std::path::PathBuf;

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("compatibility-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    pub(crate) fn file_with(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
