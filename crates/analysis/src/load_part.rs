//! The load of a run in parts: from the plan of a saved result, or from what a text says.

use plan::{OptionName, OptionValue, PlanOption};

/// One part of a load. Parts with the same label and value make the same load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPart {
    /// What the part is: `timeout`.
    pub label: &'static str,
    /// The complete value, by which parts are compared.
    pub value: OptionValue,
    /// The value in words: `2 s`.
    pub text: String,
    /// The command-line option that sets it, `-T2s`; empty if the default applies.
    pub option: String,
    /// Whether the part says where the requests go.
    pub is_part_of_url: bool,
}

impl LoadPart {
    /// An option of a plan, as a text mentions it.
    #[must_use]
    pub fn of_option(name: OptionName, value: OptionValue) -> Self {
        match PlanOption::new(name, value.clone()) {
            Some(option) => option.into(),
            None => Self::other(name.label(), &name.text_of(&value), ""),
        }
    }

    /// Something that no plan has, such as the tool that made the run; an empty text is `none` in
    /// words. `option` distinguishes the names of loads; it may be empty.
    #[must_use]
    pub fn other(label: &'static str, text: &str, option: &str) -> Self {
        Self {
            label,
            value: OptionValue::Text(text.to_owned()),
            text: Some(text)
                .filter(|text| !text.is_empty())
                .unwrap_or("none")
                .to_owned(),
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
            is_part_of_url: option.is_part_of_url(),
            value: option.value,
        }
    }
}
