//! Who a client process is (`docs/security.md`).
//!
//! A process draws an Ed25519 key pair. The seed is its secret: it never leaves the process. The number of its session
//! is made of the public key, so that whoever knows the number can neither claim it with another key nor speak for it.
//! At each node a connection proves the session anew: it signs a [`Statement`], in which there is a challenge that this
//! node has drawn for this connection, and that is worth nothing on another connection or at another node.
//!
//! Nothing here draws random numbers: seeds and challenges are given.

mod peers;

use std::fmt;

use claret_core::{SessionId, ShardId};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

pub use peers::{PeerSecret, PeerSignature};

/// What every signature begins with, so that one made for anything else is never taken for one of these.
const DOMAIN: &[u8] = b"claret hello\0";

/// Bytes that travel as hexadecimal digits.
macro_rules! hexadecimal {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// Reads so many digits, two a byte.
            pub fn parse(digits: &[u8]) -> Option<Self> {
                let mut bytes = [0; $bytes];
                if digits.len() != 2 * bytes.len() {
                    return None;
                }
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
                    *byte = (high? << 4 | low?) as u8;
                }
                Some($name(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

hexadecimal! {
    /// What everybody may know of an [`Identity`].
    PublicKey, 32
}
hexadecimal! {
    /// What a node draws for one greeting on one connection.
    Challenge, 32
}
hexadecimal! {
    /// Proves a [`Statement`].
    Signature, 64
}

/// A client process, to itself.
pub struct Identity {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// What a client process says of one of its connections to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The version of the wire.
    pub version: u16,
    /// The shard at which it is said, as the node told it with its challenge.
    pub shard: ShardId,
    /// What the node has drawn for this.
    pub challenge: Challenge,
    /// Who speaks.
    pub session: SessionId,
    /// Which of the session's connections this is.
    pub connection: u32,
    /// The words that say how the session hears of what arises later.
    pub way: &'a [&'a [u8]],
}

impl Identity {
    /// Of 32 random bytes, which are the secret.
    pub fn of_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed of 32 bytes is one");
        let public = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
        Identity { pair, public: PublicKey(public) }
    }

    /// What others may know.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Its session.
    pub fn session(&self) -> SessionId {
        self.public.session()
    }

    /// Proves that a statement is this process's.
    pub fn sign(&self, statement: &Statement<'_>) -> Signature {
        let signature = self.pair.sign(&statement.bytes());
        Signature(signature.as_ref().try_into().expect("a signature has 64 bytes"))
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("session", &self.session().0).finish_non_exhaustive()
    }
}

impl PublicKey {
    /// The session of whoever has the key: the first eight bytes of its SHA-256.
    pub fn session(&self) -> SessionId {
        let hash = digest(&SHA256, &self.0);
        SessionId(u64::from_le_bytes(hash.as_ref()[..8].try_into().expect("eight bytes")))
    }

    /// Whether its owner has signed the statement.
    pub fn verify(&self, statement: &Statement<'_>, signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(&statement.bytes(), &signature.0).is_ok()
    }
}

impl Statement<'_> {
    /// What is signed. Each part has a fixed length or its length before it, so no two statements have the same bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.shard.0.to_le_bytes());
        bytes.extend(self.challenge.0);
        bytes.extend(self.session.0.to_le_bytes());
        bytes.extend(self.connection.to_le_bytes());
        for word in self.way {
            bytes.extend((word.len() as u64).to_le_bytes());
            bytes.extend(*word);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement<'static> {
        Statement {
            version: 4,
            shard: ShardId(9),
            challenge: Challenge([7; 32]),
            session: Identity::of_seed(&[1; 32]).session(),
            connection: 3,
            way: &[b"PUSH", b"claret:u:x"],
        }
    }

    #[test]
    fn every_part_of_a_statement_is_signed() {
        let (identity, told) = (Identity::of_seed(&[1; 32]), statement());
        let signature = identity.sign(&told);
        assert!(identity.public().verify(&told, &signature));
        for other in [
            Statement { version: 5, ..told },
            Statement { shard: ShardId(8), ..told },
            Statement { challenge: Challenge([6; 32]), ..told },
            Statement { session: SessionId(1), ..told },
            Statement { connection: 4, ..told },
            Statement { way: &[b"PUSH", b"claret:u:y"], ..told },
            Statement { way: &[b"PUSHc", b"laret:u:x"], ..told },
            Statement { way: &[b"POLL"], ..told },
            Statement { way: &[], ..told },
        ] {
            assert!(!identity.public().verify(&other, &signature), "{other:?}");
        }
        let stranger = Identity::of_seed(&[2; 32]);
        assert!(!stranger.public().verify(&told, &signature));
        assert!(!identity.public().verify(&told, &stranger.sign(&told)));
        for byte in 0..signature.0.len() {
            let mut forged = signature;
            forged.0[byte] ^= 1;
            assert!(!identity.public().verify(&told, &forged), "byte {byte}");
        }
    }

    #[test]
    fn a_session_is_a_number_of_the_key_alone() {
        let public = Identity::of_seed(&[1; 32]).public();
        assert_eq!(public.session(), Identity::of_seed(&[1; 32]).session());
        let mut other = public;
        other.0[31] ^= 1;
        assert_ne!(public.session(), other.session());
    }

    #[test]
    fn the_secret_is_not_shown() {
        let shown = format!("{:?}", Identity::of_seed(&[0xab; 32]));
        assert!(!shown.to_lowercase().contains("abab") && !shown.contains("171, 171"), "{shown}");
        let session = Identity::of_seed(&[0xab; 32]).session().0.to_string();
        assert!(shown.contains(&session), "{shown}");
    }

    #[test]
    fn keys_are_read_as_they_are_shown() {
        let public = Identity::of_seed(&[1; 32]).public();
        assert_eq!(PublicKey::parse(public.to_string().as_bytes()), Some(public));
        for wrong in ["", "ab", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"+1".repeat(32)] {
            assert_eq!(PublicKey::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
