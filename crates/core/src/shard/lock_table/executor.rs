//! Executes operations on records, wherever their content is: here, or in an external store of the host. Carries effects out, and
//! notes what changed for good: the version of the record, and the journal of a host that keeps a log.
//!
//! A call is executed on top of its owner's effects on the record (P12). Calls that come together share a **view**: the owner's
//! effects are added once, then the calls' own, one after another, and at the end all are taken off, before anybody else looks. So n
//! calls cost n executions, not n times what the transaction did there before.
//!
//! Invariant ([`Executor::check`]): between inputs no instant transaction is half done.

use claret_types::{
    Bytes, Effect, Executed, KeyspaceOp, Method, OpError, Operation, Reply, Room, Run, State, Unique,
};
use smallvec::SmallVec;

use super::counts::Counts;
use super::lock::{Holder, Item};
use super::records::{Record, RecordIx};
use super::sleepers::Sleepers;
use super::{Fate, Owner};
use crate::ids::{CallNo, Member};
use crate::journal::{Journal, Noted};
use crate::message::{Call, Refusal};
use crate::planted::{Bug, is_planted};
use crate::records::{Applied, External};
use crate::shard::phaser::same;
use crate::versions::Versions;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    /// Where the content of the records is, if it is not here.
    external: Option<External>,
    /// What is changed is noted here, where the host keeps a log.
    journal: Option<Box<Journal>>,
    /// Of the records that are here.
    versions: Versions,
    /// The unique number that was given last.
    unique: u64,
    /// Who waits for changes of which records.
    sleepers: Sleepers,
    /// What an instant transaction did so far, to be undone if it cannot finish.
    staged: Vec<(RecordIx, Effect)>,
}

/// A record as its owner sees it, for the time of some calls.
pub(super) struct View(Seen);

enum Seen {
    /// A partial state of an external record, with the owner's effects added.
    Partial(Option<State>),
    /// The record itself; what undoes the effects that were added.
    InPlace(SmallVec<[Effect; 2]>),
}

impl Executor {
    pub(super) fn new(unique_base: u64, versions_bytes_max: usize) -> Self {
        Executor {
            external: None,
            journal: None,
            versions: Versions::new(unique_base, versions_bytes_max),
            unique: unique_base,
            sleepers: Sleepers::default(),
            staged: Vec::new(),
        }
    }

    pub(super) fn attach(&mut self, external: Option<External>) {
        self.external = external;
    }

    #[inline]
    pub(super) fn external(&self) -> Option<External> {
        self.external
    }

    pub(super) fn keep_journal(&mut self) {
        self.journal = Some(Box::default());
    }

    #[inline]
    pub(super) fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_deref_mut()
    }

    /// Effects are going to be carried out if their owner commits.
    pub(super) fn note_effects(&mut self, key: &Bytes, items: &[Item], fate: Fate<'_>) {
        let Some(journal) = &mut self.journal else { return };
        let applied = items.iter().filter(|item| item.is_applied(fate));
        applied.filter_map(|item| item.effect.as_ref()).for_each(|effect| journal.write(key, effect));
    }

    /// A record vanished by itself. `was_here`: with its content.
    pub(super) fn note_vanished(&mut self, key: &Bytes, was_here: bool) {
        self.has_changed(key);
        if let Some(journal) = self.journal.as_mut().filter(|_| was_here) {
            journal.note(|_| Noted::Vanished(key.clone()));
        }
    }

    /// A record left its place.
    pub(super) fn note_gone(&mut self, key: Bytes) {
        if let Some(keys) = self.journal.as_mut().and_then(|journal| journal.gone.as_mut()) {
            keys.push(key);
        }
    }

    // --- numbers and versions ---

    pub(super) fn unique(&self) -> u64 {
        self.unique
    }

    pub(super) fn count_unique_from(&mut self, unique: u64) {
        self.unique = unique;
    }

    pub(super) fn next_unique(&mut self) -> Unique {
        self.unique += 1;
        let is_anew = is_planted(Bug::UniqueStartsAnew); // Without the bits of the incarnation.
        Unique(if is_anew { self.unique & !(0xfff << 31) } else { self.unique })
    }

    /// An operation is about to be executed: its number.
    pub(super) fn begin(&mut self, counts: &mut Counts) -> Unique {
        counts.look();
        self.next_unique()
    }

    pub(super) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(super) fn begin_versions(&mut self, versions: Versions) {
        self.versions = versions;
    }

    /// What an operation is executed on that asks which version of a record is here. Its transaction's own effects are none: they
    /// are not committed.
    #[inline]
    pub(super) fn version_for(&mut self, key: &[u8], op: &Operation) -> Option<State> {
        // Mostly not.
        op.asks_version().then(|| State::of_version(self.versions.of(key)))
    }

    /// A record was changed for good.
    #[inline]
    pub(super) fn has_changed(&mut self, key: &[u8]) {
        self.versions.changed(key);
        self.sleepers.stir(key);
    }

    pub(super) fn sleepers(&self) -> &Sleepers {
        &self.sleepers
    }

    #[inline]
    pub(super) fn sleepers_mut(&mut self) -> &mut Sleepers {
        &mut self.sleepers
    }

    // --- asking the host ---

    /// Asks the host whether these operations on one record may be done here.
    pub(super) fn admit<'a>(
        &self,
        key: &Bytes,
        mut ops: impl ExactSizeIterator<Item = &'a Operation>,
    ) -> Result<(), Refusal> {
        let Some(External(records)) = self.external else { return Ok(()) };
        let judge = |op: &Operation| {
            let against = |error| Refusal::AgainstSchema { key: key.clone(), error: Box::new(error) };
            records.judge(key, op).map_err(against)
        };
        // Mostly.
        if ops.len() == 1 {
            return ops.try_for_each(|op| records.admit(key, op).and_then(|()| judge(op)));
        }
        let mut asked: SmallVec<[&'static Method; 4]> = SmallVec::new();
        for op in ops {
            let method = op.method();
            // What is put may be of any type, with rights of its own.
            let is_put = matches!(op.keyspace(), Some(KeyspaceOp::Put(_)));
            if is_put || op.command().is_some() || !asked.iter().any(|known| std::ptr::eq(*known, method)) {
                asked.push(method);
                records.admit(key, op)?;
            }
            judge(op)?;
        }
        Ok(())
    }

    /// A partial state for the first of these operations with own effects added, and how many of them it is good for. Here there is
    /// none: there is all of it.
    pub(super) fn partial_for_all(
        &mut self,
        counts: &mut Counts,
        key: &Bytes,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<Option<(Option<State>, usize)>, OpError> {
        let Some(External(records)) = self.external else { return Ok(None) };
        counts.replay(own.len());
        let partial = records.partial_state_for_all(key, ops, own);
        counts.read(records.take_read());
        let (mut partial, covered) = partial?;
        ops[0].add_to_partial(&mut partial, own)?;
        Ok(Some((partial, covered.clamp(1, ops.len()))))
    }

    // --- executing for an owner ---

    /// Executes a call on top of its owner's effects, and says what room there is then.
    pub(super) fn execute(
        &mut self,
        counts: &mut Counts,
        record: &mut Record,
        owner: Owner,
        call: &Call,
    ) -> Result<(Executed, Room), OpError> {
        let unique = self.begin(counts);
        let Record { key, state, lock, .. } = record;
        let own = lock.as_ref().and_then(|lock| lock.holder(owner.attempt));
        if call.op.asks_version() && own.is_some_and(Holder::has_effects) {
            // The next transaction of a batch asks: for it the record has changed.
            return Ok((call.op.execute(Some(&of_own_change(unique)), unique)?, Room::UNBOUNDED));
        }
        if let Some(External(records)) = self.external {
            let own = match own.filter(|_| call.op.command().is_some() && !is_planted(Bug::NoOverlay)) {
                Some(own) => own.effects_for_command(call.member),
                None => own_effects(own, call.member, [&call.op].into_iter()),
            };
            counts.replay(own.len());
            let partial = records.partial_state(key, &call.op, &own);
            counts.read(records.take_read());
            let executed = partial.and_then(|it| call.op.execute_in_partial(it, &own, unique));
            return executed.or_else(|error| match error {
                OpError::Changed => Err(error),
                error => Ok((call.op.not_executed(error)?, Room::UNBOUNDED)),
            });
        }
        if call.op.asks_version() {
            let told = State::of_version(self.versions.of(key));
            return Ok((call.op.execute(Some(&told), unique)?, Room::UNBOUNDED));
        }
        let undo = overlay(own_effects(own, call.member, [&call.op].into_iter()), state);
        counts.replay(undo.len());
        let executed = call.op.execute(state.as_ref(), unique);
        let room = call.op.room(state.as_ref());
        take_off(state, undo);
        executed.map(|executed| (executed, room))
    }

    /// Makes a view for the first of these calls, if they are several: for how many. `None`: the first is decided by
    /// itself.
    pub(super) fn open(
        &mut self,
        counts: &mut Counts,
        record: &mut Record,
        owner: Owner,
        calls: &[Call],
    ) -> Option<(View, usize)> {
        let [first, _, ..] = calls else { return None };
        let alike =
            |call: &&Call| call.member == first.member && same(call.op.type_info(), first.op.type_info());
        // A version is nothing of what is in the record.
        let of_content = calls.iter().take_while(|call| alike(call) && !call.op.asks_version());
        let ops: SmallVec<[&Operation; 8]> = of_content.map(|call| &call.op).collect();
        if record.has_vanished() || ops.is_empty() {
            return None;
        }
        let Record { key, state, lock, .. } = record;
        let own = lock.as_ref().and_then(|lock| lock.holder(owner.attempt));
        let own = own_effects(own, first.member, ops.iter().copied());
        if self.external.is_some() {
            // What cannot be done shows once more when the call is decided by itself.
            let (partial, covered) = self.partial_for_all(counts, key, &ops, &own).ok()??;
            return Some((View(Seen::Partial(partial)), covered));
        }
        let undo = overlay(own, state);
        counts.replay(undo.len());
        Some((View(Seen::InPlace(undo)), ops.len()))
    }

    pub(super) fn execute_in(
        &mut self,
        counts: &mut Counts,
        record: &Record,
        view: &View,
        call: &Call,
    ) -> Result<(Executed, Room), OpError> {
        let unique = self.begin(counts);
        let state = match &view.0 {
            Seen::Partial(state) => state,
            Seen::InPlace(_) => &record.state,
        };
        let executed = call.op.execute(state.as_ref(), unique)?;
        Ok((executed, call.op.room(state.as_ref())))
    }
}

/// What calls do of which none looks at the record, nor at what one of the others did; `None` if one does.
pub(super) fn blind_effects(calls: &[Call]) -> Option<SmallVec<[Effect; 4]>> {
    calls.iter().map(|call| call.op.blind_effect().filter(|_| !call.op.returns())).collect()
}

/// Executing in order, and carrying out.
impl Executor {
    /// Executes calls one on top of the other. In a shard's own memory, and on the copy of a record that has vanished, that
    /// changes `state`; otherwise what is to be done is returned.
    pub(super) fn execute_all(
        &mut self,
        counts: &mut Counts,
        key: &Bytes,
        calls: &[Call],
        state: &mut Option<State>,
        is_copy: bool,
    ) -> (Vec<(CallNo, Reply)>, SmallVec<[Effect; 4]>) {
        if self.external.is_some() && !is_copy {
            return self.execute_all_outside(counts, key, calls);
        }
        let mut replies = Vec::new();
        for call in calls {
            let unique = self.begin(counts);
            // Whatever is ordered has no errors (P82); if it had, it would have done nothing.
            let Ok(executed) = call.op.execute(state.as_ref(), unique) else { continue };
            if call.op.returns() {
                replies.push((call.no, executed.reply));
            }
            if let Some(effect) = executed.effect {
                drop(effect.apply(state));
            }
        }
        (replies, SmallVec::new())
    }

    /// The same on an external record, of which is read what many calls need at once. O(calls) where none looks at it; otherwise each
    /// time what was done before is added, so there are [few](super::lock::may_order).
    fn execute_all_outside(
        &mut self,
        counts: &mut Counts,
        key: &Bytes,
        calls: &[Call],
    ) -> (Vec<(CallNo, Reply)>, SmallVec<[Effect; 4]>) {
        if let Some(effects) = blind_effects(calls) {
            calls.iter().for_each(|_| _ = self.begin(counts));
            return (Vec::new(), effects);
        }
        let (mut replies, mut effects) = (Vec::new(), SmallVec::<[Effect; 4]>::new());
        let mut rest = calls;
        while let [first, ..] = rest {
            let alike = |call: &&Call| same(call.op.type_info(), first.op.type_info());
            let ops: SmallVec<[&Operation; 4]> = rest.iter().take_while(alike).map(|call| &call.op).collect();
            let seen = {
                let own: SmallVec<[&Effect; 4]> = effects.iter().collect();
                // What all of them need may be too much, and each can be done by itself.
                let all = self.partial_for_all(counts, key, &ops, &own);
                all.or_else(|_| self.partial_for_all(counts, key, &ops[..1], &own))
            };
            let Ok(Some((mut partial, covered))) = seen else {
                rest = &rest[1..];
                continue;
            };
            let mut done = 0;
            for call in &rest[..covered] {
                done += 1;
                let unique = self.begin(counts);
                let Ok(executed) = call.op.execute(partial.as_ref(), unique) else { continue };
                if call.op.returns() {
                    replies.push((call.no, executed.reply));
                }
                let Some(effect) = executed.effect else { continue };
                let is_good = call.op.add_to_partial(&mut partial, &[&effect]).is_ok();
                effects.push(effect);
                if !is_good {
                    break;
                }
            }
            rest = &rest[done..];
        }
        (replies, effects)
    }

    /// Carries out what a holder did that leaves. Whether an external record ended with that.
    #[inline]
    pub(super) fn apply(
        &mut self,
        key: &Bytes,
        state: &mut Option<State>,
        holder: &mut Holder,
        fate: Fate<'_>,
    ) -> bool {
        if let Some(external) = self.external {
            return external.carry_out(key, &holder.items, fate);
        }
        let applied = std::mem::take(&mut holder.items).into_iter().filter(|item| item.is_applied(fate));
        for effect in applied.filter_map(|item| item.effect) {
            if let Some(journal) = self.journal.as_mut().filter(|journal| journal.writes) {
                journal.write(key, &effect);
            }
            effect.apply(state);
            self.has_changed(key);
        }
        false
    }

    /// Carries out what a holder did before it leaves, but for commands of the server: those it adds to `runs`. Whether an external record
    /// ended with that.
    pub(super) fn apply_before_commands(
        &mut self,
        key: &Bytes,
        state: &mut Option<State>,
        holder: &mut Holder,
        fate: Fate<'_>,
        runs: &mut Vec<Run>,
    ) -> bool {
        let applied = holder.items.iter_mut().filter(|item| item.is_applied(fate));
        let mut effects: SmallVec<[Effect; 4]> = SmallVec::new();
        for effect in applied.filter_map(|item| item.effect.take()) {
            match effect.run() {
                Some(run) => runs.push(run.clone()),
                None => effects.push(effect),
            }
        }
        if self.external.is_some() {
            return self.apply_outside(key, &effects);
        }
        for effect in effects {
            effect.apply(state);
            self.has_changed(key);
        }
        false
    }

    /// Carries out a command: its answer.
    pub(super) fn run(
        &mut self,
        counts: &mut Counts,
        key: &Bytes,
        state: &mut Option<State>,
        run: &Run,
    ) -> Reply {
        if let Some(External(records)) = self.external {
            let reply = records.run(key, run);
            counts.read(records.take_read());
            return reply;
        }
        if run.writes {
            self.has_changed(key);
        }
        run.carry_out(state)
    }

    /// A holder of an external record leaves for whom its end was put off. Whether it ended.
    pub(super) fn let_end(&self, key: &Bytes) -> bool {
        self.external.is_some_and(|External(records)| records.let_end(key) == Applied::Ended)
    }

    /// Carries out effects on an external record. Whether it ended with that.
    pub(super) fn apply_outside(&self, key: &Bytes, effects: &[Effect]) -> bool {
        let Some(External(records)) = self.external.filter(|_| !effects.is_empty()) else { return false };
        let effects: SmallVec<[&Effect; 4]> = effects.iter().collect();
        records.apply(key, &effects) == Applied::Ended
    }

    // --- instant transactions ---

    /// Executes an operation that is over at once, and that nobody hears of. `state`: of the record, if it is here.
    pub(super) fn try_instantly(
        &self,
        key: &Bytes,
        state: Option<&State>,
        op: &Operation,
    ) -> Result<(Executed, Room), OpError> {
        let number = Unique(0); // Nobody hears of the answer.
        match self.external {
            Some(External(records)) => records
                .partial_state(key, op, &[])
                .and_then(|partial| op.execute_in_partial(partial, &[], number)),
            None => op.execute(state, number).map(|executed| (executed, op.room(state))),
        }
    }

    /// Carries an effect out that may have to be undone.
    pub(super) fn stage(&mut self, place: RecordIx, record: &mut Record, effect: Effect) {
        self.journal.iter_mut().for_each(|journal| journal.write(&record.key, &effect));
        let undo = effect.apply(&mut record.state);
        self.staged.push((place, undo));
    }

    /// The record that was changed last of those of which something is staged, and what undoes that.
    pub(super) fn poll_staged(&mut self) -> Option<(RecordIx, Effect)> {
        self.staged.pop()
    }

    /// What was staged stays.
    pub(super) fn note_done(&mut self) {
        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.has_more()) {
            journal.note(Noted::Done);
        }
    }

    /// What is staged is about to be undone: it did not happen.
    pub(super) fn take_back(&mut self) {
        self.journal.iter_mut().for_each(|journal| journal.take_back());
        if is_planted(Bug::InstantUndoneForwards) {
            self.staged.reverse();
        }
    }

    /// What is staged, for digests: between inputs nothing.
    pub(super) fn content(&self) -> impl std::fmt::Debug + '_ {
        (&self.staged, self.sleepers.content())
    }

    /// # Panics
    /// When the invariant does not hold.
    pub(super) fn check(&self) {
        assert!(self.staged.is_empty(), "an instant transaction was left half done");
    }
}

impl View {
    /// Adds the effect of a call that was granted. Whether the view is good for the next one.
    pub(super) fn extend(
        &mut self,
        counts: &mut Counts,
        record: &mut Record,
        call: &Call,
        effect: Effect,
    ) -> bool {
        counts.replay(1);
        match &mut self.0 {
            Seen::Partial(state) => call.op.add_to_partial(state, &[&effect]).is_ok(),
            Seen::InPlace(undo) => {
                undo.push(effect.apply(&mut record.state));
                true
            }
        }
    }

    /// Takes off what was added to the record.
    pub(super) fn close(self, record: &mut Record) {
        match self.0 {
            Seen::Partial(_) => {}
            Seen::InPlace(undo) => take_off(&mut record.state, undo),
        }
    }
}

impl External {
    /// Has the effects of a holder carried out, of the calls that are applied. Whether that ended the record.
    fn carry_out(self, key: &Bytes, items: &[Item], fate: Fate<'_>) -> bool {
        let is_applied = |item: &Item| item.is_applied(fate);
        let External(records) = self;
        // Mostly.
        if let [item] = items {
            let effect = item.effect.as_ref().filter(|_| is_applied(item));
            return effect.is_some_and(|effect| records.apply(key, &[effect]) == Applied::Ended);
        }
        let applied = items.iter().filter(|item| is_applied(item));
        let effects: SmallVec<[&Effect; 4]> = applied.filter_map(|item| item.effect.as_ref()).collect();
        !effects.is_empty() && records.apply(key, &effects) == Applied::Ended
    }
}

/// Takes off effects that were added for a while.
pub(super) fn take_off(state: &mut Option<State>, mut undo: SmallVec<[Effect; 2]>) {
    if is_planted(Bug::OverlayUndoneForwards) {
        undo.reverse();
    }
    // Last first (P12).
    let undone = undo.into_iter().rev().skip(usize::from(is_planted(Bug::OverlayStays)));
    undone.for_each(|effect| drop(effect.apply(state)));
}

/// A member's effects on a record, on which its next call there is executed (P12).
fn own_effects<'a>(
    own: Option<&'a Holder>,
    member: Member,
    ops: impl Iterator<Item = &'a Operation>,
) -> SmallVec<[&'a Effect; 4]> {
    let own = own.filter(|_| !is_planted(Bug::NoOverlay));
    own.map_or_else(SmallVec::new, |own| own.effects_for(member, ops))
}

/// Adds own effects for the time of some executions; undone by the returned ones in reverse.
fn overlay(own: SmallVec<[&Effect; 4]>, state: &mut Option<State>) -> SmallVec<[Effect; 2]> {
    own.into_iter().map(|effect| effect.clone().apply(state)).collect()
}

/// What is told instead of a version to whoever changed the record before, in the same attempt: nobody else is told that.
fn of_own_change(unique: Unique) -> State {
    State::of_version(format!("own {}", unique.0).into())
}
