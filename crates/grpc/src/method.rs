//! A method, and its messages as JSON.

use prost::Message as _;
use prost_reflect::{
    DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    SerializeOptions,
};
use serde_json::{Map, Value};

/// A method of a service.
#[derive(Debug, Clone)]
pub struct Method {
    method: MethodDescriptor,
}

/// Why JSON is not a message; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The text is not JSON.
    #[error("is not JSON: {0}")]
    Json(String),
    /// A field or a value does not fit the type of the message.
    #[error("{at}: {problem}")]
    Field {
        /// The field from the outside to the inside, `user.address[2].zip`; the type for the
        /// message itself.
        at: String,
        /// What is wrong, with what was expected.
        problem: String,
    },
    /// Bytes are not a message of the type.
    #[error("is not a message of the type {name}: {problem}")]
    Bytes {
        /// The name of the type.
        name: String,
        /// What is wrong with them.
        problem: String,
    },
}

/// The deepest message whose fields are examined for a mistake.
const DEPTH_MAX: usize = 100;

impl Method {
    pub(crate) fn new(method: MethodDescriptor) -> Self {
        Self { method }
    }

    /// The path of its calls: `/package.Service/Method`.
    #[must_use]
    pub fn path(&self) -> String {
        let service = self.method.parent_service();
        format!("/{}/{}", service.full_name(), self.method.name())
    }

    pub(crate) fn request(&self) -> MessageDescriptor {
        self.method.input()
    }

    /// Whether a call has several messages from the client.
    #[must_use]
    pub fn is_client_streaming(&self) -> bool {
        self.method.is_client_streaming()
    }

    /// Whether a call has several messages from the server.
    #[must_use]
    pub fn is_server_streaming(&self) -> bool {
        self.method.is_server_streaming()
    }

    /// The bytes of a request message from protobuf's JSON form
    /// (<https://protobuf.dev/programming-guides/json/>).
    ///
    /// # Errors
    /// If it is not JSON, or does not fit the type: the field, and what was expected.
    pub fn encode(&self, json: &str) -> Result<Vec<u8>, MessageError> {
        let value: Value =
            serde_json::from_str(json).map_err(|error| MessageError::Json(error.to_string()))?;
        let message = self.request();
        let options = DeserializeOptions::new();
        let made = DynamicMessage::deserialize_with_options(message.clone(), &value, &options);
        match made {
            Ok(made) => Ok(made.encode_to_vec()),
            Err(error) => Err(fault(&message, &value, &error.to_string())),
        }
    }

    /// A response message as protobuf's JSON form.
    ///
    /// # Errors
    /// If the bytes are not a message of the type.
    pub fn decode(&self, bytes: &[u8]) -> Result<Value, MessageError> {
        let message = self.method.output();
        let bad = |problem: String| MessageError::Bytes {
            name: message.full_name().to_owned(),
            problem,
        };
        let decoded = DynamicMessage::decode(message.clone(), bytes)
            .map_err(|error| bad(error.to_string()))?;
        let options = SerializeOptions::new().skip_default_fields(true);
        let value = decoded.serialize_with_options(serde_json::value::Serializer, &options);
        value.map_err(|error| bad(error.to_string()))
    }
}

/// Finds the innermost field whose value cannot be read alone, since the library's message does not
/// name it.
pub(crate) fn fault(message: &MessageDescriptor, value: &Value, problem: &str) -> MessageError {
    let (mut at, mut message, mut value) = (String::new(), message.clone(), value);
    let mut problem = problem.to_owned();
    for _ in 0..DEPTH_MAX {
        let Value::Object(fields) = value else {
            break;
        };
        let bad = match first_bad_field(&message, fields) {
            Ok(Some(bad)) => bad,
            Ok(None) => break,
            Err(unknown) => {
                problem = unknown;
                break;
            }
        };
        let field = bad.field;
        at = if at.is_empty() {
            bad.name.to_owned()
        } else {
            format!("{at}.{}", bad.name)
        };
        problem = format!("{} (expected {})", bad.error, type_of(&field));
        let Kind::Message(next) = field.kind() else {
            break;
        };
        if field.is_map() {
            break;
        }
        value = match (field.is_list(), bad.value) {
            (true, Value::Array(list)) => {
                let is_bad =
                    |value: &&Value| DynamicMessage::deserialize(next.clone(), *value).is_err();
                let Some(number) = list.iter().position(|value| is_bad(&value)) else {
                    break;
                };
                at = format!("{at}[{number}]");
                &list[number]
            }
            _ => bad.value,
        };
        message = next;
    }
    MessageError::Field {
        at: if at.is_empty() {
            message.full_name().to_owned()
        } else {
            at
        },
        problem,
    }
}

/// A field of a message whose value cannot be read alone.
struct BadField<'v> {
    field: FieldDescriptor,
    name: &'v str,
    value: &'v Value,
    error: String,
}

/// The first bad field; the error says which field the message does not have at all.
fn first_bad_field<'v>(
    message: &MessageDescriptor,
    fields: &'v Map<String, Value>,
) -> Result<Option<BadField<'v>>, String> {
    for (name, value) in fields {
        let known = message
            .get_field_by_json_name(name)
            .or_else(|| message.get_field_by_name(name));
        let field = known.ok_or_else(|| unknown_field(message, name))?;
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        if let Err(error) = DynamicMessage::deserialize(message.clone(), &alone) {
            return Ok(Some(BadField {
                field,
                name,
                value,
                error: error.to_string(),
            }));
        }
    }
    Ok(None)
}

fn unknown_field(message: &MessageDescriptor, name: &str) -> String {
    let names: Vec<String> = message
        .fields()
        .map(|it| it.json_name().to_owned())
        .collect();
    format!(
        "{} has no field {name:?} (it has {})",
        message.full_name(),
        crate::schema::listed(&names)
    )
}

/// The type of a field as a `.proto` file has it.
pub(crate) fn type_of(field: &FieldDescriptor) -> String {
    if field.is_map()
        && let Kind::Message(entry) = field.kind()
    {
        let [key, value] = [entry.map_entry_key_field(), entry.map_entry_value_field()];
        return format!("map<{}, {}>", name_of(&key.kind()), name_of(&value.kind()));
    }
    let name = name_of(&field.kind());
    if field.is_list() {
        format!("repeated {name}")
    } else {
        name
    }
}

fn name_of(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(choices) => choices.full_name().to_owned(),
        // Its Debug form is the name of protobuf.
        other => format!("{other:?}").to_lowercase(),
    }
}
