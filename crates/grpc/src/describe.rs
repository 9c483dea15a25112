//! Services, methods and types as a `.proto` file has them.

use std::fmt::Write as _;

use prost_reflect::{EnumDescriptor, MessageDescriptor, MethodDescriptor, ServiceDescriptor};

use crate::method::type_of;
use crate::schema::{Schema, SchemaError, listed, method_of};

impl Schema {
    /// The definition of a service, a method, a message or an enumeration by its full name.
    ///
    /// # Errors
    /// If there is nothing of this name: which services there are.
    pub fn describe(&self, name: &str) -> Result<String, SchemaError> {
        let given = name.trim_start_matches(['/', '.']);
        let pool = &self.pool;
        if let Some(service) = pool.get_service_by_name(given) {
            return Ok(of_service(&service));
        }
        if let Some(message) = pool.get_message_by_name(given) {
            return Ok(of_message(&message, 0));
        }
        if let Some(choices) = pool.get_enum_by_name(given) {
            return Ok(of_enum(&choices, 0));
        }
        let parts = given.rsplit_once('/').or_else(|| given.rsplit_once('.'));
        let method = parts
            .and_then(|(service, method)| method_of(&pool.get_service_by_name(service)?, method));
        if let Some(method) = method {
            // With the types of its messages, which are what one needs to make a call.
            let mut text = of_method(&method) + "\n";
            for message in [method.input(), method.output()] {
                let _ = write!(text, "\n{}", of_message(&message, 0));
            }
            return Ok(text);
        }
        Err(SchemaError::NoSymbol {
            name: given.to_owned(),
            known: format!("services: {}", listed(&self.services())),
        })
    }
}

fn of_service(service: &ServiceDescriptor) -> String {
    let mut text = format!("service {} {{\n", service.full_name());
    for method in service.methods() {
        let _ = writeln!(text, "  {}", of_method(&method));
    }
    text + "}\n"
}

fn of_method(method: &MethodDescriptor) -> String {
    let side = |is_stream: bool, message: MessageDescriptor| {
        if is_stream {
            format!("stream {}", message.full_name())
        } else {
            message.full_name().to_owned()
        }
    };
    format!(
        "rpc {}({}) returns ({});",
        method.name(),
        side(method.is_client_streaming(), method.input()),
        side(method.is_server_streaming(), method.output())
    )
}

fn of_message(message: &MessageDescriptor, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let name = if depth == 0 {
        message.full_name()
    } else {
        message.name()
    };
    let mut text = format!("{indent}message {name} {{\n");
    for field in message.fields() {
        let choice = field.containing_oneof().filter(|it| !it.is_synthetic());
        let note = choice.map_or_else(String::new, |it| format!(" // one of {}", it.name()));
        let optional =
            if field.supports_presence() && field.field_descriptor_proto().proto3_optional() {
                "optional "
            } else {
                ""
            };
        let _ = writeln!(
            text,
            "{indent}  {optional}{} {} = {};{note}",
            type_of(&field),
            field.name(),
            field.number()
        );
    }
    for inner in message.child_messages().filter(|it| !it.is_map_entry()) {
        text += &of_message(&inner, depth + 1);
    }
    for inner in message.child_enums() {
        text += &of_enum(&inner, depth + 1);
    }
    text + &indent + "}\n"
}

fn of_enum(choices: &EnumDescriptor, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let name = if depth == 0 {
        choices.full_name()
    } else {
        choices.name()
    };
    let mut text = format!("{indent}enum {name} {{\n");
    for value in choices.values() {
        let _ = writeln!(text, "{indent}  {} = {};", value.name(), value.number());
    }
    text + &indent + "}\n"
}
