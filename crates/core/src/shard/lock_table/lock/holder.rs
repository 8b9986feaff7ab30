//! What one attempt holds on one record: its granted calls with their claims and effects.
//!
//! A few calls are searched one by one. For more, their claims are summed, so that an owner's own claims are
//! separated from those of others in constant time, however many calls it made. They are also indexed by element,
//! because a call on one element need not look at what was done to others.

use std::any::TypeId;
use std::fmt;

use claret_types::{Claims, Effect, Held, Modes, Operation, Room, Run, Scope};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::ways::Mark;
use crate::ids::{AttemptId, Birth, CallNo, Member};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::Fate;
use crate::shard::lock_table::lock::ways::ordered::line::InOrder;
use crate::shard::lock_table::lock::ways::ordered::used::Used;
use crate::shard::lock_table::outbox::Outbox;

/// So many calls are looked through.
const FEW: usize = 8;

/// One granted call.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) no: CallNo,
    pub(crate) member: Member,
    pub(super) claims: Claims,
    pub(in super::super) effect: Option<Effect>,
    pub(super) runs_command: bool,
}

impl Item {
    pub(super) fn of(call: &Call, claims: Claims, effect: Option<Effect>) -> Self {
        let runs_command = call.op.is_command();
        // Whoever carries out a command says by this number what it answers.
        let effect = match runs_command {
            true => effect.map(|effect| effect.numbered(call.no.0)),
            false => effect,
        };
        Item { no: call.no, member: call.member, claims, effect, runs_command }
    }

    /// Whether its effect is carried out: that of a member that commits (C13).
    #[inline]
    pub(in super::super) fn is_applied(&self, fate: Fate<'_>) -> bool {
        match fate {
            Fate::Apply(members) => members.includes(self.member) || is_planted(Bug::PartedCount),
            Fate::Drop => false,
        }
    }
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(in super::super) struct Holder {
    pub(super) birth: Birth,
    pub(in super::super) items: SmallVec<[Item; 1]>,
    /// Some of its calls are commands of the server (A22).
    pub(super) runs_commands: bool,
    /// What its clocks are of, where calls are ordered.
    pub(super) used: Used,
    /// The eldest waiter it was told of.
    pub(super) told: Option<Birth>,
    /// The record does not end by its time before this holder leaves.
    pub(super) holds_end: bool,
    /// What ways to commit note of it.
    #[allow(dead_code, reason = "there may be no ways")]
    pub(super) mark: Mark,
    /// Behind whom it stands: what they claim conflicts with its own claims, and it leaves after them.
    pub(super) behind: Vec<AttemptId>,
    /// What it claims in order. Then it holds nothing by locks.
    pub(super) in_order: Option<Box<InOrder>>,
    /// Once there are more than a few.
    sums: Option<Box<Sums>>,
    /// Where its calls are among the items, by number: once something was undone.
    by_number: Option<Box<HashMap<CallNo, u32, foldhash::fast::FixedState>>>,
}

type ElementSet = HashSet<u64, foldhash::fast::FixedState>;

/// The claims of a holder's calls, summed up.
#[derive(Clone, Default, PartialEq)]
struct Sums {
    held: Held,
    /// What each member draws, down and up, if anything; and all of them.
    drawn: HashMap<Member, (u128, u128), foldhash::fast::FixedState>,
    drawn_by_all: (u128, u128),
    /// Calls with an effect, by element that they claim.
    on_element: HashMap<u64, SmallVec<[u32; 2]>, foldhash::fast::FixedState>,
    /// Calls with an effect on several elements, one of which had an effect before, on which it stands. In order.
    standing: Vec<u32>,
    /// How many calls there were when the last one came whose effect may be on any element, with that one.
    all_before: u32,
    /// The types of which effects are.
    kinds: SmallVec<[TypeId; 1]>,
    /// Calls with an effect, in order. Of all places here some may be of calls that were undone since.
    effects: Vec<u32>,
    /// How many of them.
    undone: usize,
    /// Where the first command is, if there is any.
    first_run: Option<u32>,
    /// Commands, but those for which a later one stands ([`Run::stands_for`]): the others decide whether a further one can be done.
    decisive: Vec<Decisive>,
}

/// A command that a call runs.
#[derive(Clone, Debug, PartialEq)]
struct Decisive {
    at: u32,
    member: Member,
    run: Run,
}

impl Holder {
    pub(super) fn new(birth: Birth) -> Self {
        Holder {
            birth,
            items: SmallVec::new(),
            runs_commands: false,
            used: Used::default(),
            told: None,
            holds_end: false,
            mark: Mark::default(),
            behind: Vec::new(),
            in_order: None,
            sums: None,
            by_number: None,
        }
    }

    /// Amortized O(claims).
    pub(super) fn push(&mut self, item: Item) {
        let at = self.items.len() as u32;
        if let Some(sums) = &mut self.sums {
            sums.add(at, &item);
        }
        if let Some(by_number) = &mut self.by_number {
            by_number.insert(item.no, at);
        }
        self.runs_commands |= item.runs_command;
        self.items.push(item);
        if self.items.len() > FEW && self.sums.is_none() {
            self.sums = Some(Box::new(Sums::of(&self.items)));
        }
    }

    /// What the calls at these places did is undone; what they claim stays (N2). Amortized O(these calls).
    pub(super) fn undo(&mut self, places: &[u32]) {
        let mut undone = 0;
        for place in places {
            undone += usize::from(self.items[*place as usize].effect.take().is_some());
        }
        if let Some(sums) = &mut self.sums {
            sums.undone += undone;
            // What a command stood for that is undone counts again.
            if sums.undone > sums.effects.len() / 2 || self.runs_commands && undone > 0 {
                **sums = Sums::of(&self.items);
            }
        }
    }

    /// The places of calls by their numbers. O(calls).
    pub(super) fn places_where(&self, is_it: impl Fn(CallNo) -> bool) -> Vec<u32> {
        self.items.iter().zip(0..).filter(|(item, _)| is_it(item.no)).map(|(_, at)| at).collect()
    }

    /// The same of these calls. O(these calls), but for the first time.
    pub(super) fn places_of(&mut self, numbers: &[CallNo]) -> Vec<u32> {
        let by_number = self.by_number();
        numbers.iter().filter_map(|no| by_number.get(no).copied()).collect()
    }

    /// Whether it was granted this call. O(1), but for the first time.
    pub(super) fn has_call(&mut self, no: CallNo) -> bool {
        self.by_number().contains_key(&no)
    }

    /// How many calls are looked at before one is found by its number.
    pub(super) fn to_index(&self) -> usize {
        if self.by_number.is_some() { 0 } else { self.items.len() }
    }

    fn by_number(&mut self) -> &HashMap<CallNo, u32, foldhash::fast::FixedState> {
        let items = &self.items;
        self.by_number.get_or_insert_with(|| Box::new(items.iter().map(|item| item.no).zip(0..).collect()))
    }

    /// Whether it stands behind this one.
    pub(super) fn is_behind(&self, attempt: AttemptId) -> bool {
        self.behind.contains(&attempt)
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = &Claims> + Clone {
        self.items.iter().map(|item| &item.claims)
    }

    /// Whether anything was done on the record that is not undone.
    pub(in super::super) fn has_effects(&self) -> bool {
        match &self.sums {
            Some(sums) => sums.effects.len() > sums.undone,
            None => self.items.iter().any(|item| item.effect.is_some()),
        }
    }

    /// A member's effects, in the order in which they were granted, that may matter to these operations. Claims on
    /// different elements never conflict, so effects on other elements change nothing for an operation on some. An effect stands on
    /// all that came before it on its own elements, whichever of these the operations are about.
    pub(in super::super) fn effects_for<'a>(
        &'a self,
        member: Member,
        ops: impl Iterator<Item = &'a Operation>,
    ) -> SmallVec<[&'a Effect; 4]> {
        let of_member = |item: &'a Item| item.effect.as_ref().filter(|_| item.member == member);
        let Some(sums) = &self.sums else { return self.items.iter().filter_map(of_member).collect() };
        let all_of =
            |places: &[u32]| places.iter().filter_map(|at| of_member(&self.items[*at as usize])).collect();
        match sums.concerned(&self.items, ops) {
            Some(places) => all_of(&places),
            None => all_of(&sums.effects),
        }
    }

    /// A member's effects that may matter to whether a host can do a command, in order. Of thousands of commands on one record few do.
    pub(in super::super) fn effects_for_command(&self, member: Member) -> SmallVec<[&Effect; 4]> {
        let Some(sums) = &self.sums else { return self.effects_for(member, std::iter::empty()) };
        // Behind the first command there are commands alone (A22).
        let before = match sums.first_run {
            Some(first) => &sums.effects[..sums.effects.partition_point(|at| *at < first)],
            None => &sums.effects[..],
        };
        let decisive = sums.decisive.iter().map(|it| &it.at);
        let items = before.iter().chain(decisive).map(|at| &self.items[*at as usize]);
        items.filter(|item| item.member == member).filter_map(|item| item.effect.as_ref()).collect()
    }

    /// Whether claims commute with all of `held` that is not this holder's own.
    pub(super) fn is_alone_in_the_way(&self, held: &Held, modes: &Modes, claims: &Claims) -> bool {
        match &self.sums {
            Some(sums) => held.admits_modes_beside(modes, claims, &sums.held),
            None => held.admits_modes(modes, claims, self.claims()),
        }
    }

    /// Whether anything that it claims conflicts with these claims. O(these claims), however many calls it made.
    pub(super) fn is_in_the_way_of(&self, modes: &Modes, claims: &Claims) -> bool {
        match &self.sums {
            Some(sums) => !sums.held.admits_modes(modes, claims, std::iter::empty()),
            None => self.claims().any(|own| own.conflict_with(claims, modes)),
        }
    }

    /// Whether anything that it claims conflicts with what the other one does. O(the calls of who made fewer).
    pub(super) fn conflicts_with(&self, modes: &Modes, other: &Holder) -> bool {
        let (fewer, more) = if self.items.len() <= other.items.len() { (self, other) } else { (other, self) };
        fewer.claims().any(|claims| more.is_in_the_way_of(modes, claims))
    }

    /// What a member draws, down and up. O(1).
    pub(super) fn drawn_by(&self, member: Member) -> (u128, u128) {
        match &self.sums {
            Some(sums) => sums.drawn.get(&member).copied().unwrap_or_default(),
            None => self.sum_drawn(|drawing| drawing == member),
        }
    }

    /// Whether the draws of the other members leave too little room. They are of one owner, so it must not wait
    /// for them; and any of them may leave, so they are not part of what it was executed on (C4).
    pub(super) fn overdraws_with(&self, member: Member, claims: &Claims, room: Room) -> bool {
        let draw = claims.draw;
        if draw.down == 0 && draw.up == 0 {
            return false;
        }
        let (down, up) = match &self.sums {
            Some(sums) => {
                let (all, own) = (sums.drawn_by_all, self.drawn_by(member));
                (all.0 - own.0, all.1 - own.1)
            }
            None => self.sum_drawn(|drawing| drawing != member),
        };
        draw.down > 0 && down > 0 && down + u128::from(draw.down) > u128::from(room.down)
            || draw.up > 0 && up > 0 && up + u128::from(draw.up) > u128::from(room.up)
    }

    fn sum_drawn(&self, counts: impl Fn(Member) -> bool) -> (u128, u128) {
        let draws = self.items.iter().filter(|item| counts(item.member)).map(|item| item.claims.draw);
        draws.fold((0, 0), |(down, up), draw| (down + u128::from(draw.down), up + u128::from(draw.up)))
    }

    /// Tells of an elder that waits, unless the holder is elder itself, or knows of one who is.
    #[inline]
    pub(super) fn tell(&mut self, attempt: AttemptId, elder: Birth, outbox: &mut Outbox) {
        if elder < self.birth && self.told.is_none_or(|told| elder < told) {
            self.told = Some(elder);
            outbox.notify(attempt, elder);
        }
    }

    /// # Panics
    /// When what is summed up is not the sum.
    pub(super) fn check(&self) {
        let Some(sums) = &self.sums else { return };
        let all = Sums::of(&self.items);
        assert!(sums.held == all.held && sums.drawn == all.drawn, "what a holder claims does not add up");
        assert!(sums.undone > 0 || **sums == all, "what a holder does is not where it is looked for");
        let known = all.effects.iter().filter(|at| sums.effects.binary_search(at).is_ok()).count();
        assert_eq!(
            (known, known + sums.undone),
            (all.effects.len(), sums.effects.len()),
            "what is undone does not add up"
        );
    }
}

impl Sums {
    fn of(items: &[Item]) -> Self {
        let mut sums = Sums::default();
        items.iter().enumerate().for_each(|(at, item)| sums.add(at as u32, item));
        sums
    }

    /// Which calls these operations may depend on, in order; `None` for all.
    fn concerned<'a>(&self, items: &[Item], ops: impl Iterator<Item = &'a Operation>) -> Option<Vec<u32>> {
        let mut elements = Vec::new();
        for op in ops {
            // Whether the types agree shows in the whole record.
            if self.kinds.iter().any(|kind| *kind != op.type_info().id) {
                return None;
            }
            let footprint = op.footprint();
            if footprint.draw.down > 0 || footprint.draw.up > 0 || footprint.list.is_empty() {
                return None;
            }
            for claim in &footprint.list {
                let Scope::Element(hash) = claim.scope else { return None };
                elements.push(hash);
            }
        }
        let before = self.effects.partition_point(|place| *place < self.all_before);
        let mut places: Vec<u32> = self.effects[..before].to_vec();
        if self.standing.is_empty() {
            // Mostly.
            let on_them = elements.iter().filter_map(|element| self.on_element.get(element)).flatten();
            places.extend(on_them.copied().filter(|place| *place >= self.all_before));
            elements.clear();
        }
        let (mut looked_at, mut seen) = (ElementSet::default(), ElementSet::default());
        while let Some(element) = elements.pop() {
            if !looked_at.insert(element) {
                continue;
            }
            let on_it = self.on_element.get(&element).into_iter().flatten();
            for place in on_it.copied().filter(|place| *place >= self.all_before) {
                // Others than those of the operations are looked at only where an effect stands on something.
                if self.standing.binary_search(&place).is_ok() && seen.insert(u64::from(place)) {
                    elements.extend(elements_of(&items[place as usize].claims));
                }
                places.push(place);
            }
        }
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    fn add(&mut self, at: u32, item: &Item) {
        if let Some(effect) = &item.effect {
            self.effects.push(at);
            if let Some(run) = effect.run() {
                self.first_run.get_or_insert(at);
                let is_stood_for = |it: &Decisive| it.member == item.member && run.stands_for(&it.run);
                self.decisive.retain(|it| !is_stood_for(it));
                self.decisive.push(Decisive { at, member: item.member, run: run.clone() });
            }
            let kind = effect.type_info().id;
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
            let claims = &item.claims;
            // What is drawn concerns those who draw, and they look at all.
            if elements_of(claims).count() < claims.list.len() || claims.list.is_empty() {
                self.all_before = at + 1;
            }
            let (mut stands, first) = (false, elements_of(claims).next());
            let is_wide = elements_of(claims).any(|hash| Some(hash) != first);
            for hash in elements_of(claims) {
                let on_it = self.on_element.entry(hash).or_default();
                // Of several claims on one element one counts.
                if on_it.last() != Some(&at) {
                    stands |= !on_it.is_empty();
                    on_it.push(at);
                }
            }
            if stands && is_wide {
                self.standing.push(at);
            }
        }
        self.held.add(&item.claims);
        let draw = item.claims.draw;
        if draw.down > 0 || draw.up > 0 {
            let (down, up) = (u128::from(draw.down), u128::from(draw.up));
            for sum in [self.drawn.entry(item.member).or_default(), &mut self.drawn_by_all] {
                *sum = (sum.0 + down, sum.1 + up);
            }
        }
    }
}

fn elements_of(claims: &Claims) -> impl Iterator<Item = u64> + '_ {
    claims.list.iter().filter_map(|claim| match claim.scope {
        Scope::Element(hash) => Some(hash),
        Scope::Record => None,
    })
}

/// Nothing: what they sum up is shown beside them.
impl fmt::Debug for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}
