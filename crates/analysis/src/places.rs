//! The places of a fleet as runs of their own, so that they can be shown and compared like runs.

use std::collections::BTreeSet;

use results::{PLACE_FACTOR, RunResult, Setting, metric};

use crate::read::failure_of;
use crate::{Observation, Origin};

/// The level of a run by the agents of several places together.
pub const ALL_PLACES: &str = "all places";

/// Replaces each run by a fleet at several places with the run of all places, followed by one for
/// each place. A run by a fleet at one place only gets its name. Other runs stay as they are, also
/// those whose place is already a setting, such as trials of a sweep with a factor of places.
#[must_use]
pub fn by_place(observations: Vec<Observation>) -> Vec<Observation> {
    observations.into_iter().flat_map(parts).collect()
}

/// The same for new runs and old ones, if all of them were made by fleets at the same places and
/// both sides have a cell in common. Otherwise the runs stay as they are: a place is a part of its
/// run, not another run.
#[must_use]
pub fn by_common_place(sides: [Vec<Observation>; 2]) -> [Vec<Observation>; 2] {
    let mut places = sides
        .iter()
        .flatten()
        .map(|run| names(run.result.as_deref()));
    let first = places.next().unwrap_or_default();
    let have_same_places = !first.is_empty() && places.all(|other| other == first);
    let [old, new] = sides.each_ref().map(|side| side.iter().map(cell));
    let old: BTreeSet<_> = old.collect();
    if have_same_places && new.into_iter().any(|cell| old.contains(&cell)) {
        sides.map(by_place)
    } else {
        sides
    }
}

/// Whether this is the whole of a run by a fleet, as opposed to one of its places.
pub(crate) fn is_of_all_places(run: &Observation) -> bool {
    let is_it = |setting: &Setting| setting.factor == PLACE_FACTOR && setting.level == ALL_PLACES;
    run.settings.iter().any(is_it)
}

/// The settings, profile and target that name a run, without its number.
fn cell(run: &Observation) -> (&[Setting], &Option<String>, &Option<String>) {
    (&run.settings, &run.profile, &run.target)
}

fn names(result: Option<&RunResult>) -> Vec<String> {
    let places = result.into_iter().flat_map(|result| &result.places);
    let mut names: Vec<String> = places.map(|place| place.place.clone()).collect();
    names.sort_unstable();
    names
}

fn parts(run: Observation) -> Vec<Observation> {
    let is_named = run
        .settings
        .iter()
        .any(|setting| setting.factor == PLACE_FACTOR);
    let places = run
        .result
        .as_deref()
        .map_or(&[][..], |result| &result.places);
    match places {
        _ if is_named => vec![run],
        [] => vec![run],
        [only] => {
            let place = only.place.clone();
            vec![at(place, run)]
        }
        several => {
            let parts: Vec<Observation> = several
                .iter()
                .map(|place| {
                    let part = part(&run, place.result.as_deref());
                    at(place.place.clone(), part)
                })
                .collect();
            let whole = at(ALL_PLACES.to_owned(), run);
            std::iter::once(whole).chain(parts).collect()
        }
    }
}

/// The run of one place, which has the name of the whole run.
fn part(run: &Observation, result: Option<&RunResult>) -> Observation {
    let whole = without_result(run);
    match result {
        None => Observation {
            values: std::collections::BTreeMap::new(),
            failure: Some("no agent delivered a result".to_owned()),
            ..whole
        },
        Some(result) => Observation {
            values: metric::values(result),
            failure: run.failure.clone().or_else(|| failure_of(result)),
            result: Some(Box::new(result.clone())),
            ..whole
        },
    }
}

/// A copy of the run without its result, which may be large.
pub(crate) fn without_result(run: &Observation) -> Observation {
    let Observation {
        source,
        form,
        cell,
        settings,
        profile,
        target,
        profile_without_load,
        noted_load,
        run,
        round,
        position,
        values: _,
        lower_bounds: _,
        without_own: _,
        result: _,
        requests: _,
        trial,
        failure: _,
        origins,
    } = run;
    Observation {
        source: source.clone(),
        form: *form,
        cell: *cell,
        settings: settings.clone(),
        profile: profile.clone(),
        target: target.clone(),
        profile_without_load: profile_without_load.clone(),
        noted_load: noted_load.clone(),
        run: *run,
        round: *round,
        position: *position,
        trial: trial.clone(),
        origins: origins.clone(),
        ..Observation::default()
    }
}

/// Places are the outermost headings of a summary, so the setting comes first.
fn at(place: String, mut run: Observation) -> Observation {
    let setting = Setting {
        factor: PLACE_FACTOR.to_owned(),
        level: place,
    };
    let origin = Origin::new(PLACE_FACTOR, &setting.level, "the places in the document");
    run.origins.insert(0, origin);
    run.settings.insert(0, setting);
    run
}
