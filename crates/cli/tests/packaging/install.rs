//! `packaging/install.sh` against a server of releases on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Folder, Output, Process, TestServer, require};

use super::root;

const VERSION: &str = "9.8.7";

/// A response: the file, and how much of it is sent before the connection ends.
#[derive(Clone)]
struct Served {
    bytes: Vec<u8>,
    sent: usize,
}

impl Served {
    fn whole(bytes: Vec<u8>) -> Self {
        let sent = bytes.len();
        Self { bytes, sent }
    }
}

/// The files of a release by name: an archive for each architecture, and the sums.
fn release() -> BTreeMap<String, Vec<u8>> {
    let folder = Folder::new();
    let mut files = BTreeMap::new();
    let mut sums = String::new();
    for architecture in ["aarch64", "x86_64"] {
        let name = format!("wrkbench-{VERSION}-{architecture}-linux-musl");
        for part in ["bin", "share/man/man1", "share/doc/wrkbench"] {
            std::fs::create_dir_all(folder.join(&name).join(part)).expect("a folder");
        }
        let program = format!("#!/bin/sh\necho wrkbench {VERSION} for {architecture}\n");
        let path = folder.join(&name).join("bin/wrkbench");
        std::fs::write(&path, program).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("our file");
        std::fs::write(
            folder.join(&name).join("share/man/man1/wrkbench.1"),
            ".TH wrkbench 1\n",
        )
        .expect("a file");
        let archive = format!("{name}.tar.gz");
        let status = Command::new("tar")
            .args(["-czf", &archive, &name])
            .current_dir(folder.path())
            .status();
        assert!(status.expect("tar starts").success());
        let sum = Command::new("sha256sum")
            .arg(&archive)
            .current_dir(folder.path())
            .output()
            .expect("sha256sum starts");
        sums.push_str(&String::from_utf8_lossy(&sum.stdout));
        files.insert(
            archive.clone(),
            std::fs::read(folder.join(&archive)).expect("the archive"),
        );
    }
    files.insert("SHA256SUMS".to_owned(), sums.into_bytes());
    files
}

fn archive_name() -> String {
    format!(
        "wrkbench-{VERSION}-{}-linux-musl.tar.gz",
        std::env::consts::ARCH
    )
}

/// Serves the files below `/files/`; 404 for all others.
fn serve(files: BTreeMap<String, Served>) -> TestServer {
    TestServer::start(move |stream| answer(&stream, &files))
}

fn answer(mut stream: &TcpStream, files: &BTreeMap<String, Served>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The head ends with an empty line.
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    match path
        .strip_prefix("/files/")
        .and_then(|name| files.get(name))
    {
        Some(Served { bytes, sent }) => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                bytes.len()
            )?;
            stream.write_all(&bytes[..*sent])
        }
        None => stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}

fn served(files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Served> {
    let files = files.into_iter();
    files
        .map(|(name, bytes)| (name, Served::whole(bytes)))
        .collect()
}

/// The installer, with a home below `folder`.
fn installer(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .arg(root().join("packaging/install.sh"))
        .args(arguments)
        .env_remove("WRKBENCH_FROM")
        .env("HOME", folder.path())
        .env("TMPDIR", folder.folder("tmp"))
        // Loopback is reached directly.
        .env("no_proxy", "*")
        .env("LC_ALL", "C");
    command
}

/// The uninstaller of an ordinary user. That of root asks whether a sweep is running on this
/// machine, which is not the business of the test.
fn uninstaller(folder: &Folder, prefix: &str) -> (Command, Folder) {
    let programs = Folder::new();
    programs.program("id", "#!/bin/sh\necho 1000\n");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = installer(folder, &["--uninstall", "--prefix", prefix]);
    command.env("PATH", format!("{}:{path}", programs.path().display()));
    command.env_remove("XDG_STATE_HOME");
    (command, programs)
}

fn output_of(command: Command) -> Output {
    Process::start(command).finish()
}

/// A URL of the files of a server.
fn url(server: &TestServer) -> String {
    format!("http://{}/files", server.address())
}

/// PATH with some programs replaced by scripts, or (with an empty script) only the named ones.
fn path_with(folder: &Folder, name: &str, script: &str) -> OsString {
    folder.folder("replaced");
    folder.program(&format!("replaced/{name}"), script);
    let mut path = folder.join("replaced").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

fn has_no_program(folder: &Folder) -> bool {
    !folder.join(".local/bin/wrkbench").exists()
        && std::fs::read_dir(folder.join("tmp")).is_ok_and(|mut left| left.next().is_none())
}

/// The one line on stderr of an installer that refused.
fn refusal(output: &Output) -> String {
    assert_eq!(output.code, Some(1), "{output:?}");
    let lines = output.stderr.lines();
    let own: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("install.sh: "))
        .collect();
    assert_eq!(own.len(), 1, "{output:?}");
    own[0].to_owned()
}

#[test]
fn the_installer_installs_the_program_and_what_comes_with_it() {
    if require("curl").is_none() {
        return;
    }
    let server = serve(served(release()));
    for version in [None, Some("9.8.7"), Some("v9.8.7")] {
        let folder = Folder::new();
        let from = url(&server);
        let mut arguments = vec!["--from", from.as_str()];
        arguments.extend(
            version
                .into_iter()
                .flat_map(|version| ["--version", version]),
        );
        let output = output_of(installer(&folder, &arguments));
        assert_eq!(output.code, Some(0), "{output:?}");
        let expected = format!(
            "install.sh: installed {}/.local/bin/wrkbench (wrkbench {VERSION} for {})",
            folder.path().display(),
            std::env::consts::ARCH
        );
        assert!(output.stdout.contains(&expected), "{output:?}");
        assert!(output.stdout.contains("is not on PATH"), "{output:?}");
        assert!(folder.join(".local/share/man/man1/wrkbench.1").exists());
        assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
    }
}

#[test]
fn the_installer_takes_a_folder_in_place_of_a_url_and_replaces_an_older_program() {
    let folder = Folder::new();
    folder.folder("release");
    for (name, bytes) in release() {
        folder.file_with(&format!("release/{name}"), bytes);
    }
    let prefix = folder.folder("with blanks");
    let bin = folder.join("with blanks/bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    std::fs::write(bin.join("wrkbench"), "old").expect("a file");
    let mut command = installer(&folder, &["--prefix", &prefix]);
    command.env("WRKBENCH_FROM", folder.join("release"));
    let output = output_of(command);
    assert_eq!(output.code, Some(0), "{output:?}");
    let installed = Command::new(bin.join("wrkbench"))
        .output()
        .expect("it runs");
    assert!(String::from_utf8_lossy(&installed.stdout).contains(VERSION));
}

#[test]
fn wget_does_where_there_is_no_curl() {
    let Some(wget) = require("wget") else {
        return;
    };
    let server = serve(served(release()));
    let folder = Folder::new();
    folder.folder("only");
    for name in [
        "sh",
        "cat",
        "uname",
        "mkdir",
        "mktemp",
        "rm",
        "tar",
        "gzip",
        "sha256sum",
        "cut",
        "cp",
        "chmod",
        "mv",
        "find",
        "sort",
    ] {
        let program = require(name).expect("a system has it");
        symlink(program, folder.join("only").join(name)).expect("a link");
    }
    symlink(wget, folder.join("only/wget")).expect("a link");
    let mut command = installer(&folder, &["--from", &url(&server)]);
    command.env("PATH", folder.join("only"));
    let output = output_of(command);
    assert_eq!(output.code, Some(0), "{output:?}");

    std::fs::remove_file(folder.join("only/wget")).expect("our link");
    let mut command = installer(&folder, &["--from", &url(&server)]);
    command.env("PATH", folder.join("only"));
    assert_eq!(
        refusal(&output_of(command)),
        "needs curl or wget; on Debian: apt-get install curl"
    );
}

#[test]
fn an_archive_with_another_sum_is_not_installed() {
    if require("curl").is_none() {
        return;
    }
    let mut files = release();
    let archive = files.get_mut(&archive_name()).expect("an archive");
    *archive.last_mut().expect("it has bytes") ^= 1;
    let server = serve(served(files));
    let folder = Folder::new();
    let why = refusal(&output_of(installer(&folder, &["--from", &url(&server)])));
    assert!(
        why.contains("has the SHA-256 sum") && why.contains("nothing was installed"),
        "{why}"
    );
    assert!(has_no_program(&folder));
}

#[test]
fn an_archive_that_arrives_in_part_is_not_installed() {
    if require("curl").is_none() {
        return;
    }
    let mut files = served(release());
    let archive = files.get_mut(&archive_name()).expect("an archive");
    archive.sent /= 2;
    let server = serve(files);
    let folder = Folder::new();
    let why = refusal(&output_of(installer(&folder, &["--from", &url(&server)])));
    assert!(
        why.ends_with("could not be downloaded completely: nothing was installed"),
        "{why}"
    );
    assert!(has_no_program(&folder));
}

#[test]
fn a_version_that_does_not_exist_is_refused() {
    if require("curl").is_none() {
        return;
    }
    let server = serve(served(release()));
    let folder = Folder::new();
    let arguments = ["--from", &url(&server), "--version", "1.2.3"];
    let why = refusal(&output_of(installer(&folder, &arguments)));
    assert!(
        why.ends_with(&format!(
            "SHA256SUMS does not name wrkbench-1.2.3-{}-linux-musl.tar.gz",
            std::env::consts::ARCH
        )),
        "{why}"
    );
    // A release that is not there at all.
    let nowhere = format!("http://{}/other", server.address());
    let arguments = ["--from", &nowhere, "--version", "1.2.3"];
    let why = refusal(&output_of(installer(&folder, &arguments)));
    assert!(why.starts_with("there is no 1.2.3 release at"), "{why}");
    assert!(has_no_program(&folder));
}

#[test]
fn an_architecture_without_a_binary_is_refused_before_anything_is_downloaded() {
    let folder = Folder::new();
    let path = path_with(
        &folder,
        "uname",
        "#!/bin/sh\ncase $1 in -s) echo Linux;; *) echo riscv64;; esac\n",
    );
    let mut command = installer(&folder, &["--from", "http://127.0.0.1:1"]);
    command.env("PATH", path);
    assert_eq!(
        refusal(&output_of(command)),
        "there is no binary for riscv64: build it from source, as docs/install.md says"
    );
    assert!(has_no_program(&folder));
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_before_anything_is_downloaded() {
    let folder = Folder::new();
    // Not even root can make a folder in the second.
    for prefix in [folder.file_with("file", "not a folder"), "/proc".to_owned()] {
        let arguments = ["--from", "http://127.0.0.1:1", "--prefix", &prefix];
        assert_eq!(
            refusal(&output_of(installer(&folder, &arguments))),
            format!("{prefix}/bin cannot be written: choose another folder with --prefix")
        );
    }
}

#[test]
fn without_a_writable_share_folder_only_the_program_is_installed() {
    let folder = Folder::new();
    folder.folder("release");
    for (name, bytes) in release() {
        folder.file_with(&format!("release/{name}"), bytes);
    }
    folder.folder("prefix");
    folder.file_with("prefix/share", "not a folder");
    let (from, prefix) = (folder.file("release"), folder.file("prefix"));
    let output = output_of(installer(&folder, &["--from", &from, "--prefix", &prefix]));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.contains("no manual pages and no completions"),
        "{output:?}"
    );
    assert!(folder.join("prefix/bin/wrkbench").exists());
}

/// Everything below a folder.
fn below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            paths.extend(below(&path));
        }
        paths.insert(path);
    }
    paths
}

/// A folder with a release in `release/`, and the path of that.
fn released() -> (Folder, String) {
    let folder = Folder::new();
    folder.folder("tmp");
    folder.folder("release");
    for (name, bytes) in release() {
        folder.file_with(&format!("release/{name}"), bytes);
    }
    let from = folder.file("release");
    (folder, from)
}

#[test]
fn uninstalling_removes_what_was_installed_and_nothing_else_also_a_second_time() {
    let (folder, from) = released();
    let prefix = folder.folder("with blanks");
    for path in ["share/man/man1", "share/doc/wrkbench"] {
        std::fs::create_dir_all(folder.join("with blanks").join(path)).expect("a folder");
    }
    folder.file_with("with blanks/share/doc/wrkbench/notes.txt", "of the user");
    let before = below(folder.path());
    // Twice: the second does not forget the folders that the first has made.
    for _ in 0..2 {
        let install = installer(&folder, &["--from", &from, "--prefix", &prefix]);
        assert_eq!(output_of(install).code, Some(0));
    }
    assert!(below(folder.path()).len() > before.len() + 3);

    for expected in [
        format!("install.sh: removed {prefix}/bin/wrkbench and what was installed with it\n"),
        format!("install.sh: nothing is installed in {prefix}\n"),
    ] {
        let (uninstaller, _programs) = uninstaller(&folder, &prefix);
        let output = output_of(uninstaller);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(output.stdout, expected);
        assert_eq!(below(folder.path()), before);
    }
}

#[test]
fn uninstalling_refuses_a_program_that_something_else_installed() {
    let folder = Folder::new();
    folder.folder("bin");
    let program = folder.file_with("bin/wrkbench", "of a package");
    let prefix = folder.path().display().to_string();
    let why = refusal(&output_of(installer(
        &folder,
        &["--uninstall", "--prefix", &prefix],
    )));
    assert!(why.contains("was not installed by this script"), "{why}");
    assert!(Path::new(&program).exists());
}

#[test]
fn uninstalling_removes_nothing_outside_of_bin_and_share_whatever_the_list_says() {
    let (folder, from) = released();
    let prefix = folder.folder("prefix");
    let install = installer(&folder, &["--from", &from, "--prefix", &prefix]);
    assert_eq!(output_of(install).code, Some(0));
    let list = folder.join("prefix/share/doc/wrkbench/installed.txt");
    let mut text = std::fs::read_to_string(&list).expect("the list");
    let kept = folder.file_with("kept", "");
    folder.file_with("prefix/own", "");
    text.push_str(&format!("{kept}\nown\n../kept\nshare/../../kept\n*\n"));
    std::fs::write(&list, text).expect("our file");
    let (uninstaller, _programs) = uninstaller(&folder, &prefix);
    let output = output_of(uninstaller);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(Path::new(&kept).exists() && folder.join("prefix/own").exists());
    assert!(!folder.join("prefix/share").exists());
}

#[test]
fn a_wrong_command_line_of_the_installer_is_refused() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (
            vec!["--frobnicate"],
            "--frobnicate: unknown option (--help lists all)",
        ),
        (
            vec!["--prefix"],
            "--prefix needs a value (--help lists all options)",
        ),
        (
            vec!["--version", "1/../2"],
            "--version 1/../2: is not a version (expected like 0.1.0)",
        ),
    ] {
        assert_eq!(
            refusal(&output_of(installer(&folder, &arguments))),
            expected
        );
    }
}
