//! What a replica of a strict primary knows, and what a node without a shard has heard of others (S11, S14 of
//! `docs/replication.md`).

use std::collections::BTreeMap;

use claret_core::Backup;
use claret_planted::{Bug, is_planted};

use crate::parts::seals::Position;

/// What a replica keeps.
#[derive(Default)]
pub(crate) struct Following {
    pub(crate) backup: Backup,
    /// The node that told it, and its last batch.
    pub(crate) source: Option<String>,
    pub(crate) position: Option<Position>,
    /// Of a node that was the shard itself: who followed it then, and may have taken its place.
    pub(crate) heirs: Vec<String>,
    /// What is known is what a file had, or a full sync brought, and what was told on top of that: nobody has said since that this is
    /// all.
    pub(crate) is_of_file: bool,
    /// Who followed this node when it began to load its files.
    pub(crate) followed_by: Vec<String>,
    /// What is known is to be written into this node's append-only file.
    pub(crate) is_to_be_written: bool,
    /// Whom this node followed last, as a replica.
    pub(crate) followed: Option<String>,
    /// What this node's replicas said that they know, since it has no shard.
    pub(crate) known: BTreeMap<String, Option<Position>>,
    /// The number of the question to which they said so.
    pub(crate) asks: u64,
    /// What was logged of what this node waits for before it begins.
    pub(crate) said: String,
}

impl Following {
    /// How much it knows of the shard of the node that it follows, or followed last, if it knows everything that somebody knew once. A
    /// node may have been given to another primary before that told it anything: then it knows of a shard that goes on elsewhere.
    pub(crate) fn complete(&self) -> Option<Position> {
        let is_of_shard = match &self.followed {
            Some(followed) => self.source.as_ref() == Some(followed) || self.heirs.contains(followed),
            None => true,
        };
        self.position.filter(|_| is_of_shard && self.backup.shard().is_some())
    }

    /// The same, if that is what the very node has told that this one followed: nobody can know more who counts. A file may be older
    /// than what was acknowledged.
    pub(crate) fn whole(&self) -> Option<Position> {
        let is_of_primary = self.source.is_some() && self.source == self.followed;
        let is_of_primary = is_of_primary && (!self.is_of_file || is_planted(Bug::FileSaysAll));
        self.complete().filter(|_| is_of_primary)
    }

    pub(crate) fn votes(&self) -> usize {
        self.backup.votes()
    }
}

#[cfg(test)]
mod tests {
    use claret_core::{Change, Incarnation, ShardId};

    use super::Following;
    use crate::parts::seals::Position;

    fn told_by(source: &str, heirs: &[&str]) -> Following {
        let mut following = Following {
            source: Some(source.to_owned()),
            position: Some(Position { incarnation: Incarnation(1), batch: 2 }),
            heirs: heirs.iter().map(|&heir| heir.to_owned()).collect(),
            ..Following::default()
        };
        following.backup.take(Change::Began { shard: ShardId(7), since: Incarnation(1) });
        following
    }

    fn following(mut it: Following, followed: &str) -> [bool; 2] {
        it.followed = Some(followed.to_owned());
        [it.complete().is_some(), it.whole().is_some()]
    }

    #[test]
    fn what_was_told_counts_for_the_shard_that_it_is_of() {
        assert_eq!(following(told_by("primary", &[]), "primary"), [true, true]);
        assert_eq!(
            following(told_by("primary", &[]), "another"),
            [false, false],
            "it was given to another one"
        );
        assert_eq!(following(told_by("itself", &["heir"]), "heir"), [true, false], "it was replaced");
        assert_eq!(following(told_by("itself", &["heir"]), "another"), [false, false]);
        let of_file = Following { is_of_file: true, ..told_by("primary", &[]) };
        assert_eq!(
            following(of_file, "primary"),
            [true, false],
            "the others are asked whether they know more"
        );
    }
}
