//! TLS on loopback: an authority made for one cluster, the certificates that it signed, and connections that use them.
//!
//! The authority's key is never written: nobody can sign another certificate that these servers accept.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use redis::{ClientTlsConfig, ErrorKind, RedisError, RedisResult, TlsCertificates};
use url::Url;

use crate::RigError;
use crate::folder::{quoted, write_private};

/// What the certificates are for: where servers of this crate listen.
const HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

const AUTHORITY: &str = "ca.pem";
const NODE: [&str; 2] = ["node.pem", "node.key"];
const CLIENT: [&str; 2] = ["client.pem", "client.key"];

/// What does not stand for itself in a parameter of a URL.
const IN_PARAMETER: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'&').add(b'+').add(b'@');

/// The certificates of an authority of their own, in a directory: one for the servers, one for their clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// Makes them, in this directory. Only its owner may read the keys.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn make(dir: &Path) -> Result<Self, RigError> {
        std::fs::create_dir_all(dir).map_err(|error| RigError::io("creating", dir, error))?;
        let made = Certificates(dir.canonicalize().map_err(|error| RigError::io("finding", dir, error))?);
        let failed = |error: &dyn Display| RigError::Certificates(error.to_string());
        let key = || KeyPair::generate().map_err(|error| failed(&error));
        let mut params = params("claret: the authority of a local cluster")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let authority = CertifiedIssuer::self_signed(params, key()?).map_err(|error| failed(&error))?;
        made.write(AUTHORITY, &authority.as_ref().pem())?;
        // A node is a client of the others.
        let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        for ([certificate, key_file], name, usages) in [
            (NODE, "claret: a node of a local cluster", both),
            (CLIENT, "claret: a client of a local cluster", vec![ExtendedKeyUsagePurpose::ClientAuth]),
        ] {
            let mut params = self::params(name)?;
            params.extended_key_usages = usages;
            let key = key()?;
            let signed = params.signed_by(&key, &authority).map_err(|error| failed(&error))?;
            made.write(certificate, &signed.pem())?;
            made.write(key_file, &key.serialize_pem())?;
        }
        Ok(made)
    }

    /// Those that [`make`](Certificates::make) has made in this directory.
    pub fn of(dir: impl Into<PathBuf>) -> Self {
        Certificates(dir.into())
    }

    /// The file of the authority whose certificates to trust.
    pub fn authority(&self) -> PathBuf {
        self.0.join(AUTHORITY)
    }

    /// The files of the clients' certificate and of its key.
    pub fn client(&self) -> [PathBuf; 2] {
        CLIENT.map(|name| self.0.join(name))
    }

    /// The parameters of a URL by which a client uses them, `?` included.
    pub fn parameters(&self) -> String {
        let text = |path: PathBuf| utf8_percent_encode(&path.display().to_string(), IN_PARAMETER).to_string();
        let [certificate, key] = self.client().map(text);
        format!("?tls-ca={}&tls-cert={certificate}&tls-key={key}", text(self.authority()))
    }

    /// The lines of a server's configuration: TLS on this port and nothing else, for clients, between nodes and from
    /// master to replica; and nobody without a certificate.
    pub(crate) fn config(&self, port: u16) -> Vec<String> {
        let [certificate, key] = NODE.map(|name| quoted(&self.0.join(name)));
        vec![
            "port 0".to_owned(),
            format!("tls-port {port}"),
            "tls-cluster yes".to_owned(),
            "tls-replication yes".to_owned(),
            "tls-auth-clients yes".to_owned(),
            format!("tls-ca-cert-file {}", quoted(&self.authority())),
            format!("tls-cert-file {certificate}"),
            format!("tls-key-file {key}"),
        ]
    }

    fn write(&self, name: &str, text: &str) -> Result<(), RigError> {
        let path = self.0.join(name);
        write_private(&path, text).map_err(|error| RigError::io("writing", &path, error))
    }
}

fn params(name: &str) -> Result<CertificateParams, RigError> {
    let hosts = HOSTS.map(str::to_owned).to_vec();
    let mut params =
        CertificateParams::new(hosts).map_err(|error| RigError::Certificates(error.to_string()))?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// A client for a URL with `tls-ca`, `tls-cert` and `tls-key`, as Claret's own takes them. `tls-name` cannot be honoured here, so
/// it is refused.
pub(crate) fn client(url: &str) -> RedisResult<redis::Client> {
    let failed = |what: &str, why: &dyn Display| -> RedisError {
        (ErrorKind::InvalidClientConfig, "TLS", format!("{what}: {why}")).into()
    };
    let mut parsed = Url::parse(url).map_err(|error| failed("URL", &error))?;
    let file = |path: &str| std::fs::read(path).map_err(|error| failed(path, &error));
    let (mut root_cert, mut certificate, mut key) = (None, None, None);
    for (name, value) in parsed.query_pairs() {
        match &*name {
            "tls-ca" => root_cert = Some(file(&value)?),
            "tls-cert" => certificate = Some(file(&value)?),
            "tls-key" => key = Some(file(&value)?),
            "tls-name" => return Err(failed("tls-name", &"not possible where servers are compared")),
            // Of Claret's connections alone.
            _ => {}
        }
    }
    let client_tls = match (certificate, key) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(failed("tls-cert and tls-key", &"they go together"));
        }
    };
    parsed.set_query(None);
    redis::Client::build_with_tls(parsed.as_str(), TlsCertificates { client_tls, root_cert })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_signs_stand_in_a_url() {
        let text = Certificates::of("/tmp/a b&c#d%e+f@g").parameters();
        let url = Url::parse(&format!("rediss://h:1/{text}")).expect("a URL");
        let values: Vec<String> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
        assert_eq!(
            values,
            ["ca.pem", "client.pem", "client.key"].map(|name| format!("/tmp/a b&c#d%e+f@g/{name}"))
        );
        assert!(!text.contains('@') && Certificates::of("/a/b").parameters().contains("=/a/b/ca.pem"));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (url, named) in [
            ("rediss://h:1/?tls-name=x", "tls-name"),
            ("rediss://h:1/?tls-cert=/dev/null", "go together"),
            ("rediss://h:1/?tls-ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ] {
            let error = client(url).expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
