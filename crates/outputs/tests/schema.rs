//! The published schema of streams is the one generated from the types of their lines.

use std::path::Path;

#[test]
fn the_published_schema_is_the_one_of_the_lines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stream.schema.json");
    testkit::check_published(&path, &outputs::schema());
}
