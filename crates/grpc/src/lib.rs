//! Messages of gRPC as JSON: which methods and types a server has, from `.proto` files, a set of
//! descriptors or the server itself, and messages from JSON to bytes and back.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod describe;
mod method;
mod proto_files;
mod reflection;
mod schema;
mod template;

pub use method::{MessageError, Method};
pub use reflection::{
    Answer, MAX_FILES, ReflectionError, SERVICES, answer, containing, list, named, read,
};
pub use schema::{Schema, SchemaError, Sources};
pub use template::{JsonPiece, MessagePiece, Number, put_varint};
