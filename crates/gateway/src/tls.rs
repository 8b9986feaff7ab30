//! TLS towards clients.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| format!("{path}: {error}"))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|error| format!("{path}: {error}"))?;
    if all.is_empty() { Err(format!("{path}: there is no certificate in it")) } else { Ok(all) }
}

/// What shakes hands with clients.
///
/// # Errors
/// Which file cannot be used, and why.
pub(crate) fn acceptor(chain: &str, key: &str, authority: Option<&str>) -> Result<TlsAcceptor, String> {
    let own = certificates(chain)?;
    let key_file = key;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{key_file}: {error}"))?;
    let builder = ServerConfig::builder();
    let builder = match authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| format!("{path}: {error}"))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| format!("{path}: {error}"))?)
        }
    };
    let config =
        builder.with_single_cert(own, key).map_err(|error| format!("{chain}, {key_file}: {error}"))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
