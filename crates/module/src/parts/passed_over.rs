//! Keys at which a blocking pop was passed over because a transaction held them. They are signalled when they are
//! free.

use std::collections::BTreeSet;

use claret_types::Bytes;

/// See the module's text.
#[derive(Default)]
pub(crate) struct PassedOver(BTreeSet<Bytes>);

impl PassedOver {
    pub(crate) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn note(&mut self, keys: impl IntoIterator<Item = Bytes>) {
        self.0.extend(keys);
    }

    /// Takes those that are free now.
    pub(crate) fn take(&mut self, is_free: impl Fn(&Bytes) -> bool) -> Vec<Bytes> {
        self.0.extract_if(.., |key| is_free(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use claret_types::Bytes;

    use super::PassedOver;

    #[test]
    fn a_key_is_signalled_once_and_when_it_is_free() {
        let mut passed_over = PassedOver::default();
        passed_over.note(["a", "b", "a"].map(Bytes::from));
        assert_eq!(passed_over.take(|key| **key == *b"b"), [Bytes::from("b")]);
        assert!(passed_over.is_any(), "a is held still");
        assert_eq!(passed_over.take(|_| true), [Bytes::from("a")]);
        assert!(!passed_over.is_any() && passed_over.take(|_| true).is_empty());
    }
}
