//! Where the capacity of a TopK is kept: in a string beside its sorted set, in the same slot.
//!
//! | the record's key | beside it | why it is the same slot |
//! |---|---|---|
//! | `bids` (no hash tag) | `{bids}:k` | the tag is the whole key |
//! | `{shop}bids` (a hash tag) | `{shop}bids::k` | the tag stays the first one |
//! | `a}b` (no hash tag, but a brace that would end one) | `{N}a}b:k` | N is the first number whose slot is the key's |
//!
//! No two records share such a string: the first form ends in `}:k`, the second in `::k`, and only the third has a
//! further closing brace between its first brace and its end.

use claret_planted::{Bug, is_planted};

use crate::parts::slots::{hash_tag, slot_of};

/// The key beside a TopK's own.
pub(crate) fn side_key(key: &[u8]) -> Vec<u8> {
    if hash_tag(key).is_some() {
        return [key, b"::k"].concat();
    }
    if !key.is_empty() && !key.contains(&b'}') {
        let is_elsewhere = is_planted(Bug::SideInOtherSlot);
        return if is_elsewhere { [key, b":k"].concat() } else { [b"{", key, b"}:k"].concat() };
    }
    let slot = slot_of(key);
    let number = (0_u32..).map(|number| number.to_string()).find(|number| slot_of(number.as_bytes()) == slot);
    let number = number.expect("every slot has a number");
    [b"{", number.as_bytes(), b"}", key, b":k"].concat()
}

#[cfg(test)]
mod tests {
    use super::side_key;
    use crate::parts::slots::slot_of;

    #[test]
    fn it_is_in_the_slot_of_the_record() {
        let keys = ["bids", "{shop}bids", "{}x", "a}b", "a}", "}", "{", "a{b", "{a", "", "{{}}", "x{y}z{w}"];
        for key in keys {
            let side = side_key(key.as_bytes());
            assert_eq!(slot_of(&side), slot_of(key.as_bytes()), "{key}: {}", String::from_utf8_lossy(&side));
        }
    }

    #[test]
    fn it_is_named_as_the_documentation_says_and_is_nobody_elses() {
        assert_eq!(side_key(b"bids"), b"{bids}:k");
        assert_eq!(side_key(b"{bids}"), b"{bids}::k");
        assert_eq!(side_key(b"{shop}bids"), b"{shop}bids::k");
        assert!(side_key(b"a}b").ends_with(b"}a}b:k"));
    }
}
