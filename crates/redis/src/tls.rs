//! TLS by `rustls`: which certificates are trusted, under which name, and the certificate that this process shows.

use std::fmt;
use std::sync::Arc;

use claret_planted::{Bug, is_planted};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::secret::Secret;

/// A certificate of this process with those that it rests on, the own one first, and its private key: both as PEM, and both
/// hidden, as the one is easily given for the other.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: Secret<Vec<u8>>,
    pub(crate) key: Secret<Vec<u8>>,
}

impl ClientCertificate {
    /// From two files.
    pub(crate) fn read(certificate: &str, key: &str) -> Result<Self, String> {
        let read =
            |name: &str, path: &str| std::fs::read(path).map_err(|error| format!("{name}: {path}: {error}"));
        Ok(ClientCertificate {
            certificate: Secret(read("tls-cert", certificate)?),
            key: Secret(read("tls-key", key)?),
        })
    }
}

/// See the module's text.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    roots: Arc<RootCertStore>,
    name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tls {
    /// Trusts the certificates in a file, or those that the system trusts.
    pub(crate) fn new(ca: Option<&str>, name: Option<String>) -> Result<Self, String> {
        let roots = Arc::new(roots(ca)?);
        if let Some(name) = &name {
            ServerName::try_from(name.as_str()).map_err(|error| format!("tls-name: '{name}': {error}"))?;
        }
        Ok(Tls { connector: connector(&roots, None)?, roots, name })
    }

    /// The same, and servers that ask for a certificate see this one.
    pub(crate) fn with_client_certificate(
        mut self,
        client_certificate: &ClientCertificate,
    ) -> Result<Self, String> {
        self.connector =
            connector(&self.roots, Some(client_certificate).filter(|_| !is_planted(Bug::CertificateUnsent)))?;
        Ok(self)
    }

    /// The name that a server's certificate must be for.
    pub(crate) fn name_of(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self
            .name
            .as_deref()
            .filter(|_| !is_planted(Bug::CertificateNameIgnored))
            .unwrap_or(host)
            .to_owned();
        ServerName::try_from(name).map_err(|error| format!("'{host}' is no name for TLS: {error}"))
    }
}

fn roots(ca: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca.filter(|_| !is_planted(Bug::AuthorityIgnored)) else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let unusable = |error: &dyn fmt::Display| format!("tls-ca: {path}: {error}");
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    if roots.is_empty() { Err(unusable(&"no certificate in it")) } else { Ok(roots) }
}

fn connector(
    roots: &Arc<RootCertStore>,
    client_certificate: Option<&ClientCertificate>,
) -> Result<TlsConnector, String> {
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(Arc::clone(roots));
    let config = match client_certificate {
        None => builder.with_no_client_auth(),
        Some(ClientCertificate { certificate, key }) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
            let chain = chain.ok().filter(|chain| !chain.is_empty());
            let chain = chain.ok_or("the client's certificate (tls-cert) is not one in PEM")?;
            // What is wrong with a key is not told: the text might have a part of it.
            let key = PrivateKeyDer::from_pem_slice(key).ok();
            let key =
                key.ok_or("the client's private key (tls-key) is not one in PEM, or needs a passphrase")?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("the client's certificate (tls-cert) and key (tls-key): {error}"))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
