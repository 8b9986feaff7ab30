//! What the shard remembers, in the server's files (S15 of `docs/replication.md`).
//!
//! In an RDB file: a form, and after the first form a node, an incarnation, a batch, and changes in parts, of which the last is empty.

use claret_core::{Backup, Change, wire};
use claret_planted::{Bug, is_planted};

use super::{Node, settings};
use crate::ffi::{Ctx, Flag, Loaded, Log, Saved};
use crate::parts::seals::{self, Position};

/// What is told has this form; another one is not read.
pub(super) const FORM: u64 = seals::FORM as u64;

/// In a file of a node that has nothing to save.
const NOTHING: u64 = 0;

/// Changes of everything can be long. They go in parts that are not much longer than this.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Changes, encoded in parts.
pub(super) fn in_parts(changes: impl Iterator<Item = Change>, mut take: impl FnMut(&[u8])) {
    let mut part = Vec::new();
    for change in changes {
        part.append(&mut wire::encode_change(&change).expect("the types of a module are built in"));
        if part.len() > PART_BYTES {
            take(&std::mem::take(&mut part));
        }
    }
    if !part.is_empty() {
        take(&part);
    }
}

impl Node {
    /// Into an RDB file.
    pub(crate) fn save(&self, file: &Saved) {
        let following = &self.strict.following;
        let (source, position) = match (&self.shard, &following.source, following.position) {
            (Some(shard), ..) => (
                self.own(),
                Position { incarnation: shard.incarnation(), batch: self.strict.telling.told.last() },
            ),
            (None, Some(source), Some(position)) => (source.clone(), position),
            (None, ..) => return Self::save_nothing(file),
        };
        file.number(FORM);
        file.bytes(source.as_bytes());
        file.number(position.incarnation.0);
        file.number(position.batch);
        let save_part = |part: &[u8]| file.bytes(part);
        match &self.shard {
            Some(shard) => in_parts(shard.all_changes(), save_part),
            None => in_parts(following.backup.changes(), save_part),
        }
        file.bytes(b"");
    }

    pub(crate) fn save_nothing(file: &Saved) {
        file.number(NOTHING);
    }

    /// Out of an RDB file, behind the records. `None`: the file is damaged, and the server refuses it.
    pub(crate) fn load(&mut self, ctx: Ctx, file: &Loaded) -> Option<()> {
        let form = file.number()?;
        if form == NOTHING {
            return Some(());
        }
        let (source, position) = (file.bytes()?, Position::of(file.number()?, file.number()?)?);
        let mut backup = Ok(Backup::default());
        loop {
            let part = file.bytes()?;
            if part.is_empty() {
                break;
            }
            if form == FORM && settings::is_strict() {
                backup = backup.and_then(|backup| read_changes(backup, &part));
            }
        }
        if !settings::is_strict() || is_planted(Bug::FilesHaveNothing) {
            return Some(());
        }
        match backup {
            _ if form != FORM => {
                let text = format!(
                    "the file has votes in form {form}, and this module reads form {FORM}: they are left, and the others are asked"
                );
                ctx.log(Log::Warning, &text);
            }
            Ok(backup) => {
                self.strict.following.backup = backup;
                self.strict.following.source = Some(String::from_utf8_lossy(&source).into_owned());
                self.strict.following.position = Some(position);
                self.strict.following.is_of_file = true;
                self.note_heirs();
            }
            Err(error) => {
                let text = format!(
                    "the file has votes that cannot be read: {error}; restore it, or the node without it"
                );
                ctx.log(Log::Warning, &text);
                return None;
            }
        }
        Some(())
    }

    /// The server begins to load a file of its own. What is in it was written while these followed this node.
    pub(crate) fn begins_to_load(&mut self, ctx: Ctx) {
        self.forget_backup();
        self.keyspace.renew(ctx);
        let followers = self.keyspace.view(|view| view.members().followers.clone()).unwrap_or_default();
        self.strict.following.followed_by = followers.into_iter().map(|(id, _)| id).collect();
    }

    /// Of this node itself when it was the shard: those who followed it may have taken its place.
    pub(super) fn note_heirs(&mut self) {
        let is_own = self.strict.following.source.as_ref() == Some(&self.own());
        self.strict.following.heirs =
            if is_own { self.strict.following.followed_by.clone() } else { Vec::new() };
    }

    /// The server has forked. If that is to rewrite its append-only file, the new one begins with records alone, unless it begins like an
    /// RDB file.
    pub(crate) fn forked(&mut self, ctx: Ctx) {
        let is_rewritten = settings::is_strict() && ctx.is(Flag::Aof) && begins_with_commands(ctx);
        if !is_rewritten || is_planted(Bug::RewriteUntold) {
            return;
        }
        match &self.shard {
            Some(_) => self.replica_came(ctx),
            None => {
                self.strict.following.is_to_be_written = true;
                self.come_back(ctx, 0);
            }
        }
    }

    /// A replica writes what it knows into its own append-only file: nothing else is passed on from here.
    pub(super) fn write_backup(&mut self, ctx: Ctx) {
        let following = &mut self.strict.following;
        if !following.is_to_be_written || Ctx::must_not_write() {
            return;
        }
        following.is_to_be_written = false;
        let (Some(source), Some(position)) = (&following.source, following.position) else { return };
        if !ctx.is(Flag::Replica) {
            return;
        }
        let changes = following.backup.changes();
        in_parts(changes, |part| pass_on(ctx, source, position, part));
    }

    pub(super) fn own(&self) -> String {
        self.keyspace.view(|view| view.members().own.clone()).unwrap_or_default()
    }
}

/// What a part says, on top of what is known.
pub(super) fn read_changes(mut backup: Backup, mut part: &[u8]) -> Result<Backup, wire::WireError> {
    while !part.is_empty() {
        let (change, behind) = wire::decode_change(part)?;
        backup.take(change);
        part = behind;
    }
    Ok(backup)
}

/// To replicas and the append-only file, together with all else that the entry passes on.
pub(super) fn pass_on(ctx: Ctx, source: &str, position: Position, part: &[u8]) {
    let numbers = [FORM, position.incarnation.0, position.batch].map(|number| number.to_string());
    let [form, incarnation, batch] = numbers.each_ref().map(|number| number.as_bytes());
    ctx.replicate(c"CLARET.CHANGES", &[form, source.as_bytes(), incarnation, batch, part]);
}

fn begins_with_commands(ctx: Ctx) -> bool {
    ctx.config("aof-use-rdb-preamble").is_some_and(|value| value.as_str() == Some("no"))
}
