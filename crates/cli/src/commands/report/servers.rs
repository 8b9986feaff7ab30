//! The cluster that a report measures besides the model: somebody's, or one that is started for it.

use claret_redis::without_passwords;
use claret_rig::{Cluster, Module, RigError, connect, field, nodes, query};

use crate::commands::store_arg::{SHARDS, StoreArg};

/// A cluster that answers.
pub(super) struct Servers {
    pub(super) store: StoreArg,
    /// What is said about it.
    pub(super) name: String,
    /// Kept for as long as it is needed.
    _own: Option<Cluster>,
}

/// The cluster, or why none is measured.
pub(super) type Found = Result<Servers, String>;

/// Finds or starts what `--store` names; without it a cluster is started if that can be done.
///
/// # Errors
/// What was asked for cannot be had. `sim` asks for none.
pub(super) fn find(asked: Option<&str>) -> Result<Found, String> {
    match asked.map(StoreArg::parse).transpose()? {
        None => Ok(Servers::start()),
        Some(StoreArg::Model) => Ok(Err("--store sim asks for the model alone".to_owned())),
        Some(StoreArg::Cluster) => Servers::start().map(Ok),
        Some(StoreArg::Url(url)) => Servers::at(&url, None).map(Ok),
        Some(StoreArg::Embedded | StoreArg::File(_)) => {
            let asked = asked.unwrap_or_default();
            Err(format!("--store {asked}: a report is of sim, cluster or redis://HOST:PORT"))
        }
    }
}

impl Servers {
    fn start() -> Result<Self, String> {
        // Quicker to know than the module, which may have to be built.
        claret_rig::server_program().map_err(text)?;
        let module = Module::find().map_err(text)?;
        let cluster = Cluster::options(SHARDS as u16, 0).module(module).start().map_err(text)?;
        Servers::at(&cluster.url(), Some(cluster))
    }

    fn at(url: &str, own: Option<Cluster>) -> Result<Self, String> {
        let mut connection = connect(url).map_err(text)?;
        let shards =
            nodes(&mut connection).map_err(text)?.iter().filter(|node| !node.slots.is_empty()).count();
        let info: String = query(&mut connection, &["INFO", "server"]).map_err(text)?;
        let program = [("valkey_version", "Valkey"), ("redis_version", "Redis")]
            .iter()
            .find_map(|(name, program)| Some(format!("{program} {}", field(&info, name)?)));
        let place = match own {
            Some(_) => "started on this machine for the report".to_owned(),
            None => without_passwords(url),
        };
        Ok(Servers {
            store: StoreArg::Url(url.to_owned()),
            name: format!("{}, {shards} shards, {place}", program.unwrap_or("a server".to_owned())),
            _own: own,
        })
    }
}

fn text(error: RigError) -> String {
    error.to_string()
}
