//! The sections of optional measurements, from what these say of themselves.

use presentation::{Block, Section, tables};
use results::parts::{self, PartSection, PartTable, SectionPosition};

use crate::page::runs::Runs;

/// The sections at this position of the parts that runs have measured.
pub(super) fn sections(position: SectionPosition, runs: &Runs<'_>) -> Vec<Section> {
    let all = parts::ALL.iter().filter_map(|part| part.section.as_ref());
    let here = all.filter(|section| section.position == position);
    here.filter_map(|section| section_of(section, runs))
        .collect()
}

fn section_of(section: &PartSection, runs: &Runs<'_>) -> Option<Section> {
    let mut blocks = findings(section, runs);
    blocks.extend(section.tables.iter().filter_map(|table| match table {
        PartTable::OfGroups(table) => runs.of_groups(table),
        PartTable::OfRuns(table) => runs.of_runs(table),
        PartTable::OfSingleRun(table) => runs.single().and_then(|_| runs.of_runs(table)),
    }));
    blocks.extend(runs.single_result().into_iter().flat_map(section.details));
    (!blocks.is_empty()).then(|| Section::new(section.id, section.title, section.lead, blocks))
}

/// What is said of each group of runs.
fn findings(section: &PartSection, runs: &Runs<'_>) -> Vec<Block> {
    let groups = runs.recordings().filter_map(|(group, recording)| {
        let finding = (section.findings)(recording, runs.single_result())?;
        let text = match group.full_name.as_str() {
            "" => finding.text,
            name => format!("{name}: {}", finding.text),
        };
        Some(tables::finding(finding.tone, text, finding.details))
    });
    groups.collect()
}
