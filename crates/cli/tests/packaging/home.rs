//! The public home of the project, which `Cargo.toml` names.

use super::file;

/// Files that name the home, and how often.
const FILES: [(&str, usize); 3] = [
    ("packaging/install.sh", 1),
    ("packaging/homebrew/wrkbench.rb", 1),
    ("README.md", 1),
];

#[test]
fn every_file_names_the_same_public_home_as_cargo_toml() {
    let manifest = file("Cargo.toml");
    let home = manifest
        .lines()
        .find_map(|line| line.strip_prefix("repository = \"https://github.com/"))
        .and_then(|line| line.strip_suffix('"'))
        .expect("Cargo.toml names a repository");
    for (path, at_least) in FILES {
        let found = file(path).matches(home).count();
        assert!(
            found >= at_least,
            "{path} names {home} {found} times: compare it with `repository` in Cargo.toml"
        );
    }
}
