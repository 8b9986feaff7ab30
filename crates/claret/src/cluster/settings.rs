//! Settings of transactions on a cluster, and the parameters of a URL that set them.

use std::sync::Arc;

use claret_types::{Schema, SchemaDigest};

use super::ways::WaySettings;

/// How later grants reach the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grants {
    /// As pushes on the connection that carries the requests; polled where the server refuses that.
    #[default]
    Push,
    /// Polled on a second connection to each node: for users who may not subscribe, and proxies without pushes.
    Poll,
}

/// What a store on a cluster is told, besides its connections.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Those of its connections.
    pub(super) redis: claret_redis::Settings,
    pub(super) grants: Grants,
    /// Whether one-shot transactions may leave in batches.
    pub(super) batches: bool,
    pub(super) ways: WaySettings,
    /// The user's, which is to be that of all nodes.
    pub(super) schema: Option<Arc<(Schema, SchemaDigest)>>,
}

impl Settings {
    /// What the URL says of transactions.
    ///
    /// # Errors
    /// The parameter that is wrong, and what it may be.
    pub(super) fn of(redis: claret_redis::Settings) -> Result<Self, String> {
        let (mut grants, mut batches, mut ways) = (Grants::Push, true, WaySettings::default());
        for (key, value) in redis.others() {
            match (&**key, &**value) {
                ("grants", "push") => grants = Grants::Push,
                ("grants", "poll") => grants = Grants::Poll,
                ("grants", _) => return Err(format!("grants: '{value}' is neither push nor poll")),
                ("batches", "on") => batches = true,
                ("batches", "off") => batches = false,
                ("batches", _) => return Err(format!("batches: '{value}' is neither on nor off")),
                _ => {
                    ways.take(key, value).unwrap_or_else(|| Err(format!("there is no parameter '{key}'")))?
                }
            }
        }
        Ok(Settings { redis, grants, batches, ways, schema: None })
    }
}

/// What a URL sets.
#[cfg(test)]
pub(super) fn settings(url: &str) -> Settings {
    let redis = claret_redis::Builder::new(url).with_parameters(super::ways::PARAMETERS);
    Settings::of(redis.settings().expect("a URL")).expect("parameters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_transactions_are_read() {
        let it = settings("redis://h/?grants=poll&response-timeout-ms=250&batches=off");
        assert_eq!((it.grants, it.batches), (Grants::Poll, false));
        let it = settings("redis://h/?grants=push&batches=on");
        assert_eq!((it.grants, it.batches), (Grants::Push, true));
        for wrong in ["grants=pull", "batches=yes"] {
            let redis = claret_redis::Builder::new(format!("redis://h/?{wrong}"))
                .with_parameters(crate::cluster::ways::PARAMETERS);
            let reason = Settings::of(redis.settings().expect("a URL")).expect_err("no such value");
            let (name, value) = wrong.split_once('=').expect("a value");
            assert!(reason.starts_with(&format!("{name}: '{value}' is neither ")), "{reason}");
        }
    }
}
