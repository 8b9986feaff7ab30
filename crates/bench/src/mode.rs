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

/// A mode as it is asked for. `claret` is `boost+phase`, unless a store means another one by it.
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
        Self::parse_list_for(names, Ok)
    }

    /// The same for a store that has not all modes, or means something else by one: `accept` says so of each.
    ///
    /// # Errors
    /// As [`BenchMode::parse`]; or what `accept` answers.
    pub fn parse_list_for(
        names: &str,
        accept: impl Fn(BenchMode) -> Result<BenchMode, String>,
    ) -> Result<Vec<Self>, String> {
        let mut modes: Vec<BenchMode> = Vec::new();
        for name in names.split(',') {
            let mode = BenchMode::parse(name.trim()).and_then(&accept)?;
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
