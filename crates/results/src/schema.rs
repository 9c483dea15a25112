//! The JSON Schema of the saved documents, generated from their types.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::file::ResultDocument;
use crate::histogram::WrittenHistogram;
use crate::intervals::WrittenInterval;
use crate::{
    Distribution, EXPERIMENT_SCHEMA_VERSION, ErrorCount, ErrorKind, Errors, Experiment, Histogram,
    Interval, Recording, SCHEMA_VERSION, Samples, Statuses, Summary, Trial,
};

/// The schema of a result, draft 2020-12. `$defs` also has `Trial` and `Experiment`, the documents
/// of a sweep. It is closed: a field that it does not name is an error.
#[must_use]
pub fn schema() -> Value {
    let mut generator = generator();
    generator.subschema_for::<Trial>();
    generator.subschema_for::<Experiment>();
    let mut root = described::<ResultDocument<'static>>(
        generator,
        "wrkbench result",
        "One run, as written by wrkbench --json. Names carry units. docs/result-format.md explains \
         the fields.",
    );
    root["properties"]["schema_version"]["const"] = json!(SCHEMA_VERSION);
    let defs = &mut root["$defs"];
    for (name, version) in [
        ("RunResult", SCHEMA_VERSION),
        ("ResultDocument", SCHEMA_VERSION),
        ("Trial", EXPERIMENT_SCHEMA_VERSION),
        ("Experiment", EXPERIMENT_SCHEMA_VERSION),
    ] {
        defs[name]["properties"]["schema_version"]["const"] = json!(version);
    }
    let in_figures = &mut defs["Distribution"];
    in_figures["additionalProperties"] = json!(false);
    in_figures["patternProperties"] =
        json!({ "^(mean|max|p[0-9]+(_[0-9]+)?)_ms$": { "type": "number" } });
    let samples = samples();
    for (name, example) in [
        ("Histogram", json!(samples.service_time)),
        ("Interval", json!(samples.intervals.rows()[0])),
        ("Distribution", distribution(&samples)),
    ] {
        all_or_none(&mut defs[name], &example);
    }
    root
}

/// The schema of another document that has parts of a result, draft 2020-12. It is closed, like
/// [`schema`].
#[must_use]
pub fn of<T: JsonSchema>(title: &str, description: &str) -> Value {
    described::<T>(generator(), title, description)
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
}

fn described<T: JsonSchema>(generator: SchemaGenerator, title: &str, description: &str) -> Value {
    let mut root = Value::from(generator.into_root_schema_for::<T>());
    inline_extended(&mut root);
    simplify(&mut root);
    close(&mut root, false);
    root["title"] = json!(title);
    root["description"] = json!(description);
    root
}

/// A recording with one sample in each histogram.
fn samples() -> Recording {
    let mut recording = Recording::new();
    recording.service_time.record(1);
    recording.intervals.add(0, &recording.service_time);
    recording
}

fn distribution(samples: &Recording) -> Value {
    let none = Histogram::new();
    let samples = Samples::new(&samples.service_time, &none);
    json!(Distribution::of(&samples, &Summary::PERCENTILES))
}

/// Requires that the fields omitted without samples are all present or all absent.
fn all_or_none(schema: &mut Value, example: &Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<&String> = example
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .filter(|name| !required.contains(&json!(name)))
        .collect();
    // Whether a map is sorted depends on which crates are compiled.
    names.sort_unstable();
    let [first, second, ..] = names.as_slice() else {
        unreachable!("each has several values");
    };
    schema["dependentRequired"] = json!({
        first.as_str(): names,
        second.as_str(): [first],
    });
}

/// Inlines definitions that are extended with further fields where they are used: a closed
/// definition would refuse those fields.
fn inline_extended(root: &mut Value) {
    let defs = root["$defs"].clone();
    for_each(root, &mut |schema| {
        if !schema.contains_key("properties") {
            return;
        }
        let Some(Value::String(reference)) = schema.remove("$ref") else {
            return;
        };
        let name = reference.trim_start_matches("#/$defs/");
        for part in ["properties", "required"] {
            match (schema.get_mut(part), &defs[name][part]) {
                (Some(Value::Object(own)), Value::Object(base)) => own.extend(base.clone()),
                (Some(Value::Array(own)), Value::Array(base)) => own.extend(base.clone()),
                _ => {}
            }
        }
    });
    let text = root.to_string();
    if let Some(defs) = root["$defs"].as_object_mut() {
        defs.retain(|name, _| {
            ["Trial", "Experiment"].contains(&name.as_str())
                || text.contains(&format!("\"#/$defs/{name}\""))
        });
    }
}

/// Removes null, which is never written, formats, which only repeat the type, and rustdoc links.
fn simplify(root: &mut Value) {
    for_each(root, &mut |schema| {
        // A field of this name has an object here.
        if schema.get("format").is_some_and(Value::is_string) {
            schema.remove("format");
        }
        schema.remove("default");
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|name| name != "null");
            if let [name] = types.as_slice() {
                schema["type"] = name.clone();
            }
        }
        if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
            alternatives.retain(|one| one["type"] != "null");
            if let [Value::Object(only)] = alternatives.as_slice() {
                let only = only.clone();
                schema.remove("anyOf");
                schema.extend(only);
            }
        }
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text
                .replace(['[', ']'], "")
                .replace('\n', " ")
                .replace("crate::", "")
                .replace("`None`", "absent");
        }
    });
}

/// Refuses unknown fields in every object. A part of a larger schema is closed by the whole.
fn close(schema: &mut Value, is_part: bool) {
    let Value::Object(fields) = schema else {
        return;
    };
    let has_fields = fields.contains_key("properties");
    let has_parts = has_fields
        && ["oneOf", "anyOf", "allOf"]
            .iter()
            .any(|it| fields.contains_key(*it));
    if has_parts {
        fields.insert("unevaluatedProperties".to_owned(), json!(false));
    } else if has_fields && !is_part && !fields.contains_key("additionalProperties") {
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("oneOf" | "anyOf" | "allOf", Value::Array(parts)) => {
                parts.iter_mut().for_each(|part| close(part, has_parts));
            }
            ("properties" | "$defs", Value::Object(all)) => {
                all.values_mut().for_each(|one| close(one, false));
            }
            ("items", items) => close(items, false),
            _ => {}
        }
    }
}

/// Calls a function for every object of a schema, from the inside out.
fn for_each(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            fields
                .values_mut()
                .for_each(|value| for_each(value, change));
            change(fields);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each(item, change)),
        _ => {}
    }
}

/// Gives a type the schema of the type that it is serialized as.
macro_rules! written_as {
    ($type:ty, $written:ty) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                <$written>::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$written>::json_schema(generator)
            }
        }
    };
}

written_as!(Histogram, WrittenHistogram);
written_as!(Interval, WrittenInterval);

impl JsonSchema for Statuses {
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Responses by status code.",
            "type": "object",
            "propertyNames": { "pattern": "^[0-9]{1,3}$" },
            "additionalProperties": { "type": "integer", "minimum": 0 },
        })
    }
}

impl JsonSchema for Errors {
    fn schema_name() -> Cow<'static, str> {
        "Errors".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        json_schema!({
            "description": "Errors by kind; kinds that did not happen are absent.",
            "type": "object",
            "propertyNames": { "enum": kinds },
            "additionalProperties": generator.subschema_for::<ErrorCount>(),
        })
    }
}
