//! All bugs that can be planted: in the protocol, and in what it is told.

use claret_core::Bug as CoreBug;

use crate::{Plant, Tampering};

/// A bug that the checks must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// In the protocol.
    Core(CoreBug),
    /// In messages, or in what a host tells.
    Tampering(Tampering),
}

impl Bug {
    /// All of them.
    pub fn all() -> Vec<Bug> {
        let tamperings = Tampering::ALL.iter().copied().map(Bug::Tampering);
        CoreBug::ALL.iter().copied().map(Bug::Core).chain(tamperings).collect()
    }

    /// Its name, in words with hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Bug::Core(bug) => bug.name(),
            Bug::Tampering(tampering) => tampering.name(),
        }
    }

    /// The rule that it takes out.
    pub fn rule(self) -> &'static str {
        match self {
            Bug::Core(bug) => bug.rule(),
            Bug::Tampering(tampering) => tampering.rule(),
        }
    }

    /// The bug of that name.
    pub fn parse(name: &str) -> Option<Bug> {
        Bug::all().into_iter().find(|bug| bug.name() == name)
    }

    /// To run with it.
    pub fn plant(self) -> Plant {
        match self {
            Bug::Core(bug) => Plant::Bug(bug),
            Bug::Tampering(tampering) => Plant::Tampering(tampering),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Bug;

    #[test]
    fn names_are_kebab_case_of_the_variants_and_parse_back() {
        for bug in Bug::all() {
            let variant = match bug {
                Bug::Core(bug) => format!("{bug:?}"),
                Bug::Tampering(tampering) => format!("{tampering:?}"),
            };
            let kebab: String = variant
                .char_indices()
                .flat_map(|(at, envelope)| {
                    let hyphen = (at > 0 && envelope.is_uppercase()).then_some('-');
                    hyphen.into_iter().chain(envelope.to_lowercase())
                })
                .collect();
            assert_eq!(bug.name(), kebab);
            assert_eq!(Bug::parse(bug.name()), Some(bug));
        }
        let names: BTreeSet<&str> = Bug::all().iter().map(|bug| bug.name()).collect();
        assert_eq!(names.len(), Bug::all().len(), "two bugs have one name");
        assert_eq!(Bug::parse("none"), None);
    }
}
