//! What became of a transaction whose caller heard that nobody knows ([`Error::Unknown`](crate::Error::Unknown)): an id that can be asked about, also by
//! another process, and what the store answers.

use std::fmt;
use std::str::FromStr;

use claret_core::Asked;
use thiserror::Error as Describe;

/// What became of a transaction: [`Store::outcome`](crate::Store::outcome).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// All of it is done, for good.
    Committed,
    /// Nothing of it was or will be done.
    Aborted,
    /// It is not decided yet, or whoever knows does not answer: ask again, after a moment.
    NotYet,
    /// It is over, and nobody knows any more how: too long ago, or a shard lost its memory. Look at what it would have written.
    Forgotten,
}

/// Names a transaction whose outcome its caller did not learn, for [`Store::outcome`](crate::Store::outcome). As a text, by `to_string` and `parse`,
/// it can be kept and given to another process.
#[derive(Clone, PartialEq, Eq)]
pub struct OutcomeId(Box<Named>);

/// How a store finds a transaction again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Nobody can: it left no name anywhere.
    Nobody,
    /// On a cluster.
    Shards(Asked),
    /// In a log.
    Log(LogPlace),
}

/// Where the end of a transaction stands in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    /// Which store.
    pub(crate) store: u64,
    /// Which opening of it.
    pub(crate) life: u64,
    /// It stands behind this position...
    pub(crate) from: u64,
    /// ...and is whole at this one.
    pub(crate) to: u64,
}

/// A text that is no [`OutcomeId`].
#[derive(Clone, Debug, PartialEq, Eq, Describe)]
#[error("'{0}' names no transaction; give what OutcomeId wrote")]
pub struct NoOutcomeId(String);

impl OutcomeId {
    pub(crate) fn new(named: Named) -> Self {
        OutcomeId(Box::new(named))
    }

    /// Of a transaction that left no name. [`Outcome::Forgotten`] is all that a store says of it.
    pub(crate) fn nobody() -> Self {
        OutcomeId::new(Named::Nobody)
    }

    pub(crate) fn named(&self) -> &Named {
        &self.0
    }
}

const NOBODY: &str = "none";
const SHARDS: &str = "tx:";
const LOG: &str = "log:";

impl fmt::Display for OutcomeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Named::Nobody => f.write_str(NOBODY),
            Named::Shards(asked) => write!(f, "{SHARDS}{asked}"),
            Named::Log(LogPlace { store, life, from, to }) => {
                write!(f, "{LOG}{store:016x}.{life:016x}/{from}-{to}")
            }
        }
    }
}

impl fmt::Debug for OutcomeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutcomeId({self})")
    }
}

impl FromStr for OutcomeId {
    type Err = NoOutcomeId;

    fn from_str(text: &str) -> Result<Self, NoOutcomeId> {
        read(text).map(OutcomeId::new).ok_or_else(|| NoOutcomeId(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Named> {
    if text == NOBODY {
        return Some(Named::Nobody);
    }
    if let Some(asked) = text.strip_prefix(SHARDS) {
        return asked.parse().ok().map(Named::Shards);
    }
    let (life, place) = text.strip_prefix(LOG)?.split_once('/')?;
    let ((store, life), (from, to)) = (life.split_once('.')?, place.split_once('-')?);
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let place =
        LogPlace { store: hex(store)?, life: hex(life)?, from: from.parse().ok()?, to: to.parse().ok()? };
    Some(Named::Log(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let place = LogPlace { store: 7, life: u64::MAX, from: 3, to: 90 };
        let asked: Asked = "7.9/2@1:5,3".parse().expect("an attempt");
        for named in [Named::Nobody, Named::Shards(asked), Named::Log(place)] {
            let id = OutcomeId::new(named);
            assert_eq!(id.to_string().parse(), Ok(id.clone()), "{id}");
        }
        for wrong in ["", "tx:", "tx:1.2/3", "log:1.2/3", "log:1/3-4", "log:x.2/3-4", "7.9/2@1"] {
            assert_eq!(wrong.parse::<OutcomeId>(), Err(NoOutcomeId(wrong.to_owned())), "{wrong}");
        }
    }
}
