//! Settings of a store on a cluster, besides the URL.

mod ways;

use std::sync::Arc;
use std::time::Duration;

use claret_redis::{Builder, Cluster as Connections, ConnectError, ReplyLimits};
use claret_types::Schema;

use super::backend::Cluster;
use super::settings::{Grants, Settings};
use super::unlocked::Unlocked;
use super::ways::{PARAMETERS, WaySettings};
use crate::backend::Backend;
use crate::limits::Limits;
use crate::mode::Mode;
use crate::options::TxOptions;

/// A new connection repeats what has no answer. Otherwise TCP loses nothing, and asking often costs where many wait.
const RESEND_US: u64 = 500_000;

/// Settings of a store on a cluster. Made by [`Store::cluster`](crate::Store::cluster).
///
/// URLs look like `redis://user:password@host:port,host2:port2/?connect-timeout-ms=3000`. Several hosts are several
/// nodes that are asked for the others. `rediss://` is TLS. Parameters: `connect-timeout-ms`, `response-timeout-ms`, `tls-ca` (a file of certificates to trust
/// instead of the system's), `tls-name` (the name in the servers' certificates, where it is not their address), `tls-cert` and `tls-key` (files with this
/// process's own certificate and its private key, as PEM, for servers that ask for one; or
/// [`Self::client_certificate`]). For measuring: `grants` (`push` or `poll`), `batches` (`on` or `off`, `docs/batches.md`), `chains`
/// (`never`, `hot` or `always`, `docs/chains.md`).
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterBuilder {
    redis: Builder,
    mode: Mode,
    limits: claret_core::Limits,
    options: TxOptions,
    grants: Option<Grants>,
    batches: Option<bool>,
    ways: WaySettings,
    schema: Option<Schema>,
}

impl ClusterBuilder {
    pub(crate) fn new(url: String) -> Self {
        ClusterBuilder {
            redis: Builder::new(url).with_parameters(PARAMETERS),
            mode: Mode::default(),
            limits: claret_core::Limits { resend_us: RESEND_US, ..claret_core::Limits::default() },
            options: TxOptions::default(),
            grants: None,
            batches: None,
            ways: WaySettings::default(),
            schema: None,
        }
    }

    /// How the store's connections are set up, for connections beside them: a part of the gateway and of tools, not of the API.
    #[doc(hidden)]
    pub fn connections(&self) -> &Builder {
        &self.redis
    }

    /// Logs in as this user, whatever the URL says. A password is any bytes.
    pub fn login(mut self, user: &str, password: impl AsRef<[u8]>) -> Self {
        self.redis = self.redis.login(user, password);
        self
    }

    /// Nobody logs in, whatever the URL says: who connects is the default user, if that one needs no password.
    pub fn without_login(mut self) -> Self {
        self.redis = self.redis.without_login();
        self
    }

    /// Adds a URL: another node that is asked for the others. Users, passwords and parameters come from the first
    /// URL.
    pub fn seed(mut self, url: impl Into<String>) -> Self {
        self.redis = self.redis.seed(url);
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn protocol_limits(mut self, limits: claret_core::Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Bounds of what it takes. The servers have their own (`CONFIG GET claret.*`).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits.within(self.limits);
        self
    }

    /// What `transaction` and single operations do by default.
    pub fn transactions(mut self, options: TxOptions) -> Self {
        self.options = options;
        self
    }

    /// How long connecting to all nodes may take; 5 seconds by default. It waits as long for a cluster that is still
    /// starting.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.redis = self.redis.connect_timeout(timeout);
        self
    }

    /// How long a node may leave a request unanswered before the client drops the connection and makes a new one; 5
    /// seconds by default. The client also waits this long after a deadline for a transaction's outcome.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.redis = self.redis.response_timeout(timeout);
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn grants(mut self, grants: Grants) -> Self {
        self.grants = Some(grants);
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn without_batches(mut self) -> Self {
        self.batches = Some(false);
        self
    }

    /// The certificate to show to servers that ask for one (`tls-auth-clients yes`), followed by its chain, and its
    /// private key, both as PEM. Needs `rediss://`. It replaces `tls-cert` and `tls-key` in the URL.
    pub fn client_certificate(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.redis = self.redis.client_certificate(certificate_pem, key_pem);
        self
    }

    /// Which types the keys with some prefixes have: an operation of another type there is refused before anything is sent, as
    /// [`OpError::AgainstSchema`](crate::OpError::AgainstSchema). Nodes whose own schema (`claret.schema`) is another one, or that
    /// have none, are [refused](ConnectError::OtherSchema); in the mode `none` they are not asked.
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Bounds on what a server may send.
    pub fn reply_limits(mut self, limits: ReplyLimits) -> Self {
        self.redis = self.redis.reply_limits(limits);
        self
    }

    /// The backend of a store, connected, and what its transactions do by default.
    pub(crate) async fn open(self) -> Result<(Arc<dyn Backend>, TxOptions), ConnectError> {
        let settings = self.settings()?;
        let backend: Arc<dyn Backend> = match self.mode {
            Mode::None => {
                let connections = Connections::open(settings.redis).await?;
                Arc::new(Unlocked::new(connections, self.limits, settings.schema))
            }
            mode => Arc::new(Cluster::connect(settings, mode, self.limits).await?),
        };
        Ok((backend, self.options))
    }

    fn settings(&self) -> Result<Settings, ConnectError> {
        let settings = Settings::of(self.redis.settings()?).map_err(|reason| self.redis.refused(reason))?;
        Ok(Settings {
            grants: self.grants.unwrap_or(settings.grants),
            batches: self.batches.unwrap_or(settings.batches),
            ways: self.ways.or(settings.ways),
            schema: self.schema.clone().map(|schema| {
                let digest = schema.digest();
                Arc::new((schema, digest))
            }),
            ..settings
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_password_may_be_printed() {
        let url = "redis://ada:hunter2@h:7000";
        let builder = ClusterBuilder::new(url.into()).seed(url);
        let settings = builder.settings().unwrap();
        for shown in [format!("{builder:?}"), format!("{builder:#?}"), format!("{settings:?}")] {
            assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
        }
    }
}
