//! Settings of a store on a cluster, besides the URL.

use std::sync::Arc;
use std::time::Duration;

use claret_planted::{Bug, is_planted};
use claret_types::Schema;

use super::backend::Cluster;
use super::bounds::ReplyLimits;
use super::error::ConnectError;
use super::plain::{Dedicated, Plain, Raw, Unlocked};
use super::resp::Protocol;
use super::secret::{Secret, without_passwords};
use super::settings::{Chains, Grants, Settings, parse};
use super::tls::ClientCertificate;
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
    /// They may contain passwords.
    urls: Vec<Secret<String>>,
    mode: Mode,
    limits: claret_core::Limits,
    options: TxOptions,
    connect_timeout: Option<Duration>,
    response_timeout: Option<Duration>,
    grants: Option<Grants>,
    batches: Option<bool>,
    chains: Option<Chains>,
    reply_limits: ReplyLimits,
    client_certificate: Option<ClientCertificate>,
    schema: Option<Schema>,
    protocol: Protocol,
    /// In place of the URL's.
    login: Option<Login>,
}

/// Who logs in: nobody, or a user with a password.
#[derive(Clone, Debug)]
struct Login {
    user: Option<String>,
    password: Option<Secret<Vec<u8>>>,
}

impl ClusterBuilder {
    pub(crate) fn new(url: String) -> Self {
        ClusterBuilder {
            urls: vec![Secret(url)],
            mode: Mode::default(),
            limits: claret_core::Limits { resend_us: RESEND_US, ..claret_core::Limits::default() },
            options: TxOptions::default(),
            connect_timeout: None,
            response_timeout: None,
            grants: None,
            batches: None,
            chains: None,
            reply_limits: ReplyLimits::default(),
            client_certificate: None,
            schema: None,
            protocol: Protocol::default(),
            login: None,
        }
    }

    /// Logs in as this user, whatever the URL says. A password is any bytes.
    pub fn login(mut self, user: &str, password: impl AsRef<[u8]>) -> Self {
        let password = Some(Secret(password.as_ref().to_vec()));
        self.login = Some(Login { user: Some(user.to_owned()), password });
        self
    }

    /// Nobody logs in, whatever the URL says: who connects is the default user, if that one needs no password.
    pub fn without_login(mut self) -> Self {
        self.login = Some(Login { user: None, password: None });
        self
    }

    /// Whether somebody logs in, by the URL or by [`Self::login`].
    ///
    /// # Errors
    /// [`ConnectError::Url`].
    pub fn has_login(&self) -> Result<bool, ConnectError> {
        Ok(self.settings()?.password.is_some())
    }

    /// Adds a URL: another node that is asked for the others. Users, passwords and parameters come from the first
    /// URL.
    pub fn seed(mut self, url: impl Into<String>) -> Self {
        self.urls.push(Secret(url.into()));
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
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long a node may leave a request unanswered before the client drops the connection and makes a new one; 5
    /// seconds by default. The client also waits this long after a deadline for a transaction's outcome.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = Some(timeout);
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

    /// See [`crate::lab`].
    pub(crate) fn chains(mut self, chains: Chains) -> Self {
        self.chains = Some(chains);
        self
    }

    /// The certificate to show to servers that ask for one (`tls-auth-clients yes`), followed by its chain, and its
    /// private key, both as PEM. Needs `rediss://`. It replaces `tls-cert` and `tls-key` in the URL.
    pub fn client_certificate(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        let (certificate, key) = (Secret(certificate_pem.into()), Secret(key_pem.into()));
        self.client_certificate = Some(ClientCertificate { certificate, key });
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
        self.reply_limits = limits;
        self
    }

    /// Plain connections ([`Self::connect_plain`], [`Self::dedicated`], [`Self::raw`]) ask for replies in the form of RESP2, as
    /// clients know them that never said `HELLO 3`: a map is an array, and what is not there is `$-1` or `*-1`. Stores speak RESP3
    /// all the same.
    pub fn resp2(mut self) -> Self {
        self.protocol = Protocol::Resp2;
        self
    }

    /// The backend of a store, connected, and what its transactions do by default.
    pub(crate) async fn open(self) -> Result<(Arc<dyn Backend>, TxOptions), ConnectError> {
        let settings = Settings { protocol: Protocol::Resp3, ..self.settings()? };
        let backend: Arc<dyn Backend> = match self.mode {
            Mode::None => {
                let schema = settings.schema.clone();
                Arc::new(Unlocked::new(Plain::open(settings).await?, self.limits, schema))
            }
            mode => Arc::new(Cluster::connect(settings, mode, self.limits).await?),
        };
        Ok((backend, self.options))
    }

    /// Connects to all nodes, to send them Redis commands as they are.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect_plain(self) -> Result<Plain, ConnectError> {
        Plain::open(self.settings()?).await
    }

    /// Connects to one node alone, to send it Redis commands as they are, whatever the others do. `node` is an address of
    /// [`Dedicated::nodes`]; without one it is the first of those in the URL that answers.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn dedicated(self, node: Option<&str>) -> Result<Dedicated, ConnectError> {
        Dedicated::to(&self.settings()?, node).await
    }

    /// Connects to one node alone, for commands and replies as bytes. `node` is as for [`Self::dedicated`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn raw(self, node: Option<&str>) -> Result<Raw, ConnectError> {
        Raw::to(&self.settings()?, node).await
    }

    fn settings(&self) -> Result<Settings, ConnectError> {
        let mut urls = self.urls.iter();
        let mut settings = parse(urls.next().map_or("", |url| url.as_str()))?;
        for url in urls {
            settings.seeds.extend(parse(url)?.seeds);
        }
        settings.connect_timeout = self.connect_timeout.unwrap_or(settings.connect_timeout);
        settings.response_timeout = self
            .response_timeout
            .filter(|_| !is_planted(Bug::ResponseTimeUnset))
            .unwrap_or(settings.response_timeout);
        settings.grants = self.grants.unwrap_or(settings.grants);
        settings.batches = self.batches.unwrap_or(settings.batches);
        settings.chains = self.chains.unwrap_or(settings.chains);
        settings.limits = self.reply_limits;
        settings.protocol = self.protocol;
        if let Some(Login { user, password }) = &self.login {
            (settings.user, settings.password) = (user.clone(), password.clone());
        }
        settings.schema = self.schema.clone().map(|schema| {
            let digest = schema.digest();
            Arc::new((schema, digest))
        });
        if let Some(client_certificate) = &self.client_certificate {
            let refused = |reason: String| {
                let url = self.urls.first().map_or("", |url| url.as_str());
                ConnectError::Url { url: without_passwords(url), reason }
            };
            let tls = settings
                .tls
                .take()
                .ok_or_else(|| refused("a client's certificate needs rediss://".into()))?;
            settings.tls = Some(tls.with_client_certificate(client_certificate).map_err(refused)?);
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_the_client_goes_over_tls_alone_and_is_not_shown() {
        let builder = ClusterBuilder::new("redis://h".into()).client_certificate("c", "k");
        assert!(builder.settings().unwrap_err().to_string().contains("needs rediss"));
        let builder = ClusterBuilder::new("rediss://h".into()).client_certificate("c", "hunter2");
        let error = builder.settings().unwrap_err().to_string();
        assert!(error.contains("tls-cert"), "{error}");
        // As it is printed, byte by byte.
        assert!(!format!("{builder:?} {error}").contains("104, 117, 110"), "{builder:?}");
    }

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
