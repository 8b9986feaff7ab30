//! The modes that can be compared, by name.

use claret::lab::Mode;

use crate::ways;

/// What runs the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Collections behind one mutex, written by hand (`baseline/mutex.rs`).
    Mutex,
    /// Tables of a SQLite file (`baseline/sqlite`).
    Sqlite,
    /// The store, in one of its modes; in the model with locks alone.
    Store(Mode),
    /// The store as it ships. In the model that is a cluster's default: batches, and calls in an order where that pays. On any other
    /// store [`BenchMode::on_a_store`] says which mode it is.
    Claret,
    /// The store, as `claret` has it, whose transactions look without locks.
    Optimistic,
    /// The store, as `claret` has it, whose transactions commit in another way than in two rounds: that of this mode.
    InWay(&'static str),
    /// The store as memory of Sinfonia's mini-transactions: items that are compared, locks that nobody waits for (`items.rs`).
    Sinfonia,
    /// Plain Redis commands (`baseline/redis`).
    Redis(Scheme),
    /// `MULTI` and `EXEC` with all keys on one server, in the model (`model.rs`).
    OneServer,
}

/// How transactions are made of Redis commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A lock for each key, taken in the order of their names.
    Lock,
    /// Optimistic: `WATCH`, and again when somebody was faster.
    Watch,
    /// `MULTI` and `EXEC` of what is known up front.
    Multi,
    /// A script of what is known up front.
    Lua,
    /// `CLARET.DO` of what is known up front, which any node carries out over all.
    Errand,
}

impl Scheme {
    /// Whether it runs on one server that is no part of a cluster.
    pub fn is_single(self) -> bool {
        match self {
            Scheme::Lock | Scheme::Errand => false,
            Scheme::Watch | Scheme::Multi | Scheme::Lua => true,
        }
    }

    /// Whether a transaction may do one operation after the other.
    pub fn is_interactive(self) -> bool {
        match self {
            Scheme::Lock | Scheme::Watch => true,
            Scheme::Multi | Scheme::Lua | Scheme::Errand => false,
        }
    }
}

/// A mode as it is asked for. `claret` is the default of every store; on a store that is `boost+phase`, in the model with batches and
/// with calls in an order where records are hot, as a cluster has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchMode {
    /// Its name, as in `--modes`.
    pub name: &'static str,
    /// What it stands for.
    pub engine: Engine,
}

const MODES: [BenchMode; 16] = [
    BenchMode { name: "mutex", engine: Engine::Mutex },
    BenchMode { name: "sqlite", engine: Engine::Sqlite },
    BenchMode { name: "none", engine: Engine::Store(Mode::None) },
    BenchMode { name: "rw", engine: Engine::Store(Mode::ReaderWriter) },
    BenchMode { name: "rw+phase", engine: Engine::Store(Mode::ReaderWriterPhased) },
    BenchMode { name: "boost", engine: Engine::Store(Mode::Commuting) },
    BenchMode { name: "boost+phase", engine: Engine::Store(Mode::CommutingPhased) },
    BenchMode { name: "claret", engine: Engine::Claret },
    BenchMode { name: "optimistic", engine: Engine::Optimistic },
    BenchMode { name: "sinfonia", engine: Engine::Sinfonia },
    BenchMode { name: "errand", engine: Engine::Redis(Scheme::Errand) },
    BenchMode { name: "redis-lock", engine: Engine::Redis(Scheme::Lock) },
    BenchMode { name: "redis-watch", engine: Engine::Redis(Scheme::Watch) },
    BenchMode { name: "redis-multi", engine: Engine::Redis(Scheme::Multi) },
    BenchMode { name: "redis-lua", engine: Engine::Redis(Scheme::Lua) },
    BenchMode { name: "one-server", engine: Engine::OneServer },
];

/// All of them.
fn all() -> impl Iterator<Item = BenchMode> {
    let in_way = |name| BenchMode { name, engine: Engine::InWay(name) };
    let of_store = |mode| match mode {
        Mode::Way(way) => Some(BenchMode { name: way.name(), engine: Engine::Store(mode) }),
        _ => None,
    };
    MODES.into_iter().chain(ways::modes().map(in_way)).chain(Mode::ways().filter_map(of_store))
}

impl BenchMode {
    /// Whether it can run only what is known up front.
    pub fn is_one_shot(self) -> bool {
        match self.engine {
            Engine::Redis(scheme) => !scheme.is_interactive(),
            Engine::OneServer => true,
            Engine::Mutex
            | Engine::Sqlite
            | Engine::Store(_)
            | Engine::Claret
            | Engine::Optimistic
            | Engine::InWay(_)
            | Engine::Sinfonia => false,
        }
    }

    /// In which mode its store is, if it has one.
    pub fn store_mode(self) -> Option<Mode> {
        match self.engine {
            Engine::Store(mode) => Some(mode),
            Engine::Claret | Engine::Optimistic | Engine::InWay(_) => Some(Mode::CommutingPhased),
            Engine::Sinfonia => Some(Mode::Commuting),
            Engine::Mutex | Engine::Sqlite | Engine::Redis(_) | Engine::OneServer => None,
        }
    }

    /// What the mode is on a store, where the nodes, not the clients, say what is ordered.
    #[must_use]
    pub fn on_a_store(self) -> Self {
        match self.engine {
            Engine::Claret => BenchMode { engine: Engine::Store(Mode::default()), ..self },
            _ => self,
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    /// Names the input and lists what there is.
    pub fn parse(name: &str) -> Result<Self, String> {
        all().find(|mode| mode.name == name).ok_or_else(|| {
            let known: Vec<_> = all().map(|mode| mode.name).collect();
            format!("there is no mode '{name}'; the modes are {}", known.join(", "))
        })
    }

    /// Reads a list of names, separated by commas; none may come twice.
    ///
    /// # Errors
    /// As [`BenchMode::parse`].
    pub fn parse_list(names: &str) -> Result<Vec<Self>, String> {
        Self::parse_list_for(names, |mode| Ok(mode.on_a_store()))
    }

    /// The same for a store that has not all modes: `accept` says so of each.
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
            if let Some(same) = modes.iter().find(|known| known.engine == mode.engine) {
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
