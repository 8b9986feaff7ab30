//! What the filter asks: whether a client's command passes, or gets `CLARET.READ-ANY` or `CLARET.WRITE-ANY` put before
//! it (`CLARET.READ` or `CLARET.WRITE` where the server cannot tell who calls).
//! Commands of a MULTI are checked when they are queued and again at EXEC.
//!
//! The filter does not see reads at replicas, FLUSHALL and its kin (an event reports them), SCAN and KEYS, and a
//! client's own cache.

use claret_core::Shard;
use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, Operation, TypeInfo};

use super::{Node, settings};
use crate::ffi::{Ctx, Filtered, Text, User};
use crate::parts::command_table::{Keys, Row, Special};
use crate::parts::open_multis::Queued;
use crate::parts::owner::{Name, Owner};
use crate::parts::plain;
use crate::parts::queue::is_in_use;
use crate::parts::vanished::Change;
use crate::parts::verdict::{Asked, Asker, Look, Standing, Verdict};

/// Whether a command is queued for an EXEC, and not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queues {
    Yes,
    No,
    /// Somebody has a MULTI open, and the server does not tell who sent this.
    Perhaps,
}

impl Node {
    /// What is known of a command that needs a closer look. Every command of every client passes here, so this only reads, and
    /// asks what is cheap to know first: mostly nothing is held, and else mostly other keys.
    #[inline]
    pub(crate) fn fast_path(&mut self, filtered: &Filtered) -> Option<Row> {
        if self.moving.leaving.is_any() {
            self.moving.leaving.sends(filtered.client());
        }
        let name = filtered.word(0)?;
        let Some(is_busy) = self.is_busy() else { return self.row_of_slots(name) };
        let passes = !is_busy && (!is_never_passed(name) || is_planted(Bug::IdleMultiUnseen));
        if passes && !self.keyspace.has_versions() {
            return None;
        }
        let row = self.server.commands.find(name)?;
        if row.is_silent || passes {
            return Some(row).filter(|row| row.is_silent);
        }
        let Keys::Fixed { .. } = row.keys else {
            return (row.keys != Keys::None || row.special != Special::Nothing).then_some(row);
        };
        let shard = self.shard.as_ref()?;
        let is_held = |place| filtered.word(place).is_some_and(|key| self.concerns(shard, key));
        let is_concerned = row.special != Special::Nothing
            || self.plain.open_multis.is_any()
            || row.places(filtered.len()).any(is_held);
        is_concerned.then_some(row)
    }

    /// Without a shard only slots are looked after, where one may go on here that its replicas know: none leaves meanwhile.
    fn row_of_slots(&self, name: &[u8]) -> Option<Row> {
        let is_looked_at = settings::is_strict() && is_never_passed(name);
        let row = is_looked_at.then(|| self.server.commands.find(name)).flatten();
        row.filter(|row| row.special == Special::Cluster)
    }

    /// Whether a use of a key has to be looked at. A key that is about to arrive from another node was ordered there, if anywhere, and
    /// that one waits for it.
    pub(super) fn concerns(&self, shard: &Shard, key: &[u8]) -> bool {
        is_in_use(shard, key) && (shard.is_held(key) || self.keyspace.is_mine(key))
    }

    /// Whether anything may be held, or a MULTI be open; `None` while there is no shard.
    #[inline]
    fn is_busy(&mut self) -> Option<bool> {
        let shard = self.shard.as_ref()?;
        Some(self.plain.are_watched(shard))
    }

    /// Looks at a command of which this is known, and may change it.
    pub(crate) fn look(&mut self, ctx: Ctx, filtered: &Filtered, row: Row) {
        let client = filtered.client();
        self.keyspace.is_about_to_run(ctx, row, filtered);
        match row.special {
            Special::Nothing | Special::Pop | Special::Own => self.look_at_use(ctx, filtered, row, client),
            Special::Multi => {
                self.plain.open_multis.begin(client);
                self.tick_again(ctx);
            }
            Special::Exec => self.look_at_exec(ctx, filtered, client),
            Special::Discard => self.plain.open_multis.end(client),
            Special::Cluster => {
                // Before slots may come that other nodes have changed keys of.
                if !filtered.word(1).is_some_and(leaves_slots) {
                    self.keyspace.all_changed();
                    self.plain.open_multis.note_silent(client, true);
                }
                if self.looks_at_slot(ctx, filtered, client) {
                    self.put_before(ctx, filtered, client, Access::Write);
                }
            }
            Special::Rights => {
                let changes = filtered.word(1).is_some_and(|word| {
                    [&b"setuser"[..], b"deluser", b"load"]
                        .iter()
                        .any(|known| word.eq_ignore_ascii_case(known))
                });
                if changes {
                    self.rights_change(ctx);
                    self.plain.open_multis.note_rights(client);
                }
            }
        }
    }

    /// Looks at a command that has keys.
    fn look_at_use(&mut self, ctx: Ctx, filtered: &Filtered, row: Row, client: Option<u64>) {
        let queues = self.queues(client);
        let notes = match (queues, client) {
            (Queues::No, _) => false,
            // What its user may not run is not queued, and its keys are nobody's concern.
            (Queues::Yes, Some(client)) => {
                let user = ctx.user_of(client).and_then(|name| User::named(&name));
                user.is_some_and(|user| user.may_run(&filtered.words().iter().collect::<Vec<_>>()))
                    || is_planted(Bug::NotedWhoeverAsks)
            }
            (Queues::Yes | Queues::Perhaps, _) => true,
        };
        if row.is_silent {
            self.plain.open_multis.note_silent(client, row.keys == Keys::None);
        }
        let words = filtered.len();
        let held = self.held_uses(ctx, filtered, row, notes.then_some(client));
        let is_judged = row.special == Special::Pop && is_planted(Bug::QueuedPopsJudged);
        let is_queued = queues == Queues::Yes && !is_judged;
        let is_pop = row.special == Special::Pop && !is_queued && row.fits(words);
        let standing = Standing {
            asker: Asker::Filter,
            in_exec: is_queued,
            in_script: is_pop && Ctx::filters_in_script(),
            may_wait: true,
            is_allowed: true,
            pops_wait_here: is_pop && self.pops_wait_here(ctx, filtered, row),
        };
        let Some(shard) = &self.shard else { return };
        let name = filtered.word(0).unwrap_or_default();
        let single = row.places(words).take(2).count() == 1;
        let locks = self.plain.locks_of(shard);
        let conflict = || {
            let most = if is_planted(Bug::FirstHeldKeyAlone) { 1 } else { usize::MAX };
            held.into_iter().take(most).find(|(place, access)| {
                let key = filtered.word(*place).unwrap_or_default();
                let as_one = single && *place == 1;
                let op = as_one.then(|| operation_of(filtered, shard.held_as(key))).flatten();
                locks.conflict(key, *access, op.as_ref(), Look::Locks)
            })
        };
        match (Asked { row, name, words, standing }).verdict(conflict) {
            Verdict::Passes | Verdict::Refused(_) => {}
            Verdict::Waits(_) | Verdict::Pops | Verdict::TakesSlot | Verdict::TriesAgain(_) => {
                self.put_before(ctx, filtered, client, row.access);
                self.counts.guarded += u64::from(row.special == Special::Nothing);
            }
        }
    }
}

/// Uses of records that are held, or waited for.
impl Node {
    fn queues(&mut self, client: Option<u64>) -> Queues {
        match client {
            // What scripts run is never queued.
            _ if !self.plain.open_multis.is_open(client) || Ctx::filters_in_script() => Queues::No,
            None => Queues::Perhaps,
            Some(client) if Ctx::has_open_multi(client) => Queues::Yes,
            Some(_) => {
                // The server refused it, or it is over.
                self.plain.open_multis.end(client);
                Queues::No
            }
        }
    }

    /// The places of the keys that somebody holds, and how each is used. With `notes` all keys are noted for the EXEC of that
    /// client.
    fn held_uses(
        &mut self,
        ctx: Ctx,
        filtered: &Filtered,
        row: Row,
        notes: Option<Option<u64>>,
    ) -> Vec<(usize, Access)> {
        let mut held = Vec::new();
        let Some(shard) = &self.shard else { return held };
        let keyspace = self.keyspace;
        let is = |name: &str| filtered.word(0).unwrap_or_default().eq_ignore_ascii_case(name.as_bytes());
        let is_left_out = row.keys == Keys::Asked && is_planted(Bug::AskedKeysUnnoted)
            || is_planted(Bug::UnlinkUnnoted) && is("UNLINK");
        let notes = notes.filter(|_| !is_left_out);
        let mut look = |place: usize, access: Access| {
            let Some(key) = filtered.word(place) else { return };
            if let Some(client) = notes {
                self.plain.open_multis.note(client, key, access);
            }
            if is_in_use(shard, key) && (shard.is_held(key) || keyspace.is_mine(key)) {
                held.push((place, access));
            }
        };
        match row.keys {
            Keys::None => {}
            Keys::Fixed { .. } => {
                const MOVES: [&str; 5] = ["BLMOVE", "BRPOPLPUSH", "SMOVE", "LMOVE", "RPOPLPUSH"];
                let moves = || MOVES.iter().any(|it| is(it));
                let most = if is_planted(Bug::SourceAlone) && moves() { 1 } else { usize::MAX };
                row.places(filtered.len()).take(most).for_each(|place| look(place, row.access));
            }
            Keys::Asked => {
                let places = ctx.keys_of(&filtered.words());
                places.into_iter().for_each(|place| look(place.at, row.access_at(place)));
            }
        }
        held
    }

    /// Whether a pop has to wait in the module; one that may sleep in the server is noted.
    fn pops_wait_here(&mut self, ctx: Ctx, filtered: &Filtered, row: Row) -> bool {
        if self.plain.blocked.is_used() {
            return true;
        }
        let moves = filtered.word(0).is_some_and(plain::is_move);
        let words = filtered.words();
        for (at, (key, _)) in row.keys(&words, |words| ctx.keys_of(words)).iter().enumerate() {
            self.plain.blocked.note(key, moves && at > 0);
        }
        false
    }

    /// Has the module look at a command itself. Its user needs no right to that where the server can be asked who it is.
    fn put_before(&self, ctx: Ctx, filtered: &Filtered, client: Option<u64>, access: Access) {
        let name: &[u8] = match (access, self.keyspace.will_be_known(ctx, client)) {
            (Access::Read, false) => b"CLARET.READ",
            (Access::Write, false) => b"CLARET.WRITE",
            (Access::Read, true) => b"CLARET.READ-ANY",
            (Access::Write, true) => b"CLARET.WRITE-ANY",
        };
        filtered.insert(0, name);
    }

    /// Refuses an EXEC of which a key is held now: a word too many, and the server runs nothing of it.
    fn look_at_exec(&mut self, ctx: Ctx, filtered: &Filtered, client: Option<u64>) {
        if self.plain.open_multis.changes_rights() {
            self.rights_change(ctx);
        }
        let held = self.held_of_exec(client);
        self.changes_by_exec(client);
        let keeps_keys = held.is_some() && is_planted(Bug::RefusedExecKeepsKeys);
        self.plain.open_multis.end(client.filter(|_| !keeps_keys));
        let Some(held) = held else { return };
        // Only what its client may know of is a reason.
        let Some((keys, is_sure)) = self.own_keys(ctx, client, held) else { return };
        self.counts.exec_aborts += 1;
        self.safe_time.seek(self.shard.as_ref());
        if is_sure {
            let user = client.and_then(|client| ctx.user_of(client));
            let owner = user.map(|user| Owner { user: Name::new(user.bytes()), client });
            self.reserve(keys.into_iter().map(|(key, _)| key), owner);
        }
        self.tick_again(ctx);
        filtered.insert(1, b"a transaction holds a key of this MULTI; nothing was run, try again");
    }

    /// What an EXEC is about to change, and nobody tells.
    fn changes_by_exec(&self, client: Option<u64>) {
        match self.plain.open_multis.silent(client) {
            None => {}
            Some(Queued::Anything) => self.keyspace.all_changed(),
            Some(Queued::Keys(used)) => used.keys().for_each(|key| self.keyspace.has_changed(key)),
        }
    }

    /// The keys of an EXEC that are held in conflict; `None` if none is. No key at all where it is not known which.
    fn held_of_exec(&self, client: Option<u64>) -> Option<Vec<(Bytes, Access)>> {
        let shard = self.shard.as_ref();
        match self.plain.open_multis.queued(client)? {
            Queued::Anything => {
                shard.is_some_and(|shard| !shard.is_idle() || !shard.is_settled()).then(Vec::new)
            }
            Queued::Keys(used) => {
                let locks = self.plain.locks_of(shard?);
                // In any order: each is looked at.
                let held =
                    used.iter().filter(|(key, access)| locks.conflict(key, **access, None, Look::Locks));
                let held: Vec<(Bytes, Access)> = held.map(|(key, access)| (key.clone(), *access)).collect();
                (!held.is_empty()).then_some(held)
            }
        }
    }

    /// Which of these keys may be those of the MULTI to which an EXEC belongs, and whether it is known whose it is. `None`:
    /// none of them is, or there is no such MULTI, and the server says so.
    fn own_keys(
        &mut self,
        ctx: Ctx,
        client: Option<u64>,
        keys: Vec<(Bytes, Access)>,
    ) -> Option<(Vec<(Bytes, Access)>, bool)> {
        if let Some(client) = client {
            return Ctx::has_open_multi(client).then_some((keys, true));
        }
        let Some(clients) = ctx.clients() else { return Some((keys, false)) };
        let open: Vec<_> = clients.into_iter().filter(|client| client.queued.is_some()).collect();
        let senders = open.iter().filter(|client| client.has_words);
        let senders: Vec<Text> = senders.map(|client| Text::new(&client.user)).collect();
        if open.len() == senders.len() && senders.len() < 2 {
            // Its own is over now, and nobody else has one.
            self.plain.open_multis.end_all();
        }
        let users: Vec<User> = senders.iter().filter_map(User::named).collect();
        let is_any = keys.is_empty();
        let may_see = |key: &Bytes| {
            users.iter().any(|user| user.may_see(&Text::new(key))) || is_planted(Bug::KeysOfOthersRefuse)
        };
        let own: Vec<(Bytes, Access)> = keys.into_iter().filter(|(key, _)| may_see(key)).collect();
        // Where it is not known which keys are held, it is only known that somebody has a MULTI open.
        (!own.is_empty() || is_any && !users.is_empty()).then_some((own, senders.len() == 1))
    }

    /// The access control lists are going to change before anything else happens.
    fn rights_change(&mut self, ctx: Ctx) {
        self.keyspace.rights_change();
        self.keyspace.note(Change::Rights);
        self.come_back(ctx, 0);
    }
}

/// Commands that are looked at when nothing is held, too, by the looks of their names: MULTI, blocking pops, ACL, CLUSTER.
fn is_never_passed(name: &[u8]) -> bool {
    matches!(name.first().map(u8::to_ascii_lowercase), Some(b'm' | b'b' | b'a' | b'c'))
        && matches!(name.len(), 3 | 5..=7 | 8 | 10)
}

/// Subcommands of CLUSTER after which every slot is where it was. Not those that nobody knew of when this was written.
fn leaves_slots(word: &[u8]) -> bool {
    const KNOWN: [&str; 18] = [
        "bumpepoch",
        "count-failure-reports",
        "countkeysinslot",
        "forget",
        "getkeysinslot",
        "help",
        "info",
        "keyslot",
        "links",
        "meet",
        "myid",
        "myshardid",
        "nodes",
        "replicas",
        "saveconfig",
        "shards",
        "slaves",
        "slots",
    ];
    KNOWN.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn operation_of(filtered: &Filtered, held: Option<&'static TypeInfo>) -> Option<Operation> {
    let arguments: Vec<Bytes> =
        (2..filtered.len()).filter_map(|at| filtered.word(at)).map(Bytes::copy_from).collect();
    plain::operation(filtered.word(0)?, &arguments, held, Ctx::unix_ms)
}
