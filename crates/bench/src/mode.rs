//! The modes that can be compared, by name.

use claret::Mode;

use super::rival::RivalKind;

/// What runs the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Collections behind one mutex, written by hand (`bench/mutex.rs`).
    Mutex,
    /// The store, in one of its modes.
    Store(Mode),
    /// What is done with plain Redis commands (`bench/rival`).
    Rival(RivalKind),
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

const MODES: [BenchMode; 12] = [
    BenchMode { name: "mutex", contender: Contender::Mutex },
    BenchMode { name: "none", contender: Contender::Store(Mode::None) },
    BenchMode { name: "rw", contender: Contender::Store(Mode::ReaderWriter) },
    BenchMode { name: "rw+phase", contender: Contender::Store(Mode::ReaderWriterPhase) },
    BenchMode { name: "boost", contender: Contender::Store(Mode::Boost) },
    BenchMode { name: "boost+phase", contender: Contender::Store(Mode::BoostPhase) },
    BenchMode { name: "boost+phase+combine", contender: Contender::Store(Mode::BoostPhaseCombine) },
    BenchMode { name: "claret", contender: Contender::Store(Mode::BoostPhase) },
    BenchMode { name: "redis-lock", contender: Contender::Rival(RivalKind::Lock) },
    BenchMode { name: "redis-watch", contender: Contender::Rival(RivalKind::Watch) },
    BenchMode { name: "redis-multi", contender: Contender::Rival(RivalKind::Multi) },
    BenchMode { name: "redis-lua", contender: Contender::Rival(RivalKind::Lua) },
];

impl BenchMode {
    /// Whether it can run only what is known up front.
    pub fn is_one_shot(self) -> bool {
        matches!(self.contender, Contender::Rival(kind) if !kind.is_interactive())
    }

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

    /// The same for the embedded store.
    ///
    /// # Errors
    /// As [`BenchMode::parse`]; the rivals are of real servers.
    pub fn parse_embedded_list(names: &str) -> Result<Vec<Self>, String> {
        Self::parse_all(names, |name| match BenchMode::parse(name)? {
            BenchMode { contender: Contender::Rival(_), .. } => Err(format!(
                "the mode '{name}' is of real servers: say --store cluster or --store redis://HOST:PORT"
            )),
            other => Ok(other),
        })
    }

    /// The same for a cluster.
    ///
    /// # Errors
    /// As [`BenchMode::parse`]; `mutex` is of one process, and the module has no other locks than Claret's.
    pub fn parse_cluster_list(names: &str) -> Result<Vec<Self>, String> {
        Self::parse_all(names, |name| match BenchMode::parse(name)? {
            BenchMode { contender: Contender::Mutex, .. } => {
                Err("the mode 'mutex' is of one process: leave it out of --modes".into())
            }
            BenchMode { contender: Contender::Store(mode), .. } if !is_of_modules(mode) => Err(format!(
                "the mode '{name}' is not what the module's shards do; measure it with --store sim or embedded"
            )),
            other => Ok(other),
        })
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
            BenchMode { name, contender: Contender::Rival(_) } => Err(format!(
                "the mode '{name}' is of real servers: --store sim has none; leave it out of --modes"
            )),
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

/// Whether a cluster can do this: its shards know Claret's own locks only.
fn is_of_modules(mode: Mode) -> bool {
    match mode {
        Mode::None | Mode::BoostPhase | Mode::BoostPhaseCombine => true,
        Mode::ReaderWriter | Mode::ReaderWriterPhase | Mode::Boost => false,
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
