//! Settings that every connection needs, and the URL that gives them.

use std::time::Duration;

use claret_planted::{Bug, is_planted};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::address::Address;
use crate::bounds::ReplyLimits;
use crate::error::ConnectError;
use crate::resp::Protocol;
use crate::secret::{Secret, without_passwords};
use crate::tls::{ClientCertificate, Tls};

/// The port of a server that names none.
const PORT: u16 = 6379;

/// How long connecting may take by default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a node may be silent by default before its connection counts as broken.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What every connection needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) seeds: Vec<Address>,
    pub(crate) tls: Option<Tls>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret<Vec<u8>>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) limits: ReplyLimits,
    /// The form of replies.
    pub(crate) protocol: Protocol,
    /// Parameters of the URL that somebody else reads, in their order.
    pub(crate) others: Vec<(String, String)>,
}

impl Settings {
    /// The user that logs in to the servers.
    pub fn user(&self) -> &str {
        self.user.as_deref().filter(|_| !is_planted(Bug::UserUnsent)).unwrap_or("default")
    }

    /// The nodes that were named; at least one.
    pub fn seeds(&self) -> &[Address] {
        &self.seeds
    }

    /// How long a node may be silent before its connection counts as broken.
    pub fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// Bounds on what a server may send.
    pub fn limits(&self) -> &ReplyLimits {
        &self.limits
    }

    /// Parameters of the URL that [`Builder::with_parameters`](crate::Builder::with_parameters) lets in, in their order.
    pub fn others(&self) -> &[(String, String)] {
        &self.others
    }
}

/// Parses a URL. Several hosts, which no standard allows, are split first. `others`: parameters that somebody else reads.
pub(crate) fn parse(given: &str, others: &[&str]) -> Result<Settings, ConnectError> {
    let refused = |reason: String| ConnectError::Url { url: without_passwords(given), reason };
    let example = || "expected redis://user:password@host:port,host2:port2".to_owned();
    let (scheme, rest) = given.split_once("://").ok_or_else(|| refused(example()))?;
    if scheme != "redis" && scheme != "rediss" {
        return Err(refused(format!("'{}' is neither redis nor rediss", without_passwords(scheme))));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        // A part of the password, perhaps: nothing of it is looked at, or shown.
        let reason =
            "in a password '/', '?', '#' and '@' are written %2F, %3F, %23 and %40; so is '@' elsewhere";
        return Err(refused(reason.to_owned()));
    }
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let at = if login.is_empty() { "" } else { "@" };
    let urls = hosts.split(',').map(|host| format!("{scheme}://{login}{at}{host}{tail}"));
    let urls = urls.map(|url| Url::parse(&url)).collect::<Result<Vec<_>, _>>();
    let urls = urls.map_err(|error| refused(error.to_string()))?;
    let seeds = urls.iter().map(|url| {
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| refused(example()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Address::new(host, url.port().unwrap_or(PORT)))
    });
    let seeds = seeds.collect::<Result<Vec<_>, _>>()?;
    let first = &urls[0];
    if !matches!(first.path(), "" | "/" | "/0") {
        let database = first.path().trim_start_matches('/');
        return Err(refused(format!("a cluster has database 0 only, and '{database}' is another")));
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
    let user = Some(first.username()).filter(|user| !user.is_empty()).map(decoded).transpose();
    let password = first.password().filter(|word| !word.is_empty());
    // Any bytes.
    let password = password.map(|word| percent_decode_str(word).collect::<Vec<u8>>());
    let mut settings = Settings {
        seeds,
        tls: None,
        user: user.map_err(|error| refused(error.to_string()))?,
        password: password.map(Secret),
        connect_timeout: CONNECT_TIMEOUT,
        response_timeout: RESPONSE_TIMEOUT,
        limits: ReplyLimits::default(),
        protocol: Protocol::default(),
        others: Vec::new(),
    };
    if settings.user.is_some() && settings.password.is_none() {
        return Err(refused("a user without a password; write redis://user:password@host".into()));
    }
    parameters(first, scheme == "rediss", others, &mut settings).map_err(refused)?;
    Ok(settings)
}

fn parameters(url: &Url, is_tls: bool, others: &[&str], settings: &mut Settings) -> Result<(), String> {
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
            "tls-ca" => ca = Some(value.into_owned()),
            "tls-name" => name = Some(value.into_owned()),
            "tls-cert" => certificate = Some(value.into_owned()),
            "tls-key" => key_file = Some(value.into_owned()),
            other if others.contains(&other) => settings.others.push((key.into_owned(), value.into_owned())),
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
        (Some(certificate), Some(key)) => {
            tls.with_client_certificate(&ClientCertificate::read(&certificate, &key)?)?
        }
        _ => return Err("tls-cert and tls-key go together".into()),
    });
    Ok(())
}

/// What a URL sets.
#[cfg(test)]
pub(crate) fn settings(url: &str) -> Settings {
    parse(url, &[]).expect("a URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        parse(url, &["grants"]).unwrap_err().to_string()
    }

    fn password(settings: &Settings) -> Option<&str> {
        settings.password.as_ref().map(|it| std::str::from_utf8(it).expect("text"))
    }

    #[test]
    fn urls_are_read() {
        let it = parse(
            "redis://ada:p%40ss@10.0.0.1:7001,[::1]:7002,db/0?response-timeout-ms=250&grants=poll",
            &["grants"],
        )
        .unwrap();
        let seeds: Vec<String> = it.seeds.iter().map(Address::to_string).collect();
        assert_eq!(seeds, ["10.0.0.1:7001", "[::1]:7002", "db:6379"]);
        assert_eq!((it.user.as_deref(), password(&it)), (Some("ada"), Some("p@ss")));
        assert_eq!(it.response_timeout, Duration::from_millis(250));
        assert_eq!(it.others(), [("grants".to_owned(), "poll".to_owned())]);
        assert!(it.tls.is_none());
        let it = parse("redis://:secret@localhost", &[]).unwrap();
        assert_eq!((it.user.as_deref(), password(&it)), (None, Some("secret")));
        let it = settings("redis://:%ff%00@h");
        assert_eq!(it.password.as_ref().map(|it| &it[..]), Some(&b"\xff\0"[..]));
        assert!(parse("rediss://localhost?tls-name=db.example", &[]).unwrap().tls.is_some());
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
        assert!(refused("redis://").contains("is not the address"));
        assert!(refused("redis://ada@h").contains("without a password"));
        assert!(refused("redis://h/?timeout=1").contains("no parameter 'timeout'"));
        assert!(refused("redis://h/?connect-timeout-ms=soon").contains("milliseconds"));
        assert!(refused("redis://h/?tls-ca=x").contains("rediss"));
        assert!(refused("redis://h/?tls-key=x").contains("rediss"));
        assert!(refused("rediss://h/?tls-cert=x").contains("go together"));
        assert!(refused("rediss://h/?tls-cert=/nowhere/c.pem&tls-key=k").contains("/nowhere/c.pem"));
        assert!(refused("rediss://h/?tls-ca=/nowhere/ca.pem").contains("/nowhere/ca.pem"));
    }
}
