//! How connections are set up: addresses, login, TLS, times and bounds.

use std::time::Duration;

use claret_planted::{Bug, is_planted};

use crate::bounds::ReplyLimits;
use crate::cluster::Cluster;
use crate::dedicated::Dedicated;
use crate::error::ConnectError;
use crate::raw::Raw;
use crate::resp::Protocol;
use crate::secret::{Secret, without_passwords};
use crate::settings::{Settings, parse};
use crate::tls::ClientCertificate;

/// How connections are set up. It connects any number of times.
///
/// URLs look like `redis://user:password@host:port,host2:port2/?connect-timeout-ms=3000`. Several hosts are several
/// nodes that are asked for the others. `rediss://` is TLS. Parameters: `connect-timeout-ms`, `response-timeout-ms`,
/// `tls-ca` (a file of certificates to trust instead of the system's), `tls-name` (the name in the servers' certificates,
/// where it is not their address), `tls-cert` and `tls-key` (files with this process's own certificate and its private key,
/// as PEM, for servers that ask for one; or [`Self::client_certificate`]).
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    /// They may contain passwords.
    urls: Vec<Secret<String>>,
    /// Parameters that somebody else reads.
    others: &'static [&'static str],
    connect_timeout: Option<Duration>,
    response_timeout: Option<Duration>,
    reply_limits: ReplyLimits,
    client_certificate: Option<ClientCertificate>,
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

impl Builder {
    /// What this URL says.
    pub fn new(url: impl Into<String>) -> Self {
        Builder {
            urls: vec![Secret(url.into())],
            others: &[],
            connect_timeout: None,
            response_timeout: None,
            reply_limits: ReplyLimits::default(),
            client_certificate: None,
            protocol: Protocol::default(),
            login: None,
        }
    }

    /// The URL may have these parameters, too, which somebody else reads: [`Settings::others`]. No others are let in.
    pub fn with_parameters(mut self, others: &'static [&'static str]) -> Self {
        self.others = others;
        self
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

    /// Adds a URL: another node that is asked for the others. Users, passwords and parameters come from the first
    /// URL.
    pub fn seed(mut self, url: impl Into<String>) -> Self {
        self.urls.push(Secret(url.into()));
        self
    }

    /// How long connecting to all nodes may take; 5 seconds by default. It waits as long for a cluster that is still
    /// starting.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long a node may leave a request unanswered before the client drops the connection and makes a new one; 5
    /// seconds by default.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = Some(timeout);
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

    /// Bounds on what a server may send.
    pub fn reply_limits(mut self, limits: ReplyLimits) -> Self {
        self.reply_limits = limits;
        self
    }

    /// Replies come in the form of RESP2, as clients know them that never said `HELLO 3`: a map is an array, and what is not there
    /// is `$-1` or `*-1`.
    pub fn resp2(mut self) -> Self {
        self.protocol = Protocol::Resp2;
        self
    }

    /// Connects to all nodes.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(&self) -> Result<Cluster, ConnectError> {
        Cluster::open(self.settings()?).await
    }

    /// Connects to one node alone, whatever the others do. `node` is an address of [`Dedicated::nodes`]; without one it is the
    /// first of those in the URL that answers.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn dedicated(&self, node: Option<&str>) -> Result<Dedicated, ConnectError> {
        Dedicated::to(&self.settings()?, node).await
    }

    /// Connects to one node alone, for commands and replies as bytes. `node` is as for [`Self::dedicated`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn raw(&self, node: Option<&str>) -> Result<Raw, ConnectError> {
        Raw::to(&self.settings()?, node).await
    }

    /// The error of a URL, or of a setting beside it, that cannot be.
    pub fn refused(&self, reason: String) -> ConnectError {
        let url = self.urls.first().map_or("", |url| url.as_str());
        ConnectError::Url { url: without_passwords(url), reason }
    }

    /// What the URLs and the methods set.
    ///
    /// # Errors
    /// [`ConnectError::Url`].
    pub fn settings(&self) -> Result<Settings, ConnectError> {
        let mut urls = self.urls.iter();
        let mut settings = parse(urls.next().map_or("", |url| url.as_str()), self.others)?;
        for url in urls {
            settings.seeds.extend(parse(url, self.others)?.seeds);
        }
        settings.connect_timeout = self.connect_timeout.unwrap_or(settings.connect_timeout);
        settings.response_timeout = self
            .response_timeout
            .filter(|_| !is_planted(Bug::ResponseTimeUnset))
            .unwrap_or(settings.response_timeout);
        settings.limits = self.reply_limits;
        settings.protocol = self.protocol;
        if let Some(Login { user, password }) = &self.login {
            (settings.user, settings.password) = (user.clone(), password.clone());
        }
        if let Some(client_certificate) = &self.client_certificate {
            let tls = settings.tls.take();
            let tls = tls.ok_or_else(|| self.refused("a client's certificate needs rediss://".into()))?;
            let tls = tls.with_client_certificate(client_certificate);
            settings.tls = Some(tls.map_err(|reason| self.refused(reason))?);
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_the_client_goes_over_tls_alone_and_is_not_shown() {
        let builder = Builder::new("redis://h").client_certificate("c", "k");
        assert!(builder.settings().unwrap_err().to_string().contains("needs rediss"));
        let builder = Builder::new("rediss://h").client_certificate("c", "hunter2");
        let error = builder.settings().unwrap_err().to_string();
        assert!(error.contains("tls-cert"), "{error}");
        // As it is printed, byte by byte.
        assert!(!format!("{builder:?} {error}").contains("104, 117, 110"), "{builder:?}");
    }

    #[test]
    fn what_holds_a_password_may_be_printed() {
        let url = "redis://ada:hunter2@h:7000";
        let builder = Builder::new(url).seed(url);
        let settings = builder.settings().unwrap();
        for shown in [format!("{builder:?}"), format!("{builder:#?}"), format!("{settings:?}")] {
            assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
        }
    }
}
