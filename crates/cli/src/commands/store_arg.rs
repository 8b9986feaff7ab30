//! `--store`: what it names, and which modes can be measured there.

use std::path::PathBuf;

use claret::lab::Mode;
use claret_bench::{BenchMode, ClusterSource, Engine, Place, Servers};
use claret_redis::without_passwords;

/// Shards of a cluster that is started for a run, unless it is said otherwise.
pub(super) const SHARDS: u32 = 4;
/// And at most: each is a process.
pub(super) const SHARDS_MAX: u32 = 64;

/// What `--store` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreArg {
    Embedded,
    /// Kept in a folder.
    File(PathBuf),
    Model,
    /// Started for the run.
    Cluster,
    Url(String),
}

impl StoreArg {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(StoreArg::Embedded),
            folder if folder.starts_with("file:") => Ok(StoreArg::File(folder["file:".len()..].into())),
            "sim" => Ok(StoreArg::Model),
            "cluster" => Ok(StoreArg::Cluster),
            url if url.starts_with("redis://") || url.starts_with("rediss://") => {
                Ok(StoreArg::Url(url.to_owned()))
            }
            other => Err(format!(
                "there is no store '{}'; the stores are embedded, file:FOLDER, sim, cluster and redis://HOST:PORT",
                without_passwords(other)
            )),
        }
    }

    pub(super) fn is_servers(&self) -> bool {
        matches!(self, StoreArg::Cluster | StoreArg::Url(_))
    }

    /// The modes that were asked for, else those that tell most.
    pub(super) fn modes(&self, asked: Option<&str>) -> Result<Vec<BenchMode>, String> {
        match self {
            StoreArg::Embedded => BenchMode::parse_list_for(asked.unwrap_or("none,rw,claret"), embedded),
            StoreArg::File(_) => BenchMode::parse_list_for(asked.unwrap_or("none,rw,claret"), in_a_folder),
            StoreArg::Model => BenchMode::parse_list_for(asked.unwrap_or("none,rw,claret"), of_model),
            StoreArg::Cluster | StoreArg::Url(_) => {
                BenchMode::parse_list_for(asked.unwrap_or("none,redis-lock,claret"), of_cluster)
            }
        }
    }

    /// Starts what has to be started.
    pub(super) fn place(
        &self,
        single: Option<String>,
        shards: Option<u32>,
        modes: &[BenchMode],
        pauses: Option<(u64, u64)>,
    ) -> Result<Place, String> {
        let source = match (self, shards) {
            (StoreArg::Embedded | StoreArg::Model, _) => return Ok(Place::Embedded),
            (StoreArg::File(folder), _) => return Ok(Place::Folder(folder.clone())),
            (StoreArg::Cluster, shards) => match shards.unwrap_or(SHARDS) {
                shards @ 1..=SHARDS_MAX => ClusterSource::Own(shards as u16),
                shards => {
                    return Err(format!("--shards {shards}: from 1 to {SHARDS_MAX} for --store cluster"));
                }
            },
            (StoreArg::Url(url), None) => ClusterSource::Url(url.clone()),
            (StoreArg::Url(_), Some(_)) => {
                return Err(
                    "--shards is of stores that are made for the run; this cluster has its own".into()
                );
            }
        };
        Servers::new(&source, single, modes, pauses).map(|servers| Place::Servers(Box::new(servers)))
    }
}

/// Beside a store in a folder there may be another database in one.
fn in_a_folder(mode: BenchMode) -> Result<BenchMode, String> {
    match mode.engine {
        Engine::Sqlite => Ok(mode),
        Engine::Mutex
        | Engine::Store(_)
        | Engine::Claret
        | Engine::Optimistic
        | Engine::InWay(_)
        | Engine::Sinfonia
        | Engine::Redis(_)
        | Engine::OneServer => embedded(mode),
    }
}

/// The embedded store has all modes but those made of Redis commands.
fn embedded(mode: BenchMode) -> Result<BenchMode, String> {
    match mode.engine {
        Engine::Redis(_) => Err(format!(
            "the mode '{}' is of real servers: say --store cluster or --store redis://HOST:PORT",
            mode.name
        )),
        Engine::OneServer => Err(model_only(mode)),
        Engine::InWay(_) => Err(format!(
            "the mode '{}' is of a network: say --store sim, cluster or redis://HOST:PORT",
            mode.name
        )),
        Engine::Sqlite => Err(file_only(mode)),
        Engine::Mutex | Engine::Store(_) | Engine::Claret | Engine::Optimistic | Engine::Sinfonia => {
            Ok(mode.on_a_store())
        }
    }
}

fn file_only(mode: BenchMode) -> String {
    format!("the mode '{}' has a file: say --store file:FOLDER", mode.name)
}

fn model_only(mode: BenchMode) -> String {
    format!(
        "the mode '{}' is of the model: measure it with --store sim; on real servers redis-multi does the same",
        mode.name
    )
}

/// A cluster's shards know Claret's own locks only, and nobody shares a mutex there.
fn of_cluster(mode: BenchMode) -> Result<BenchMode, String> {
    match mode.engine {
        Engine::Mutex => Err("the mode 'mutex' is of one process: leave it out of --modes".into()),
        Engine::Sqlite => Err(file_only(mode)),
        Engine::OneServer => Err(model_only(mode)),
        Engine::Store(Mode::ReaderWriter | Mode::ReaderWriterPhased | Mode::Commuting) => Err(format!(
            "the mode '{}' is not what the module's shards do; measure it with --store sim or embedded",
            mode.name
        )),
        Engine::Store(Mode::None | Mode::CommutingPhased | Mode::Way(_))
        | Engine::Claret
        | Engine::Optimistic
        | Engine::InWay(_)
        | Engine::Sinfonia
        | Engine::Redis(_) => Ok(mode.on_a_store()),
    }
}

/// The model has the store's modes, and one server with all keys.
fn of_model(mode: BenchMode) -> Result<BenchMode, String> {
    let name = mode.name;
    match mode.engine {
        Engine::Mutex => {
            Err("the mode 'mutex' is of one process: --store sim has none; leave it out of --modes".into())
        }
        Engine::Sqlite => Err(file_only(mode)),
        Engine::Optimistic | Engine::Sinfonia => {
            Err(format!("the mode '{name}' is not in the model: measure it on another store"))
        }
        Engine::Redis(_) => Err(format!(
            "the mode '{name}' is of real servers: --store sim has none; leave it out of --modes"
        )),
        Engine::Store(_) | Engine::Claret | Engine::InWay(_) | Engine::OneServer => Ok(mode),
    }
}
