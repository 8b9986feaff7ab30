//! What a cluster store is told: the URL, and the builder for everything that is not in it.

use std::fmt;
use std::time::Duration;

use claret_core::Limits;
use percent_encoding::percent_decode_str;
use url::Url;

use super::error::ConnectError;
use super::tls::Tls;
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
    pub(super) password: Option<String>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) grants: Grants,
}

impl Settings {
    /// Whom the servers take this process for.
    pub(super) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("default")
    }
}

/// Settings of a store on a cluster. Made by [`Store::cluster`].
///
/// URLs look like `redis://user:password@host:port,host2:port2/?connect-timeout-ms=3000`; several hosts are several
/// nodes to ask for the others. `rediss://` is TLS. Parameters: `connect-timeout-ms`, `response-timeout-ms`, `grants`
/// (`push` or `poll`), `tls-ca` (a file of certificates to trust instead of the system's), `tls-name` (the name in
/// the servers' certificates, where it is not their address).
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterBuilder {
    urls: Vec<String>,
    mode: Mode,
    limits: Limits,
    options: TxOptions,
    connect_timeout: Option<Duration>,
    response_timeout: Option<Duration>,
    grants: Option<Grants>,
}

impl ClusterBuilder {
    /// One more URL: another node to ask for the others. Users, passwords and parameters are taken from the first.
    pub fn seed(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
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
        let mut settings = parse(urls.next().map_or("", String::as_str))?;
        for url in urls {
            settings.seeds.extend(parse(url)?.seeds);
        }
        settings.connect_timeout = self.connect_timeout.unwrap_or(settings.connect_timeout);
        settings.response_timeout = self.response_timeout.unwrap_or(settings.response_timeout);
        settings.grants = self.grants.unwrap_or(settings.grants);
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
            urls: vec![url.into()],
            mode: Mode::default(),
            limits: Limits { resend_us: RESEND_US, ..Limits::default() },
            options: TxOptions::default(),
            connect_timeout: None,
            response_timeout: None,
            grants: None,
        }
    }
}

/// Reads a URL. Several hosts, which no standard knows, are taken apart first.
fn parse(given: &str) -> Result<Settings, ConnectError> {
    let wrong = |reason: String| ConnectError::Url { url: without_password(given), reason };
    let example = || "expected redis://user:password@host:port,host2:port2".to_owned();
    let (scheme, rest) = given.split_once("://").ok_or_else(|| wrong(example()))?;
    if scheme != "redis" && scheme != "rediss" {
        return Err(wrong(format!("'{scheme}' is neither redis nor rediss")));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
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
        password: password.map_err(|error| wrong(error.to_string()))?,
        connect_timeout: CONNECT_TIMEOUT,
        response_timeout: RESPONSE_TIMEOUT,
        grants: Grants::Push,
    };
    if settings.user.is_some() && settings.password.is_none() {
        return Err(wrong("a user without a password; write redis://user:password@host".into()));
    }
    parameters(first, scheme == "rediss", &mut settings).map_err(wrong)?;
    Ok(settings)
}

fn parameters(url: &Url, is_tls: bool, settings: &mut Settings) -> Result<(), String> {
    let (mut ca, mut name) = (None, None);
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
            _ => return Err(format!("there is no parameter '{key}'")),
        }
    }
    match is_tls {
        true => settings.tls = Some(Tls::new(ca.as_deref(), name)?),
        false if ca.is_some() || name.is_some() => return Err("TLS settings need rediss://".into()),
        false => {}
    }
    Ok(())
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let Some((before, hosts)) = url.rsplit_once('@') else { return url.to_owned() };
    let (scheme, login) = before.split_once("://").unwrap_or(("", before));
    let user = login.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:***@{hosts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        parse(url).unwrap_err().to_string()
    }

    #[test]
    fn urls_are_read() {
        let it =
            parse("redis://ada:p%40ss@10.0.0.1:7001,[::1]:7002,db/0?response-timeout-ms=250&grants=poll")
                .unwrap();
        let seeds: Vec<String> = it.seeds.iter().map(Address::to_string).collect();
        assert_eq!(seeds, ["10.0.0.1:7001", "[::1]:7002", "db:6379"]);
        assert_eq!((it.user.as_deref(), it.password.as_deref()), (Some("ada"), Some("p@ss")));
        assert_eq!(it.response_timeout, Duration::from_millis(250));
        assert_eq!(it.grants, Grants::Poll);
        assert!(it.tls.is_none());
        let it = parse("redis://:secret@localhost").unwrap();
        assert_eq!((it.user, it.password.as_deref()), (None, Some("secret")));
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
        assert!(refused("http://h").contains("neither redis nor rediss"));
        assert!(refused("localhost:7000").contains("expected redis://"));
        assert!(refused("redis://h:port").contains("port"));
        assert!(refused("redis://").contains("no address"));
        assert!(refused("redis://ada@h").contains("without a password"));
        assert!(refused("redis://h/?timeout=1").contains("no parameter 'timeout'"));
        assert!(refused("redis://h/?connect-timeout-ms=soon").contains("milliseconds"));
        assert!(refused("redis://h/?tls-ca=x").contains("rediss"));
        assert!(refused("rediss://h/?tls-ca=/nowhere/ca.pem").contains("/nowhere/ca.pem"));
    }
}
