//! One setting of a configuration: a number, a flag or a list, as text and back.

/// A place in a configuration.
pub(crate) enum Setting<'a> {
    Small(&'a mut u32),
    Number(&'a mut u64),
    Size(&'a mut usize),
    Flag(&'a mut bool),
    List(&'a mut Vec<u64>),
}

impl Setting<'_> {
    pub(crate) fn show(&self) -> String {
        match self {
            Setting::Small(value) => value.to_string(),
            Setting::Number(value) => value.to_string(),
            Setting::Size(value) => value.to_string(),
            Setting::Flag(value) => value.to_string(),
            Setting::List(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join("+"),
        }
    }

    /// Whether the text was one of its values.
    pub(crate) fn read(&mut self, text: &str) -> bool {
        match self {
            Setting::Small(value) => text.parse().map(|read| **value = read).is_ok(),
            Setting::Number(value) => text.parse().map(|read| **value = read).is_ok(),
            Setting::Size(value) => text.parse().map(|read| **value = read).is_ok(),
            Setting::Flag(value) => text.parse().map(|read| **value = read).is_ok(),
            Setting::List(values) => {
                let numbers = text.split('+').filter(|part| !part.is_empty()).map(str::parse);
                numbers.collect::<Result<Vec<u64>, _>>().map(|read| **values = read).is_ok()
            }
        }
    }
}
