//! How nodes of one cluster know that a message is of one of them: a secret that all of them have, and a keyed hash.

use std::fmt;

use ring::hmac;

/// What every signature begins with, so that one made for anything else is never taken for one of these.
const DOMAIN: &[u8] = b"claret peer\0";

/// So many bytes a secret has at least.
const BYTES_MIN: usize = 16;

/// A secret that the nodes of a cluster share, and nobody else knows. It shows nothing of itself.
pub struct PeerSecret(hmac::Key);

/// A keyed hash (HMAC-SHA-256).
pub type PeerSignature = [u8; 32];

impl PeerSecret {
    /// `None`: it is too short to be one; 16 bytes are the least.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= BYTES_MIN).then(|| PeerSecret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// Signs bytes that go from one node to another, named so that no two names are alike. O(bytes).
    pub fn sign(&self, from: &[u8], to: &[u8], bytes: &[u8]) -> PeerSignature {
        let mut signature = [0; 32];
        signature.copy_from_slice(hmac::sign(&self.0, &said(from, to, bytes)).as_ref());
        signature
    }

    /// Whether somebody who knows the secret signed just that. O(bytes), and takes the same time wherever it differs.
    pub fn verify(&self, from: &[u8], to: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.0, &said(from, to, bytes), signature).is_ok()
    }
}

/// Each name with its length before it, so that nothing of one is taken for the other.
fn said(from: &[u8], to: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut said = Vec::with_capacity(DOMAIN.len() + from.len() + to.len() + bytes.len() + 16);
    said.extend_from_slice(DOMAIN);
    for name in [from, to] {
        said.extend_from_slice(&(name.len() as u64).to_le_bytes());
        said.extend_from_slice(name);
    }
    said.extend_from_slice(bytes);
    said
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::PeerSecret;

    #[test]
    fn a_signature_is_of_one_message_one_sender_one_receiver_and_one_secret() {
        let secret = PeerSecret::new(b"sixteen bytes...").expect("long enough");
        let signature = secret.sign(b"a", b"b", b"text");
        assert!(secret.verify(b"a", b"b", b"text", &signature));
        for (from, to, text) in [(b"a", b"b", b"texT"), (b"b", b"a", b"text"), (b"a", b"c", b"text")] {
            assert!(!secret.verify(from, to, text, &signature));
        }
        assert!(!secret.verify(b"ab", b"", b"text", &signature), "names keep their places");
        assert!(!secret.verify(b"a", b"b", b"text", &signature[..31]));
        let other = PeerSecret::new(b"sixteen bytes..!").expect("long enough");
        assert!(!other.verify(b"a", b"b", b"text", &signature));
    }

    #[test]
    fn a_short_secret_is_none_and_none_is_shown() {
        assert!(PeerSecret::new(b"fifteen bytes..").is_none());
        let shown = format!("{:?}", PeerSecret::new(b"sixteen bytes..."));
        assert_eq!(shown, "Some(PeerSecret(..))");
    }
}
