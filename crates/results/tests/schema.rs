//! The published schema is the one generated from the types.

use std::path::Path;

#[test]
fn the_published_schema_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/result.schema.json");
    testkit::check_published(&path, &results::schema::schema());
}
