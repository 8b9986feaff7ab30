//! What a cluster store is told: the URL, and the builder for everything that is not in it.

use std::fmt;
use std::time::Duration;

use claret_core::Limits;
use percent_encoding::percent_decode_str;
use url::Url;

use super::bounds::ReplyLimits;
use super::error::ConnectError;
use super::secret::{Secret, without_passwords};
use super::tls::{Identity, Tls};
use super::wrong;
use super::{Cluster, Plain};
use crate::host::{Host, Mode};
use crate::store::{Store, TxOptions};

/// The port of a server that names none.
const PORT: u16 = 6379;

/// How long connecting may take by default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a node may be silent by default, before its connection is taken for broken.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is sent again when a connection is new is sent then. Beyond that TCP loses nothing, and asking often costs
/// where many wait.
const RESEND_US: u64 = 500_000;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// How grants that come later reach the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grants {
    /// As pushes on the connection that carries the requests; polled where the server refuses that.
    #[default]
    Push,
    /// Polled on a second connection to each node: for users who may not subscribe, and proxies without pushes.
    Poll,
}

/// What every connection needs to know.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) seeds: Vec<Address>,
    pub(super) tls: Option<Tls>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret<String>>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) grants: Grants,
    pub(super) limits: ReplyLimits,
}

impl Settings {
    /// Whom the servers take this process for.
    pub(super) fn user(&self) -> &str {
        wrong::user(self.user.as_deref()).unwrap_or("default")
    }
}

/// Settings of a store on a cluster. Made by [`Store::cluster`].
///
/// URLs look like `redis://user:password@host:port,host2:port2/?connect-timeout-ms=3000`; several hosts are several
/// nodes to ask for the others. `rediss://` is TLS. Parameters: `connect-timeout-ms`, `response-timeout-ms`, `grants`
/// (`push` or `poll`), `tls-ca` (a file of certificates to trust instead of the system's), `tls-name` (the name in
/// the servers' certificates, where it is not their address), `tls-cert` and `tls-key` (files with this process's own
/// certificate and its private key, as PEM, for servers that ask for one; or [`Self::client_certificate`]).
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterBuilder {
    /// They may have passwords in them.
    urls: Vec<Secret<String>>,
    mode: Mode,
    limits: Limits,
    options: TxOptions,
    connect_timeout: Option<Duration>,
    response_timeout: Option<Duration>,
    grants: Option<Grants>,
    reply_limits: ReplyLimits,
    identity: Option<Identity>,
}

impl ClusterBuilder {
    /// One more URL: another node to ask for the others. Users, passwords and parameters are taken from the first.
    pub fn seed(mut self, url: impl Into<String>) -> Self {
        self.urls.push(Secret(url.into()));
        self
    }

    /// Concurrency control, for measuring.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Bounds of the protocol on this side. The servers have their own (`CONFIG GET claret.*`).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What `transaction` and single operations do by default.
    pub fn transactions(mut self, options: TxOptions) -> Self {
        self.options = options;
        self
    }

    /// How long connecting to all nodes may take; by default 5 seconds. So long it also waits for a cluster that is
    /// still starting.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long a node may leave a request unanswered before its connection is given up and made anew; by default 5
    /// seconds. Also how long the end of a transaction is waited for after its deadline.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = Some(timeout);
        self
    }

    /// How grants that come later reach this process.
    pub fn grants(mut self, grants: Grants) -> Self {
        self.grants = Some(grants);
        self
    }

    /// The certificate that servers see which ask for one (`tls-auth-clients yes`), with those that it rests on behind it,
    /// and its private key: both as PEM. Needs `rediss://`. In place of `tls-cert` and `tls-key` in the URL.
    pub fn client_certificate(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        let (certificate, key) = (Secret(certificate_pem.into()), Secret(key_pem.into()));
        self.identity = Some(Identity { certificate, key });
        self
    }

    /// What is taken from a server, at most.
    pub fn reply_limits(mut self, limits: ReplyLimits) -> Self {
        self.reply_limits = limits;
        self
    }

    /// Connects to all nodes. The connections live as tasks of the tokio runtime that this is awaited on.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime; see [`crate::blocking::Store::connect`].
    pub async fn connect(self) -> Result<Store, ConnectError> {
        let settings = self.settings()?;
        let cluster = Cluster::connect(settings, self.mode, self.limits).await?;
        Ok(Store { host: Host::Cluster(cluster), options: self.options })
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

    fn settings(&self) -> Result<Settings, ConnectError> {
        let mut urls = self.urls.iter();
        let mut settings = parse(urls.next().map_or("", |url| url.as_str()))?;
        for url in urls {
            settings.seeds.extend(parse(url)?.seeds);
        }
        settings.connect_timeout = self.connect_timeout.unwrap_or(settings.connect_timeout);
        settings.response_timeout =
            wrong::response_time(self.response_timeout).unwrap_or(settings.response_timeout);
        settings.grants = self.grants.unwrap_or(settings.grants);
        settings.limits = self.reply_limits;
        if let Some(identity) = &self.identity {
            let wrong = |reason: String| {
                let url = self.urls.first().map_or("", |url| url.as_str());
                ConnectError::Url { url: without_passwords(url), reason }
            };
            let tls =
                settings.tls.take().ok_or_else(|| wrong("a client's certificate needs rediss://".into()))?;
            settings.tls = Some(tls.with_identity(identity).map_err(wrong)?);
        }
        Ok(settings)
    }
}

impl Store {
    /// A store on a Redis or Valkey cluster with the Claret module: see [`ClusterBuilder`] for the URL.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime; see [`crate::blocking::Store::connect`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use claret::{Records, Store};
    /// let store = Store::connect("redis://127.0.0.1:7001").await?;
    /// store.counter("visits").add(1).await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: impl Into<String>) -> Result<Store, ConnectError> {
        Store::cluster(url).connect().await
    }

    /// A store on a cluster, with settings.
    pub fn cluster(url: impl Into<String>) -> ClusterBuilder {
        ClusterBuilder {
            urls: vec![Secret(url.into())],
            mode: Mode::default(),
            limits: Limits { resend_us: RESEND_US, ..Limits::default() },
            options: TxOptions::default(),
            connect_timeout: None,
            response_timeout: None,
            grants: None,
            reply_limits: ReplyLimits::default(),
            identity: None,
        }
    }
}

/// Reads a URL. Several hosts, which no standard knows, are taken apart first.
fn parse(given: &str) -> Result<Settings, ConnectError> {
    let wrong = |reason: String| ConnectError::Url { url: without_passwords(given), reason };
    let example = || "expected redis://user:password@host:port,host2:port2".to_owned();
    let (scheme, rest) = given.split_once("://").ok_or_else(|| wrong(example()))?;
    if scheme != "redis" && scheme != "rediss" {
        return Err(wrong(format!("'{}' is neither redis nor rediss", without_passwords(scheme))));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        // A part of the password, perhaps: nothing of it is looked at, or shown.
        let reason =
            "in a password '/', '?', '#' and '@' are written %2F, %3F, %23 and %40; so is '@' elsewhere";
        return Err(wrong(reason.to_owned()));
    }
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let at = if login.is_empty() { "" } else { "@" };
    let urls = hosts.split(',').map(|host| format!("{scheme}://{login}{at}{host}{tail}"));
    let urls = urls.map(|url| Url::parse(&url)).collect::<Result<Vec<_>, _>>();
    let urls = urls.map_err(|error| wrong(error.to_string()))?;
    let seeds = urls.iter().map(|url| {
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong(example()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Address { host, port: url.port().unwrap_or(PORT) })
    });
    let seeds = seeds.collect::<Result<Vec<_>, _>>()?;
    let first = &urls[0];
    if !matches!(first.path(), "" | "/" | "/0") {
        let database = first.path().trim_start_matches('/');
        return Err(wrong(format!("a cluster has database 0 only, and '{database}' is another")));
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
    let user = Some(first.username()).filter(|user| !user.is_empty()).map(decoded).transpose();
    let password = first.password().filter(|word| !word.is_empty()).map(decoded).transpose();
    let mut settings = Settings {
        seeds,
        tls: None,
        user: user.map_err(|error| wrong(error.to_string()))?,
        password: password.map_err(|error| wrong(error.to_string()))?.map(Secret),
        connect_timeout: CONNECT_TIMEOUT,
        response_timeout: RESPONSE_TIMEOUT,
        grants: Grants::Push,
        limits: ReplyLimits::default(),
    };
    if settings.user.is_some() && settings.password.is_none() {
        return Err(wrong("a user without a password; write redis://user:password@host".into()));
    }
    parameters(first, scheme == "rediss", &mut settings).map_err(wrong)?;
    Ok(settings)
}

fn parameters(url: &Url, is_tls: bool, settings: &mut Settings) -> Result<(), String> {
    let (mut ca, mut name) = (None, None);
    let (mut certificate, mut key_file) = (None, None);
    for (key, value) in url.query_pairs() {
        let millis = || {
            let millis = value.parse().ok().filter(|millis| *millis > 0);
            millis
                .map(Duration::from_millis)
                .ok_or_else(|| format!("{key}: '{value}' is no number of milliseconds"))
        };
        match &*key {
            "connect-timeout-ms" => settings.connect_timeout = millis()?,
            "response-timeout-ms" => settings.response_timeout = millis()?,
            "grants" => {
                settings.grants = match &*value {
                    "push" => Grants::Push,
                    "poll" => Grants::Poll,
                    _ => return Err(format!("grants: '{value}' is neither push nor poll")),
                }
            }
            "tls-ca" => ca = Some(value.into_owned()),
            "tls-name" => name = Some(value.into_owned()),
            "tls-cert" => certificate = Some(value.into_owned()),
            "tls-key" => key_file = Some(value.into_owned()),
            _ => return Err(format!("there is no parameter '{key}'")),
        }
    }
    if !is_tls {
        let is_given = [&ca, &name, &certificate, &key_file].iter().any(|given| given.is_some());
        return if is_given { Err("TLS settings need rediss://".into()) } else { Ok(()) };
    }
    let tls = Tls::new(ca.as_deref(), name)?;
    settings.tls = Some(match (certificate, key_file) {
        (None, None) => tls,
        (Some(certificate), Some(key)) => tls.with_identity(&Identity::read(&certificate, &key)?)?,
        _ => return Err("tls-cert and tls-key go together".into()),
    });
    Ok(())
}

/// What a URL sets.
#[cfg(test)]
pub(super) fn settings(url: &str) -> Settings {
    parse(url).expect("a URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        parse(url).unwrap_err().to_string()
    }

    fn password(settings: &Settings) -> Option<&str> {
        settings.password.as_ref().map(|it| it.as_str())
    }

    #[test]
    fn urls_are_read() {
        let it =
            parse("redis://ada:p%40ss@10.0.0.1:7001,[::1]:7002,db/0?response-timeout-ms=250&grants=poll")
                .unwrap();
        let seeds: Vec<String> = it.seeds.iter().map(Address::to_string).collect();
        assert_eq!(seeds, ["10.0.0.1:7001", "[::1]:7002", "db:6379"]);
        assert_eq!((it.user.as_deref(), password(&it)), (Some("ada"), Some("p@ss")));
        assert_eq!(it.response_timeout, Duration::from_millis(250));
        assert_eq!(it.grants, Grants::Poll);
        assert!(it.tls.is_none());
        let it = parse("redis://:secret@localhost").unwrap();
        assert_eq!((it.user.as_deref(), password(&it)), (None, Some("secret")));
        assert!(parse("rediss://localhost?tls-name=db.example").unwrap().tls.is_some());
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_the_password() {
        assert!(
            refused("redis://u:secret@h/3").contains("database 0 only"),
            "{}",
            refused("redis://u:secret@h/3")
        );
        assert!(!refused("redis://u:secret@h/3").contains("secret"));
        let written =
            |url: &str| assert!(refused(url).contains("%2F") && !refused(url).contains("secret"), "{url}");
        ["redis://u:1/secret@h", "redis://u:1?secret=1@h", "redis://u:1#secret@h"]
            .into_iter()
            .for_each(written);
        assert!(refused("http://h").contains("neither redis nor rediss"));
        assert!(refused("localhost:7000").contains("expected redis://"));
        assert!(refused("redis://h:port").contains("port"));
        assert!(refused("redis://").contains("no address"));
        assert!(refused("redis://ada@h").contains("without a password"));
        assert!(refused("redis://h/?timeout=1").contains("no parameter 'timeout'"));
        assert!(refused("redis://h/?connect-timeout-ms=soon").contains("milliseconds"));
        assert!(refused("redis://h/?tls-ca=x").contains("rediss"));
        assert!(refused("redis://h/?tls-key=x").contains("rediss"));
        assert!(refused("rediss://h/?tls-cert=x").contains("go together"));
        assert!(refused("rediss://h/?tls-cert=/nowhere/c.pem&tls-key=k").contains("/nowhere/c.pem"));
        let builder = Store::cluster("redis://h").client_certificate("c", "k");
        assert!(builder.settings().unwrap_err().to_string().contains("needs rediss"));
        let builder = Store::cluster("rediss://h").client_certificate("c", "hunter2");
        let error = builder.settings().unwrap_err().to_string();
        assert!(error.contains("tls-cert"), "{error}");
        // As it is printed, byte by byte.
        assert!(!format!("{builder:?} {error}").contains("104, 117, 110"), "{builder:?}");
        assert!(refused("rediss://h/?tls-ca=/nowhere/ca.pem").contains("/nowhere/ca.pem"));
    }

    #[test]
    fn what_holds_a_password_may_be_printed() {
        let url = "redis://ada:hunter2@h:7000";
        let builder = Store::cluster(url).seed(url);
        let settings = builder.settings().unwrap();
        for shown in [format!("{builder:?}"), format!("{builder:#?}"), format!("{settings:?}")] {
            assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
        }
    }
}
