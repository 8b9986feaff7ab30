//! Digests of state machines, for a search that must know whether it has seen a state before.
//!
//! Two machines with one digest behave alike from here on. A digest leaves out what does not influence what comes
//! next: counts for people, the order of hash maps, places in slabs, sums that `check_invariants` compares with their
//! parts, and switches and limits, which do not change. It also leaves out the next unique number, which grows with
//! every call, so a search must not use operations that draw one (`UID.NEXT`).
//!
//! Digests have 64 bits, so different machines rarely share one. The digests destructure machines by name, so a new
//! field does not compile until somebody decides here whether it counts.

use std::fmt::{self, Write};
use std::hash::{BuildHasher, Hasher};

/// The digest of a value's `Debug` text.
pub fn digest(value: &impl fmt::Debug) -> u64 {
    struct Text<H>(H);
    impl<H: Hasher> fmt::Write for Text<H> {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            self.0.write(piece.as_bytes());
            self.0.write_u8(0xff); // No byte of a text.
            Ok(())
        }
    }
    let mut text = Text(foldhash::quality::FixedState::with_seed(0x6469_6765).build_hasher());
    write!(text, "{value:?}").expect("hashing does not fail");
    text.0.finish()
}
