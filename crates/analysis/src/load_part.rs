//! What is known of the load of a run, part by part: of a saved result its plan, of a text what it
//! says.

use plan::{OptionName, OptionValue, PlanOption};

/// One part of a load. Parts with the same label and the same value make the same load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPart {
    /// What it is: `timeout`.
    pub label: &'static str,
    /// The whole value.
    pub value: OptionValue,
    /// The value in words: `2 s`.
    pub text: String,
    /// How a command line sets it, `-T2s`; empty where the default applies.
    pub option: String,
    /// It says where the requests go.
    pub is_part_of_url: bool,
}

impl LoadPart {
    /// An option of a plan, as a text mentions it.
    #[must_use]
    pub fn of_option(name: OptionName, value: OptionValue) -> Self {
        PlanOption { name, value }.into()
    }

    /// Something that no plan has, such as the tool that made the run. `option` distinguishes names
    /// of loads; it may be empty.
    #[must_use]
    pub fn other(label: &'static str, text: &str, option: &str) -> Self {
        Self {
            label,
            value: OptionValue::Text(text.to_owned()),
            text: text.to_owned(),
            option: option.to_owned(),
            is_part_of_url: false,
        }
    }
}

impl From<PlanOption> for LoadPart {
    fn from(option: PlanOption) -> Self {
        Self {
            label: option.name.label(),
            text: option.text(),
            option: option.in_command(),
            is_part_of_url: option.name.is_part_of_url(),
            value: option.value,
        }
    }
}
