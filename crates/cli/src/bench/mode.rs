//! The modes that can be compared, by name.

use claret::Mode;

/// What runs the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Collections behind one mutex, written by hand (`bench/mutex.rs`).
    Mutex,
    /// The store, in one of its modes.
    Store(Mode),
}

/// A mode as it is asked for; on the embedded store `claret` is `boost+phase`, in the model, where messages cost
/// something, `boost+phase+combine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchMode {
    /// Its name, as in `--modes`.
    pub name: &'static str,
    /// What it stands for.
    pub contender: Contender,
}

const MODES: [BenchMode; 8] = [
    BenchMode { name: "mutex", contender: Contender::Mutex },
    BenchMode { name: "none", contender: Contender::Store(Mode::None) },
    BenchMode { name: "rw", contender: Contender::Store(Mode::ReaderWriter) },
    BenchMode { name: "rw+phase", contender: Contender::Store(Mode::ReaderWriterPhase) },
    BenchMode { name: "boost", contender: Contender::Store(Mode::Boost) },
    BenchMode { name: "boost+phase", contender: Contender::Store(Mode::BoostPhase) },
    BenchMode { name: "boost+phase+combine", contender: Contender::Store(Mode::BoostPhaseCombine) },
    BenchMode { name: "claret", contender: Contender::Store(Mode::BoostPhase) },
];

impl BenchMode {
    /// Reads a name.
    ///
    /// # Errors
    /// Names the input and lists what there is.
    pub fn parse(name: &str) -> Result<Self, String> {
        MODES.into_iter().find(|mode| mode.name == name).ok_or_else(|| {
            let known: Vec<_> = MODES.iter().map(|mode| mode.name).collect();
            format!("there is no mode '{name}'; the modes are {}", known.join(", "))
        })
    }

    /// Reads a list of names, separated by commas; none may come twice.
    ///
    /// # Errors
    /// As [`BenchMode::parse`].
    pub fn parse_list(names: &str) -> Result<Vec<Self>, String> {
        Self::parse_all(names, BenchMode::parse)
    }

    /// The same for the performance model.
    ///
    /// # Errors
    /// As [`BenchMode::parse`]; `mutex` is not of the model.
    pub fn parse_model_list(names: &str) -> Result<Vec<Self>, String> {
        Self::parse_all(names, |name| match BenchMode::parse(name)? {
            BenchMode { contender: Contender::Mutex, .. } => {
                Err("the mode 'mutex' is of one process: --store sim has none; leave it out of --modes"
                    .into())
            }
            BenchMode { name: "claret", .. } => {
                Ok(BenchMode { name: "claret", contender: Contender::Store(Mode::BoostPhaseCombine) })
            }
            other => Ok(other),
        })
    }

    fn parse_all(names: &str, parse: impl Fn(&str) -> Result<Self, String>) -> Result<Vec<Self>, String> {
        let mut modes: Vec<BenchMode> = Vec::new();
        for name in names.split(',') {
            let mode = parse(name.trim())?;
            if let Some(same) = modes.iter().find(|known| known.contender == mode.contender) {
                return Err(format!("'{}' and '{}' are the same mode", same.name, mode.name));
            }
            modes.push(mode);
        }
        Ok(modes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alias_is_the_same_mode() {
        let error = BenchMode::parse_list("claret,boost+phase").expect_err("the same twice");
        assert!(error.contains("'claret' and 'boost+phase'"), "{error}");
        assert_eq!(BenchMode::parse_list("rw, none").expect("two modes").len(), 2);
    }
}
