//! A folder for a server's files, and a free port for it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that every user may read and write, since servers started by root change their user.
/// Removed with its test. Not below the build folder: paths of Unix sockets are short.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("wrkbench-{test}-{}", std::process::id());
        let place = Self(std::env::temp_dir().join(name));
        place.folder("");
        place
    }

    /// Makes a folder in it.
    pub(crate) fn folder(&self, name: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(&path).expect("a folder can be made");
        // As /tmp: what somebody makes in it nobody else replaces, so that a journal can lie below it.
        set_mode(&path, 0o1777);
        self.path(name)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("the path is UTF-8").to_owned()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).expect("a file can be written");
        set_mode(&self.0.join(name), 0o644);
        self.path(name)
    }

    pub(crate) fn program(&self, name: &str, content: &str) -> String {
        let path = self.file(name, content);
        set_mode(Path::new(&path), 0o755);
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.0.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// A port that is free now. Somebody else may take it before the server does; then the server does
/// not start, and is started again with another.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has one").port()
}

/// Whether this test runs as root: servers must then be told which user to become.
pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id starts");
    output.stdout.trim_ascii() == b"0"
}
