//! What levels change.

use std::io;

use super::*;
use crate::spec::Spec;

fn spec(more: &str) -> Spec {
    let text = format!("name = 'n'\n[[target]]\nname = 't'\nurl = 'http://h/'\n{more}");
    Spec::parse(&text, Path::new("/plans/p.toml")).unwrap_or_else(|error| panic!("{error}"))
}

fn no_file(_: &Path) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::NotFound.into())
}

#[test]
fn a_command_gets_its_level_and_its_inverse() {
    let spec = spec(
        "[[factor]]\nname = 'gro-1'\napply = 'a $LEVEL'\nrestore = 'b'\ntimeout = 5\n\
         levels = ['on', { name = 'off', rx = 0 }]\n",
    );
    let factor = &spec.factors[0];
    assert!(factor.needs_restart());
    let environment = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect::<BTreeMap<_, _>>()
    };
    for (level, expected) in [
        (
            "on",
            environment(&[("LEVEL", "on"), ("WRKBENCH_GRO_1", "on")]),
        ),
        (
            "off",
            environment(&[
                ("LEVEL", "off"),
                ("WRKBENCH_GRO_1", "off"),
                ("WRKBENCH_GRO_1_RX", "0"),
            ]),
        ),
    ] {
        assert_eq!(
            factor.changes(level, no_file),
            Ok(vec![Change::Command {
                name: "gro-1".to_owned(),
                apply: "a $LEVEL".to_owned(),
                restore: "b".to_owned(),
                environment: expected,
                limit: Duration::from_secs(5),
            }])
        );
    }
}

#[test]
fn a_file_is_made_from_its_template_and_the_level() {
    let spec = spec(
        "[[factor]]\nfile = 'out.conf'\ntemplate = 'in.tmpl'\n\
         levels = [4, { name = 'x', workers = 2 }]\n",
    );
    let factor = &spec.factors[0];
    let content = |level: &str, template: &'static str| {
        factor.changes(level, |path| {
            assert_eq!(path, Path::new("/plans/in.tmpl"));
            Ok(template.as_bytes().to_vec())
        })
    };
    let file = |content: &str| Change::File {
        path: PathBuf::from("/plans/out.conf"),
        content: content.as_bytes().to_vec(),
    };
    assert_eq!(content("4", "w {{level}};\n"), Ok(vec![file("w 4;\n")]));
    assert_eq!(
        content("x", "w {{workers}} {{level}}"),
        Ok(vec![file("w 2 x")])
    );
    let text = |changes: Result<Vec<Change>, FactorError>| {
        changes.expect_err("nothing can come of it").to_string()
    };
    assert_eq!(
        text(content("4", "w {{workers}}")),
        "/plans/in.tmpl: line 1: {{workers}} is not a value of the level (known: level)"
    );
    assert_eq!(
        text(factor.changes("4", no_file)),
        "/plans/in.tmpl: cannot read the template (entity not found)"
    );
    assert_eq!(
        text(factor.changes("5", no_file)),
        "out.conf: there is no level \"5\""
    );
}

#[test]
fn an_option_changes_nothing_on_the_machine() {
    let spec = spec("[[factor]]\nconnections = [64]\n");
    assert_eq!(spec.factors[0].changes("64", no_file), Ok(Vec::new()));
    assert!(!spec.factors[0].needs_restart());
}

#[test]
fn a_factor_overrides_the_target_the_target_the_profile_and_the_profile_the_load() {
    let spec = spec(
        "timeout = '3s'\n[load]\npipeline = 1\ntimeout = 1\nthreads = 1\nrate = 1\n\
         [[profile]]\nname = 'p'\ntimeout = '2s'\nthreads = 2\n[[factor]]\nrate = [4]\n",
    );
    let cell = &crate::design::cells(&spec)[0];
    let arguments = spec.arguments_of(cell).expect("a cell of this plan");
    assert_eq!(
        arguments,
        [
            "--pipeline=1",
            "--timeout=3s",
            "--threads=2",
            "--rate=4",
            "http://h/"
        ]
    );
}
