//! What a search finds or sets itself, so that no load of its experiment may set it.

use results::SearchOver;

use super::problems::Problems;
use super::{SearchSpec, Spec};
use crate::factor::FactorKind;

/// Options of a load that set a rate.
const RATES: [&str; 4] = ["rate", "stages", "replay", "arrivals"];

/// Why a search has no use for an option of its load.
fn why_not(search: &SearchSpec, option: &str) -> Option<&'static str> {
    match search.over {
        SearchOver::Connections if RATES.contains(&option) => {
            Some("whose requests follow their responses, at no rate")
        }
        SearchOver::Connections if option == "connection-stages" => {
            Some("which sets the connections of each run")
        }
        SearchOver::Rate if RATES[..3].contains(&option) => Some("which sets the rate of each run"),
        _ => None,
    }
}

/// Refuses options that the search would overrule, in all loads and as factors.
pub(super) fn refuse_overruled(spec: &Spec, problems: &mut Problems) {
    let Some(search) = &spec.search else {
        return;
    };
    let over = search.over.name();
    let profiles = spec.profiles.iter().map(|profile| &profile.load);
    let targets = spec.targets.iter().map(|target| &target.load);
    let loads = std::iter::once(&spec.load).chain(profiles).chain(targets);
    for option in loads.flat_map(|load| load.iter()) {
        if let Some(why) = why_not(search, &option.name) {
            let name = &option.name;
            let text = format!("{name} does not go with a search over {over}, {why}: remove it");
            problems.add(option.line, text);
        }
    }
    for factor in &spec.factors {
        let FactorKind::Option { option } = &factor.kind else {
            continue;
        };
        let is_found = option == "connections" && search.over == SearchOver::Connections;
        let why = if is_found {
            Some("which finds their number")
        } else {
            why_not(search, option)
        };
        if let Some(why) = why {
            let text = format!(
                "the factor {option} does not go with a search over {over}, {why}: remove it"
            );
            problems.add(factor.line, text);
        }
    }
}
