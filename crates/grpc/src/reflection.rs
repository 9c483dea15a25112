//! The messages of server reflection (`grpc.reflection.v1`, and `v1alpha`, which is the same):
//! a server that has it tells its services and their types.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::schema::Schema;

/// The services of reflection, the newest first.
pub const SERVICES: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// The most files that a server may describe itself by.
pub const MAX_FILES: usize = 10_000;

/// The most bytes of their descriptors together.
const MAX_BYTES: usize = 64 << 20;

/// Why a server's description cannot be used; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReflectionError {
    /// The server refused the question.
    #[error("the server answers to reflection: {0}")]
    Refused(String),
    /// A message is damaged or not an answer to the question.
    #[error("the server's answer to reflection is damaged: {0}")]
    Damaged(String),
    /// The descriptors are larger than what is kept.
    #[error("the server describes itself by more than {MAX_FILES} files or 64 MiB")]
    TooLarge,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(oneof = "Question", tags = "3, 4, 7")]
    question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Question {
    #[prost(string, tag = "3")]
    FileByName(String),
    #[prost(string, tag = "4")]
    FileContaining(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(oneof = "Reply", tags = "4, 6, 7")]
    reply: Option<Reply>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Reply {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Error(Failure),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    descriptors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Failure {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// What a server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The names of its services.
    Services(Vec<String>),
    /// Descriptors of files.
    Files(Vec<Vec<u8>>),
}

/// The question for the names of all services.
#[must_use]
pub fn list() -> Vec<u8> {
    request(Question::ListServices(String::new()))
}

/// The question for the file that defines a service, method or type.
#[must_use]
pub fn containing(symbol: &str) -> Vec<u8> {
    request(Question::FileContaining(symbol.to_owned()))
}

/// The question for a file by its name.
#[must_use]
pub fn named(file: &str) -> Vec<u8> {
    request(Question::FileByName(file.to_owned()))
}

fn request(question: Question) -> Vec<u8> {
    let request = Request {
        question: Some(question),
    };
    request.encode_to_vec()
}

/// Reads the message that a server has answered with.
///
/// # Errors
/// If it is damaged, or says that the question cannot be answered.
pub fn read(message: &[u8]) -> Result<Answer, ReflectionError> {
    let response =
        Response::decode(message).map_err(|error| ReflectionError::Damaged(error.to_string()))?;
    match response.reply {
        Some(Reply::Files(files)) => Ok(Answer::Files(files.descriptors)),
        Some(Reply::Services(found)) => Ok(Answer::Services(
            found.services.into_iter().map(|it| it.name).collect(),
        )),
        Some(Reply::Error(failure)) => Err(ReflectionError::Refused(failure.message)),
        None => Err(ReflectionError::Damaged("it answers nothing".to_owned())),
    }
}

/// The answer of a server with these types to a question; `None` if it is none. For the built-in
/// server.
#[must_use]
pub fn answer(schema: &Schema, question: &[u8]) -> Option<Vec<u8>> {
    let asked = Request::decode(question).ok()?.question?;
    let pool = &schema.pool;
    let file = match &asked {
        Question::FileByName(name) => pool.get_file_by_name(name),
        Question::FileContaining(symbol) => {
            let of_service = pool.get_service_by_name(symbol).map(|it| it.parent_file());
            of_service.or_else(|| pool.get_message_by_name(symbol).map(|it| it.parent_file()))
        }
        Question::ListServices(_) => None,
    };
    let reply = match (file, asked) {
        (Some(file), _) => Reply::Files(Files {
            descriptors: vec![file.encode_to_vec()],
        }),
        (None, Question::ListServices(_)) => Reply::Services(Services {
            services: schema
                .services()
                .into_iter()
                .map(|name| Service { name })
                .collect(),
        }),
        (None, _) => Reply::Error(Failure {
            // NOT_FOUND
            code: 5,
            message: "not found".to_owned(),
        }),
    };
    let response = Response { reply: Some(reply) };
    Some(response.encode_to_vec())
}

impl Schema {
    /// The schema of the files that define these symbols, with all that they import. `ask` sends a
    /// question and returns the answer to it.
    ///
    /// # Errors
    /// Those of `ask`, or if the answers are no descriptors.
    pub fn by_reflection<E: From<ReflectionError>>(
        symbols: &[String],
        mut ask: impl FnMut(Vec<u8>) -> Result<Answer, E>,
    ) -> Result<Self, E> {
        let mut files: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
        let mut wanted: Vec<Vec<u8>> = symbols.iter().map(|symbol| containing(symbol)).collect();
        let (mut asked, mut bytes) = (BTreeSet::new(), 0);
        while let Some(question) = wanted.pop() {
            let Answer::Files(descriptors) = ask(question)? else {
                let problem = "it lists services where a file was asked for".to_owned();
                return Err(ReflectionError::Damaged(problem).into());
            };
            for descriptor in descriptors {
                bytes += descriptor.len();
                let file = FileDescriptorProto::decode(&descriptor[..])
                    .map_err(|error| ReflectionError::Damaged(error.to_string()))?;
                files.insert(file.name().to_owned(), file);
            }
            if files.len() > MAX_FILES || bytes > MAX_BYTES {
                return Err(ReflectionError::TooLarge.into());
            }
            for import in files.values().flat_map(|file| &file.dependency) {
                if !files.contains_key(import) && asked.insert(import.clone()) {
                    wanted.push(named(import));
                }
            }
        }
        let set = FileDescriptorSet {
            file: files.into_values().collect(),
        };
        let pool = DescriptorPool::from_file_descriptor_set(set)
            .map_err(|error| ReflectionError::Damaged(error.to_string().replace('\n', " ")))?;
        Ok(Self { pool })
    }
}
