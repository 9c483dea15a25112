//! The places of agents: `[[place]]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::problems::Problems;
use super::section::Section;
use super::suggestions::{shown, unknown};
use super::value::{Name, Url, Value};
use super::{PlaceSpec, TargetSpec};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlaceKeys {
    name: Option<Name>,
    url: Option<Spanned<Value>>,
}

pub(super) fn read_places(
    sections: Vec<Section<'_>>,
    targets: &[TargetSpec],
    problems: &mut Problems,
) -> Vec<PlaceSpec> {
    let mut places: Vec<PlaceSpec> = Vec::new();
    for section in sections {
        let line = section.line;
        if !section.has("name") {
            problems.add(line, "[[place]] has no name = \"...\"");
        }
        let keys: PlaceKeys = section.read_all(problems);
        let urls = keys.url.map(|url| read_urls(&url, targets, problems));
        let Some(Name(name)) = keys.name else {
            continue;
        };
        if places.iter().any(|known| known.name == name) {
            let name = shown(&name);
            problems.add(line, format!("two places are called {name}"));
            continue;
        }
        places.push(PlaceSpec {
            name,
            urls: urls.unwrap_or_default(),
            line,
        });
    }
    places
}

/// The URLs of a place by target: a URL if there is one target, or a table with URLs by name.
fn read_urls(
    value: &Spanned<Value>,
    targets: &[TargetSpec],
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let mut urls = BTreeMap::new();
    let line = problems.line(value.span().start);
    let Some(entries) = value.get_ref().as_table() else {
        let url = Url::try_from(value.get_ref().clone());
        match (problems.keep(line, "url", url), targets) {
            (Some(Url(url)), [only]) => {
                urls.insert(only.name.clone(), url);
            }
            (Some(_), [first, ..]) => {
                let name = shown(&first.name);
                let text = format!(
                    "url: there are several targets: write url = {{ {name} = \"http://...\", ... }}"
                );
                problems.add(line, text);
            }
            (None, _) | (_, []) => {}
        }
        return urls;
    };
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    for (target, url) in entries {
        let line = problems.line(target.span().start);
        let target = target.get_ref();
        if !names.contains(&target.as_str()) {
            problems.add(line, unknown(target, "url", &names));
            continue;
        }
        let url = Url::try_from(url.get_ref().clone());
        if let Some(Url(url)) = problems.keep(line, &format!("url.{target}"), url) {
            urls.insert(target.clone(), url);
        }
    }
    urls
}
