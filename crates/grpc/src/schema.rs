//! The methods and types of a server.

use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use crate::method::Method;
use crate::proto_files::ProtoFiles;

/// Methods and types by name.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) pool: DescriptorPool,
}

/// Why there are no methods and types, or not those that were asked for; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A `.proto` file cannot be used.
    #[error("{0}")]
    Proto(String),
    /// A set of descriptors cannot be used.
    #[error(
        "{file}: is not a set of descriptors ({problem}; protoc --include_imports -o makes one)"
    )]
    Set {
        /// The file as it was named.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such method.
    #[error("there is no method {name} ({known})")]
    NoMethod {
        /// The name.
        name: String,
        /// What there is instead.
        known: String,
    },
    /// There is no such service, method or type.
    #[error("there is no service, method or type {name} ({known})")]
    NoSymbol {
        /// The name.
        name: String,
        /// What there is instead.
        known: String,
    },
}

/// `.proto` files, and where their imports are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Folders in which imports are looked for. Without one these are the folders of the files and
    /// the current folder.
    pub folders: Vec<PathBuf>,
}

impl Schema {
    /// Compiles `.proto` files.
    ///
    /// # Errors
    /// If a file cannot be read or has a mistake: the file with line and column.
    pub fn compile(sources: &Sources) -> Result<Self, SchemaError> {
        let failed = |error: protox::Error| {
            let place = error
                .file()
                .map(|file| format!("{file}: "))
                .unwrap_or_default();
            let text = error.to_string().replace('\n', " ");
            let text = text.strip_prefix(&place).map(str::to_owned).unwrap_or(text);
            SchemaError::Proto(format!("{place}{text}"))
        };
        let mut folders = sources.folders.clone();
        if folders.is_empty() {
            let of_files = sources.files.iter().filter_map(|file| file.parent());
            let named = of_files.filter(|folder| *folder != Path::new(""));
            folders.extend(named.map(Path::to_owned));
            folders.push(PathBuf::from("."));
        }
        let files = || ProtoFiles::new(&sources.files, &folders);
        let mut resolver = ChainFileResolver::new();
        resolver.add(files());
        resolver.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true);
        for file in &sources.files {
            files().check_shadowed(file)?;
            compiler.open_file(file).map_err(failed)?;
        }
        Ok(Self {
            pool: compiler.descriptor_pool(),
        })
    }

    /// Compiles the text of a `.proto` file without imports. `name` is that of the file.
    ///
    /// # Errors
    /// If it has a mistake.
    pub fn of_text(name: &str, text: &str) -> Result<Self, SchemaError> {
        let compiled =
            protox_file(name, text).map_err(|error| SchemaError::Proto(error.to_string()))?;
        Ok(Self { pool: compiled })
    }

    /// Reads a `google.protobuf.FileDescriptorSet`, as `protoc -o` writes it. `file` is its name
    /// for messages.
    ///
    /// # Errors
    /// If it is damaged, or lacks a file that another one imports.
    pub fn of_set(bytes: &[u8], file: &str) -> Result<Self, SchemaError> {
        let pool = DescriptorPool::decode(bytes).map_err(|error| SchemaError::Set {
            file: file.to_owned(),
            problem: error.to_string().replace('\n', " "),
        })?;
        Ok(Self { pool })
    }

    /// The `google.protobuf.FileDescriptorSet` of these types.
    #[must_use]
    pub fn to_set(&self) -> Vec<u8> {
        self.pool.encode_to_vec()
    }

    /// All services, by name.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        let services = self.pool.services();
        let mut names: Vec<String> = services.map(|it| it.full_name().to_owned()).collect();
        names.sort();
        names
    }

    /// The methods of a service, by name; `None` if there is no such service.
    #[must_use]
    pub fn methods(&self, service: &str) -> Option<Vec<String>> {
        let service = self.pool.get_service_by_name(service)?;
        let mut names: Vec<String> = service
            .methods()
            .map(|method| format!("{}/{}", service.full_name(), method.name()))
            .collect();
        names.sort();
        Some(names)
    }

    /// The method with this name: `package.Service/Method`, also with a dot before the method.
    ///
    /// # Errors
    /// If there is none: which services or methods there are.
    pub fn method(&self, name: &str) -> Result<Method, SchemaError> {
        let given = name.trim_start_matches('/');
        let parts = given.rsplit_once('/').or_else(|| given.rsplit_once('.'));
        let (service, method) = parts.unwrap_or((given, ""));
        let found = self.pool.get_service_by_name(service);
        let known = match &found {
            None => format!("services: {}", listed(&self.services())),
            Some(service) => {
                let methods = service.methods().map(|it| it.name().to_owned());
                format!(
                    "methods of {}: {}",
                    service.full_name(),
                    listed(&methods.collect::<Vec<_>>())
                )
            }
        };
        let found = found.and_then(|service| method_of(&service, method));
        found.map(Method::new).ok_or_else(|| SchemaError::NoMethod {
            name: given.to_owned(),
            known,
        })
    }
}

/// The descriptors of one text.
fn protox_file(name: &str, text: &str) -> Result<DescriptorPool, protox::Error> {
    /// Finds this file only.
    struct One(File);

    impl FileResolver for One {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            if name == self.0.name() {
                Ok(self.0.clone())
            } else {
                Err(protox::Error::file_not_found(name))
            }
        }
    }

    let file = File::from_source(name, text)?;
    let mut compiler = protox::Compiler::with_file_resolver(One(file));
    compiler.open_file(name)?;
    Ok(compiler.descriptor_pool())
}

pub(crate) fn method_of(service: &ServiceDescriptor, name: &str) -> Option<MethodDescriptor> {
    service.methods().find(|method| method.name() == name)
}

/// The first names, for messages.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 10;
    match names.len() {
        0 => "none".to_owned(),
        count if count <= SHOWN => names.join(", "),
        count => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}
