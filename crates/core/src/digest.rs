//! Digests of state machines, for a search that has to know whether it was in a state before.
//!
//! Two machines of one digest behave alike from here on. What has no say in what comes next is left out: counts for
//! people, the order of hash maps, places in slabs, sums that `check_invariants` compares with their parts, and
//! switches and limits, which do not change. Left out as well is the next unique number, which grows with every
//! call: a search must not use operations that draw one (`UID.NEXT`).
//!
//! Equal digests of different machines are a matter of 64 bits. A field that is added to a machine does not compile
//! until somebody decides on it here: the digests take machines apart by name.

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
