//! TLS by `rustls`: which certificates are trusted, and under which name.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// See the module's text.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tls {
    /// Trusts the certificates in a file, or those that the system trusts.
    pub(super) fn new(ca: Option<&str>, name: Option<String>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(path) => {
                let wrong = |error: &dyn fmt::Display| format!("tls-ca: {path}: {error}");
                let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
                for certificate in certificates {
                    let certificate = certificate.map_err(|error| wrong(&error))?;
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
                if roots.is_empty() {
                    return Err(wrong(&"no certificate in it"));
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        if let Some(name) = &name {
            ServerName::try_from(name.as_str()).map_err(|error| format!("tls-name: '{name}': {error}"))?;
        }
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// The name that a server's certificate must be for.
    pub(super) fn name_of(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.name.as_deref().unwrap_or(host).to_owned();
        ServerName::try_from(name).map_err(|error| format!("'{host}' is no name for TLS: {error}"))
    }
}
