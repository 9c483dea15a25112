//! What an agent needs for its part of a run: the plan, and the files that it names.
//!
//! Encoded, a package is a line with the length of its header, the header as JSON, and the bytes of
//! the files one after the other.

use std::io;
use std::path::{Path, PathBuf};

use plan::{Body, RequestSpec, RunPlan, Share, TlsSpec};
use serde::{Deserialize, Serialize};

use crate::names::Label;

/// The largest package. Each agent gets one, and holds it in memory until it is written.
pub const MAX_PACKAGE_BYTES: u64 = 64 << 20;

/// The most files in a package: a script with a generous number of modules.
pub const MAX_FILES: usize = 1000;

/// The largest header: the plan may have a body, and many files are listed.
const MAX_HEADER_BYTES: usize = 8 << 20;

/// The longest name of a file, and the most folders in it.
const MAX_FILE_NAME_BYTES: usize = 200;
const MAX_FOLDERS: usize = 8;

/// The first line of a package up to the length of its header.
const MAGIC: &str = "wrkbench-package 1 ";

/// The folder of Lua modules in a package.
pub const MODULES: &str = "modules";

/// Why a package cannot be made or used; one line.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A file of the plan cannot be read.
    #[error("{option} {}: {error}", .path.display())]
    Read {
        /// The option that names it.
        option: &'static str,
        /// The path of the file on this machine.
        path: PathBuf,
        /// Why it cannot be read.
        error: io::Error,
    },
    /// A file that would be sent has a private key.
    #[error(
        "{option} {}: the file has a private key, and private keys are not sent to agents; \
         keep certificates and keys in separate files",
        .path.display()
    )]
    PrivateKey {
        /// The option that names it.
        option: &'static str,
        /// The path of the file on this machine.
        path: PathBuf,
    },
    /// Plan and files are too large.
    #[error("the plan and its files have {bytes} bytes; agents accept {MAX_PACKAGE_BYTES}")]
    TooLarge {
        /// The size of the plan and its files together.
        bytes: u64,
    },
    /// There are more than [`MAX_FILES`] files.
    #[error("the plan has {files} files; agents accept {MAX_FILES}")]
    TooMany {
        /// The number of files that the plan needs.
        files: usize,
    },
    /// The bytes are not a package.
    #[error("the plan that arrived is not valid: {0}")]
    Malformed(Label),
    /// A name could lead out of the folder.
    #[error("{0:?} is not the name of a file in a plan")]
    FileName(Label),
    /// The plan names a file that did not come with it.
    #[error("the plan names {0:?}, which did not come with it")]
    Missing(Label),
}

/// The name of a file in a package: it cannot lead out of the folder that it is written to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(String);

impl FileName {
    /// The name as a relative path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TryFrom<String> for FileName {
    type Error = PackageError;

    fn try_from(name: String) -> Result<Self, PackageError> {
        let may = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_part =
            |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(may);
        let is_name = name.len() <= MAX_FILE_NAME_BYTES
            && name.split('/').count() <= MAX_FOLDERS
            && name.split('/').all(is_part);
        if is_name {
            Ok(Self(name))
        } else {
            Err(PackageError::FileName(Label::new(&name)))
        }
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> Self {
        name.0
    }
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledFile {
    /// Its path below the folder of the run.
    pub name: FileName,
    /// The bytes of the file.
    pub data: Vec<u8>,
}

/// The files that a plan needs, apart from private keys. The same for all agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The files that the plan names.
    pub files: Vec<BundledFile>,
    /// Lua modules that were not found here. They must be installed on the agents.
    pub missing_modules: Vec<String>,
}

/// What an agent needs for its part of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    /// The agent's part of the plan, and its place in the schedule of the fleet.
    pub share: Share,
    /// Who makes the run and where it sends to, for others who would like to use the agent. They
    /// all can read it.
    pub title: Label,
    /// Facts about the invocation, for the result.
    pub details: serde_json::Value,
    /// The files that the plan names.
    pub files: Vec<BundledFile>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    share: Share,
    #[serde(default)]
    title: Label,
    #[serde(default)]
    details: serde_json::Value,
    files: Vec<FileEntry>,
}

#[derive(Serialize, Deserialize)]
struct FileEntry {
    name: FileName,
    bytes: u64,
}

impl Package {
    /// The package as bytes.
    ///
    /// # Errors
    /// If it is larger than [`MAX_PACKAGE_BYTES`], or has more than [`MAX_FILES`] files.
    ///
    /// # Panics
    /// Never: a plan can be saved.
    pub fn encode(&self) -> Result<Vec<u8>, PackageError> {
        let entry = |file: &BundledFile| FileEntry {
            name: file.name.clone(),
            bytes: file.data.len() as u64,
        };
        let header = Header {
            share: self.share.clone(),
            title: self.title.clone(),
            details: self.details.clone(),
            files: self.files.iter().map(entry).collect(),
        };
        let header = serde_json::to_vec(&header).expect("a plan can be saved");
        let mut bytes = format!("{MAGIC}{}\n", header.len()).into_bytes();
        bytes.extend(&header);
        for file in &self.files {
            bytes.extend(&file.data);
        }
        if self.files.len() > MAX_FILES {
            return Err(PackageError::TooMany {
                files: self.files.len(),
            });
        }
        match bytes.len() as u64 {
            size if size > MAX_PACKAGE_BYTES || header.len() > MAX_HEADER_BYTES => {
                Err(PackageError::TooLarge { bytes: size })
            }
            _ => Ok(bytes),
        }
    }

    /// Reads a package.
    ///
    /// # Errors
    /// If the bytes are not a package.
    pub fn decode(bytes: &[u8]) -> Result<Self, PackageError> {
        let malformed = |text: &str| PackageError::Malformed(Label::new(text));
        let end = bytes
            .iter()
            .take(MAGIC.len() + 12)
            .position(|byte| *byte == b'\n');
        let (line, rest) = bytes.split_at(end.ok_or_else(|| malformed("it has no first line"))?);
        let length = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.strip_prefix(MAGIC)?.parse::<usize>().ok())
            .filter(|length| *length <= MAX_HEADER_BYTES)
            .ok_or_else(|| malformed("its first line is not valid"))?;
        let (header, mut rest) = rest[1..]
            .split_at_checked(length)
            .ok_or_else(|| malformed("it ends within its header"))?;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| malformed(&error.to_string()))?;
        if header.files.len() > MAX_FILES {
            return Err(malformed("it has too many files"));
        }
        let mut files = Vec::new();
        for entry in header.files {
            let length = usize::try_from(entry.bytes).ok();
            let (data, behind) = length
                .and_then(|length| rest.split_at_checked(length))
                .ok_or_else(|| malformed("it ends within a file"))?;
            rest = behind;
            files.push(BundledFile {
                name: entry.name,
                data: data.to_vec(),
            });
        }
        if !rest.is_empty() {
            return Err(malformed("something follows its last file"));
        }
        Ok(Self {
            share: header.share,
            title: header.title,
            details: header.details,
            files,
        })
    }

    /// How long the load lasts as planned, with warm-up and drain, nanoseconds. `None`: a number of
    /// requests ends it.
    #[must_use]
    pub fn length_ns(&self) -> Option<u64> {
        length_ns(&self.share.plan)
    }

    /// Replaces the files that the plan names by those of the package in a folder.
    ///
    /// # Errors
    /// If it names a file that is not in the package.
    pub fn place(&mut self, folder: &Path) -> Result<(), PackageError> {
        for (_, path) in files_of(&mut self.share.plan) {
            let name = path.to_string_lossy().into_owned();
            if !self.files.iter().any(|file| file.name.0 == name) {
                return Err(PackageError::Missing(Label::new(&name)));
            }
            *path = folder.join(name);
        }
        Ok(())
    }
}

/// How long the load of a plan lasts at most, with warm-up and drain, nanoseconds. `None`: a number
/// of requests ends it.
#[must_use]
pub fn length_ns(plan: &RunPlan) -> Option<u64> {
    let length = plan.stop.duration?.saturating_add(plan.warmup);
    let length = length.saturating_add(plan.drain_limit());
    Some(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

/// The paths in a plan whose files are sent along, with their options. The private key and a Unix
/// socket are paths on the agent.
fn files_of(plan: &mut RunPlan) -> Vec<(&'static str, &mut PathBuf)> {
    // No `..` in the patterns: whoever adds a path must decide whether it is sent.
    let RequestSpec {
        method: _,
        headers: _,
        body,
        // It was used to encode the body.
        schema: _,
        file,
        script,
        script_args: _,
    } = &mut plan.request;
    let TlsSpec {
        verify: _,
        alpn: _,
        cacert,
        cert,
        key: _,
        full_handshakes: _,
        early_data: _,
    } = &mut plan.tls;
    let proxy_cacert = plan.proxy.as_mut().and_then(|proxy| proxy.cacert.as_mut());
    let body = match body {
        Some(Body::File(path)) => Some(path),
        Some(Body::Inline(_)) | None => None,
    };
    let all = [
        ("-s", script.as_mut()),
        ("--body-file", body),
        ("--request-file", file.as_mut().map(|file| &mut file.path)),
        ("--cacert", cacert.as_mut()),
        ("--cert", cert.as_mut()),
        ("--proxy-cacert", proxy_cacert),
    ];
    let given = |(option, path): (_, Option<_>)| Some((option, path?));
    all.into_iter().filter_map(given).collect()
}

/// Reads a file of this machine.
pub type Reader<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Collects the files that a plan names, and replaces their paths by their names in the package.
///
/// Modules that a script `require`s are looked for in `module_paths`, whose entries are like Lua's
/// `package.path` (`./?.lua`). A module is found if its name is a literal. Those of the system
/// (`/usr/share/lua`) need no entry: they are installed on the agents.
///
/// # Errors
/// If a file cannot be read or has a private key.
pub fn bundle(
    plan: &mut RunPlan,
    module_paths: &[String],
    read: Reader<'_>,
) -> Result<Bundle, PackageError> {
    let mut bundle = Bundle::default();
    let mut scripts = Vec::new();
    for (option, path) in files_of(plan) {
        let data = read(path).map_err(|error| PackageError::Read {
            option,
            path: path.clone(),
            error,
        })?;
        if has_private_key(&data) {
            let path = path.clone();
            return Err(PackageError::PrivateKey { option, path });
        }
        let folder = option.trim_start_matches('-');
        let name = FileName::try_from(format!("{folder}/{}", cleaned_name(path)))?;
        *path = name.as_path().to_owned();
        if option == "-s" {
            scripts.push(data.clone());
        }
        bundle.files.push(BundledFile { name, data });
    }
    add_modules(&mut bundle, scripts, module_paths, read)?;
    Ok(bundle)
}

/// Adds the modules that the scripts require, those that these require, and so on.
fn add_modules(
    bundle: &mut Bundle,
    mut scripts: Vec<Vec<u8>>,
    module_paths: &[String],
    read: Reader<'_>,
) -> Result<(), PackageError> {
    let mut seen: Vec<String> = Vec::new();
    while let Some(script) = scripts.pop() {
        for module in required_modules(&script) {
            if seen.contains(&module) {
                continue;
            }
            seen.push(module.clone());
            let Some((name, data)) = find_module(&module, module_paths, read) else {
                bundle.missing_modules.push(module);
                continue;
            };
            scripts.push(data.clone());
            let name = FileName::try_from(name)?;
            bundle.files.push(BundledFile { name, data });
            if bundle.files.len() > MAX_FILES {
                let files = bundle.files.len();
                return Err(PackageError::TooMany { files });
            }
        }
    }
    Ok(())
}

/// The name in the package and the content of a module.
fn find_module(module: &str, paths: &[String], read: Reader<'_>) -> Option<(String, Vec<u8>)> {
    let path = module.replace('.', "/");
    paths
        .iter()
        .filter(|template| template.contains('?'))
        .find_map(|template| {
            let data = read(Path::new(&template.replace('?', &path))).ok()?;
            let end = if template.ends_with("?/init.lua") {
                "/init.lua"
            } else {
                ".lua"
            };
            Some((format!("{MODULES}/{path}{end}"), data))
        })
}

/// The modules that a script names in `require "..."`, `require('...')` or `require[[...]]`.
///
/// Those in comments are included: a superfluous module does no harm.
fn required_modules(script: &[u8]) -> Vec<String> {
    const WORD: &[u8] = b"require";
    let is_module = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let mut modules = Vec::new();
    let mut rest = script;
    while let Some(at) = rest.windows(WORD.len()).position(|window| window == WORD) {
        rest = &rest[at + WORD.len()..];
        let opened = rest
            .iter()
            .take_while(|byte| b" \t\r\n(\"'[".contains(byte))
            .count();
        let length = rest[opened..]
            .iter()
            .take_while(|byte| is_module(byte))
            .count();
        let is_quoted = rest[..opened].iter().any(|byte| b"\"'[".contains(byte));
        let closes = rest
            .get(opened + length)
            .is_some_and(|byte| b"\"']".contains(byte));
        if is_quoted && closes && length > 0 {
            modules.push(String::from_utf8_lossy(&rest[opened..opened + length]).into_owned());
        }
    }
    modules
}

/// Whether a PEM file has a private key of any kind.
fn has_private_key(data: &[u8]) -> bool {
    const MARK: &[u8] = b"PRIVATE KEY-----";
    data.windows(MARK.len()).any(|window| window == MARK)
}

/// The last part of a path, without what a [`FileName`] must not have.
fn cleaned_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let cleaned: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(100)
        .collect();
    match cleaned.trim_start_matches('.') {
        "" => "file".to_owned(),
        cleaned => cleaned.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Target;
    use std::collections::BTreeMap;

    fn plan_with_files() -> RunPlan {
        let mut plan = RunPlan::new(Target::parse("https://a.lab/").expect("a URL"));
        plan.request.script = Some("/somewhere/my script.lua".into());
        plan.request.body = Some(Body::File("../bodies/b.json".into()));
        plan.tls.cacert = Some("ca.pem".into());
        plan.tls.cert = Some("cert.pem".into());
        plan.tls.key = Some("/etc/agent/key.pem".into());
        plan
    }

    const FILES: [(&str, &str); 6] = [
        (
            "/somewhere/my script.lua",
            "local a = require 'a.b'\nrequire(\"c\") require\"socket\" require(name) -- require",
        ),
        ("../bodies/b.json", "{}"),
        ("ca.pem", "-----BEGIN CERTIFICATE-----"),
        ("cert.pem", "-----BEGIN CERTIFICATE-----"),
        ("./a/b.lua", "require [[c]] return {}"),
        ("lib/c/init.lua", "require 'a.b'"),
    ];

    fn collect(files: &[(&str, &str)], plan: &mut RunPlan) -> Result<Bundle, PackageError> {
        let files: BTreeMap<&Path, &str> = files
            .iter()
            .map(|(path, text)| (Path::new(*path), *text))
            .collect();
        let paths = ["./?.lua".to_owned(), "lib/?/init.lua".to_owned()];
        bundle(plan, &paths, &|path| match files.get(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn package() -> Package {
        let mut plan = plan_with_files();
        let bundle = collect(&FILES, &mut plan).expect("all files exist");
        Package {
            share: plan
                .deal(&[4])
                .expect("it has connections for all")
                .remove(0),
            title: "laptop, http://web:80".into(),
            details: serde_json::Value::Null,
            files: bundle.files,
        }
    }

    #[test]
    fn everything_that_the_plan_names_travels_except_the_private_key() {
        let mut plan = plan_with_files();
        let bundle = collect(&FILES, &mut plan).expect("all files exist");
        let names: Vec<&str> = bundle
            .files
            .iter()
            .map(|file| file.name.0.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "s/my_script.lua",
                "body-file/b.json",
                "cacert/ca.pem",
                "cert/cert.pem",
                "modules/a/b.lua",
                "modules/c/init.lua",
            ]
        );
        assert_eq!(bundle.missing_modules, ["socket"]);
        assert_eq!(plan.request.script, Some("s/my_script.lua".into()));
        assert_eq!(plan.tls.key, Some("/etc/agent/key.pem".into()));
    }

    #[test]
    fn a_certificate_with_its_private_key_is_not_sent() {
        let mut files = FILES;
        files[3].1 = "-----BEGIN EC PRIVATE KEY-----";
        let error = collect(&files, &mut plan_with_files())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("--cert cert.pem: the file has a private key"),
            "{error}"
        );
        let error = collect(&FILES[1..], &mut plan_with_files())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("-s /somewhere/my script.lua: "),
            "{error}"
        );
    }

    #[test]
    fn a_package_arrives_as_it_was_sent_and_its_plan_names_the_new_files() {
        let bytes = package().encode().expect("it is small");
        let mut arrived = Package::decode(&bytes).expect("it is whole");
        assert_eq!(arrived, package());
        arrived
            .place(Path::new("/private"))
            .expect("all files are there");
        assert_eq!(
            arrived.share.plan.tls.cacert,
            Some("/private/cacert/ca.pem".into())
        );
        assert_eq!(
            arrived.share.plan.request.body,
            Some(Body::File("/private/body-file/b.json".into()))
        );
        assert_eq!(
            arrived.share.plan.tls.key,
            Some("/etc/agent/key.pem".into())
        );
        let mut without = package();
        without.files.remove(2);
        let error = without
            .place(Path::new("/private"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the plan names \"cacert/ca.pem\", which did not come with it"
        );
        let mut foreign = package();
        foreign.share.plan.tls.cacert = Some("/etc/shadow".into());
        assert!(foreign.place(Path::new("/private")).is_err());
    }

    #[test]
    fn a_package_that_is_cut_or_longer_is_refused() {
        let mut bytes = package().encode().expect("it is small");
        for length in 0..bytes.len() {
            assert!(Package::decode(&bytes[..length]).is_err(), "{length}");
        }
        bytes.push(0);
        assert!(Package::decode(&bytes).is_err());
    }

    #[test]
    fn a_file_name_cannot_lead_out_of_the_folder() {
        let deep = ["a"; 9].join("/");
        let long = "a".repeat(201);
        for bad in [
            "", "/a", "../a", "a/../b", "a//b", ".a", "a/.b", "a b", "ä", "a\\b", &deep, &long,
        ] {
            assert!(FileName::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        for good in ["a", "a/b.lua", "modules/x-1/init.lua"] {
            assert!(FileName::try_from(good.to_owned()).is_ok(), "{good}");
        }
        assert_eq!(cleaned_name(Path::new("/x/..")), "file");
        assert_eq!(cleaned_name(Path::new("/x/.hidden ä")), "hidden__");
    }

    #[test]
    fn too_many_files_and_too_large_ones_are_not_sent() {
        let mut many = package();
        many.files = vec![many.files[0].clone(); MAX_FILES + 1];
        assert!(matches!(many.encode(), Err(PackageError::TooMany { .. })));
        let mut large = package();
        large.files[0].data = vec![0; MAX_PACKAGE_BYTES as usize];
        assert!(matches!(large.encode(), Err(PackageError::TooLarge { .. })));
    }
}
