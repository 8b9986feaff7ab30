//! Claims: what an operation asks of a record's abstract lock, and the lock itself.
//!
//! A type states its commutativity specification (P67) in three parts:
//!
//! 1. its lock **modes** and which of them conflict ([`Modes`]);
//! 2. for each operation, in the state where it is granted, the **claims** it makes: a mode on the whole
//!    record or on one element of it;
//! 3. for escrow types a **draw**: how far the operation may move a value down or up. The draws of all pending
//!    operations are summed against the room that the state leaves. So three withdrawals that fit pair by pair, but
//!    overdraw together, are caught (P4).
//!
//! [`Held`] is the sum of all granted claims on one record. It answers "does this claim commute with
//! everything that *others* hold?" in time that depends on the number of modes, never on the number of
//! holders (P11). Invariant: every count in [`Held`] is the sum over the holders' own claims; what is added
//! by [`Held::add`] is taken back by exactly one [`Held::remove`] with the same claims.
//!
//! Elements are distinguished by a 64-bit hash. A collision can only add a conflict, never hide one: modes on one
//! element conflict at least as much as modes on two.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::bounded_serde::short_list;

/// A lock mode: an index into a type's [`Modes`], or one of the universal modes, which locks of every type have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Mode(pub u8);

/// How many modes there can be, including the five universal ones.
pub const MODES_MAX: usize = 16;

/// The names of the universal modes, from [`Mode::PRESENT`] on.
const UNIVERSAL: [&str; 5] = ["present", "read-expiry", "extend-expiry", "shared", "exclusive"];

impl Mode {
    /// That there is a record. Conflicts with what may remove it ([`Modes::removing`]).
    pub const PRESENT: Mode = Mode(11);
    /// That the record's expiry stays. Conflicts with what may change it: [`Mode::EXTEND_EXPIRY`], [`Modes::removing`]
    /// and [`Modes::clearing`].
    pub const READ_EXPIRY: Mode = Mode(12);
    /// May put the expiry off. Commutes with itself, and conflicts otherwise as [`Mode::READ_EXPIRY`] does. Both together
    /// set the expiry.
    pub const EXTEND_EXPIRY: Mode = Mode(13);
    /// Conflicts with [`Mode::EXCLUSIVE`] and with every mode of the type: reading under reader/writer locks.
    pub const SHARED: Mode = Mode(14);
    /// Conflicts with everything, including itself: writing under reader/writer locks.
    pub const EXCLUSIVE: Mode = Mode(15);

    /// Whether locks of every type have it.
    pub fn is_universal(self) -> bool {
        self >= Mode::PRESENT
    }

    const fn bit(self) -> u16 {
        1 << self.0
    }
}

/// The modes that are about a record's expiry.
const OF_EXPIRY: u16 = Mode::READ_EXPIRY.bit() | Mode::EXTEND_EXPIRY.bit();
/// What a record's content has nothing to do with, unless the mode is among those that remove or clear.
const BESIDE_CONTENT: u16 = Mode::PRESENT.bit() | OF_EXPIRY;

/// A type's lock modes: a name each, and for each the modes it conflicts with.
///
/// The relation is symmetric; the oracle checks that first ([`Modes::is_symmetric`]).
#[derive(Clone, Copy, Debug)]
pub struct Modes {
    /// Names, for people: waits, transcripts and the oracle print them. At most 11.
    pub names: &'static [&'static str],
    /// `conflicts[m]` has bit `n` set when modes `m` and `n` conflict where their scopes meet.
    pub conflicts: &'static [u16],
    /// Modes under which a record that is there may go, alone or together with others: what takes its last element.
    pub removing: u16,
    /// Modes under which the record's expiry may be cleared ([`DataType::clears_expiry`](crate::DataType::clears_expiry)).
    pub clearing: u16,
}

impl Modes {
    /// The set of modes that conflict with `mode`.
    pub fn conflicts_of(&self, mode: Mode) -> u16 {
        let of_any = Mode::EXCLUSIVE.bit() | Mode::SHARED.bit();
        match mode {
            Mode::EXCLUSIVE => u16::MAX,
            Mode::SHARED => !Mode::SHARED.bit(),
            Mode::PRESENT => self.removing | of_any,
            Mode::READ_EXPIRY => self.removing | self.clearing | Mode::EXTEND_EXPIRY.bit() | of_any,
            Mode::EXTEND_EXPIRY => self.removing | self.clearing | Mode::READ_EXPIRY.bit() | of_any,
            Mode(own) => {
                let is_in = |set: u16| (set >> own) & 1 != 0;
                let beside = match (is_in(self.removing), is_in(self.clearing)) {
                    (false, false) => 0,
                    (false, true) => OF_EXPIRY,
                    (true, _) => BESIDE_CONTENT,
                };
                self.conflicts[own as usize] | beside | of_any
            }
        }
    }

    /// The name of a mode.
    pub fn name_of(&self, mode: Mode) -> &'static str {
        match mode.0.checked_sub(Mode::PRESENT.0) {
            Some(universal) => UNIVERSAL[universal as usize],
            None => self.names[mode.0 as usize],
        }
    }

    /// Whether `a` conflicts with `b` exactly when `b` conflicts with `a`, and the tables agree in length.
    pub fn is_symmetric(&self) -> bool {
        let count = self.names.len();
        count == self.conflicts.len()
            && count <= Mode::PRESENT.0 as usize
            && (self.removing | self.clearing) >> count == 0
            && (0..count).all(|a| {
                self.conflicts[a] >> count == 0
                    && (0..count).all(|b| (self.conflicts[a] >> b) & 1 == (self.conflicts[b] >> a) & 1)
            })
    }
}

/// A set of modes as bits, for the tables in [`Modes::conflicts`].
pub const fn modes(list: &[Mode]) -> u16 {
    let mut bits = 0;
    let mut i = 0;
    while i < list.len() {
        bits |= 1 << list[i].0;
        i += 1;
    }
    bits
}

/// What part of the record a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// All of it: meets every other scope.
    Record,
    /// One element (a member, a field), by hash: meets the record and the same element.
    Element(u64),
}

impl Scope {
    /// The scope of one element. The hash is the same in every process and every run.
    pub fn element(name: &[u8]) -> Self {
        Scope::Element(foldhash::fast::FixedState::with_seed(0x636c_6172_6574).hash_one(name))
    }
}

/// One claim: a mode on a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Where.
    pub scope: Scope,
    /// How.
    pub mode: Mode,
}

/// How far an operation may move a bounded value: the escrow part of a claim.
// P4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// At most this far down.
    pub down: u64,
    /// At most this far up.
    pub up: u64,
}

impl Draw {
    /// Whether it is so small that 2^30 of them together leave room where there is [ample room](Room::is_ample).
    pub fn is_small(&self) -> bool {
        const SMALL_MAX: u64 = 1 << 31;
        self.down.max(self.up) <= SMALL_MAX
    }

    /// Whether both move the value the same way, so that they share its room.
    pub fn meets(&self, other: Draw) -> bool {
        (self.down > 0 && other.down > 0) || (self.up > 0 && other.up > 0)
    }
}

/// How far a state lets its value move: what draws are summed against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Down to the lower bound.
    pub down: u64,
    /// Up to the upper bound.
    pub up: u64,
}

impl Room {
    /// For types without escrow.
    pub const UNBOUNDED: Room = Room { down: u64::MAX, up: u64::MAX };

    /// Whether [small draws](Draw::is_small) meet no bound, in whatever order they are carried out, and whichever are left out.
    pub fn is_ample(&self) -> bool {
        const AMPLE: u64 = 1 << 62;
        self.down.min(self.up) >= AMPLE
    }
}

/// All that one operation claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The modes, on their scopes.
    #[serde(deserialize_with = "short_list")]
    pub list: SmallVec<[Claim; 2]>,
    /// The escrow it draws.
    pub draw: Draw,
}

impl Claims {
    /// Claims nothing: commutes with everything.
    pub fn none() -> Self {
        Claims::default()
    }

    /// A mode on the whole record.
    pub fn record(mode: Mode) -> Self {
        Claims::of(Scope::Record, mode)
    }

    /// A mode on one element.
    pub fn element(name: &[u8], mode: Mode) -> Self {
        Claims::of(Scope::element(name), mode)
    }

    /// A mode on a scope.
    pub fn of(scope: Scope, mode: Mode) -> Self {
        let mut list = SmallVec::new();
        list.push(Claim { scope, mode });
        Claims { list, draw: Draw::default() }
    }

    /// And another claim.
    pub fn and(mut self, scope: Scope, mode: Mode) -> Self {
        self.push(scope, mode);
        self
    }

    /// Adds a claim, once.
    pub fn push(&mut self, scope: Scope, mode: Mode) {
        let claim = Claim { scope, mode };
        if !self.list.contains(&claim) {
            self.list.push(claim);
        }
    }

    /// Whether any of them is one of these modes.
    pub fn have(&self, modes: u16) -> bool {
        self.list.iter().any(|claim| claim.mode.bit() & modes != 0)
    }

    /// With escrow drawn.
    pub fn drawing(mut self, draw: Draw) -> Self {
        self.draw = draw;
        self
    }

    /// Whether two sets of claims conflict under `modes`, escrow aside.
    pub fn conflict_with(&self, other: &Claims, modes: &Modes) -> bool {
        self.list.iter().any(|a| {
            other.list.iter().any(|b| {
                let meets = match (a.scope, b.scope) {
                    (Scope::Element(x), Scope::Element(y)) => x == y,
                    (Scope::Record, _) | (_, Scope::Record) => true,
                };
                meets && modes.conflicts_of(a.mode) & b.mode.bit() != 0
            })
        })
    }
}

/// Per element, how many claims there are of each mode that is claimed on it.
#[derive(Clone, Debug, PartialEq)]
struct Element {
    hash: u64,
    counts: SmallVec<[(Mode, u32); 2]>,
}

/// The sum of the claims that are granted on one record: the state of its abstract lock.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Claims of each mode, on the record and on elements.
    all: [u32; MODES_MAX],
    /// Claims of each mode on the whole record.
    whole: [u32; MODES_MAX],
    /// Modes with a count in `all`, as bits.
    present: u16,
    elements: HashTable<Element>,
    down: u128,
    up: u128,
}

impl Held {
    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.present == 0 && self.down == 0 && self.up == 0
    }

    /// Whether any claim is of one of these modes. O(1).
    pub fn have(&self, modes: u16) -> bool {
        self.present & modes != 0
    }

    /// How many claims there are of each mode, on the record and on elements. O(modes).
    pub fn counts(&self) -> impl Iterator<Item = (Mode, u32)> + '_ {
        let modes = self.all.iter().zip(0..).map(|(count, mode)| (Mode(mode), *count));
        modes.filter(|(_, count)| *count > 0)
    }

    /// Grants claims. O(claims).
    pub fn add(&mut self, claims: &Claims) {
        for claim in &claims.list {
            let mode = claim.mode.0 as usize;
            self.all[mode] += 1;
            self.present |= claim.mode.bit();
            match claim.scope {
                Scope::Record => self.whole[mode] += 1,
                Scope::Element(hash) => self.add_element(hash, claim.mode),
            }
        }
        self.down += u128::from(claims.draw.down);
        self.up += u128::from(claims.draw.up);
    }

    /// Takes back claims granted before. O(claims).
    ///
    /// # Panics
    /// If they were not granted: a mistake of the caller.
    pub fn remove(&mut self, claims: &Claims) {
        for claim in &claims.list {
            let mode = claim.mode.0 as usize;
            self.all[mode] = self.all[mode].checked_sub(1).expect("a claim is released once");
            if self.all[mode] == 0 {
                self.present &= !claim.mode.bit();
            }
            match claim.scope {
                Scope::Record => {
                    self.whole[mode] = self.whole[mode].checked_sub(1).expect("a claim is released once");
                }
                Scope::Element(hash) => self.remove_element(hash, claim.mode),
            }
        }
        self.down = self.down.checked_sub(u128::from(claims.draw.down)).expect("a draw is returned once");
        self.up = self.up.checked_sub(u128::from(claims.draw.up)).expect("a draw is returned once");
    }

    /// Takes back all that was granted, and memory for more than a few elements. O(elements).
    pub fn clear(&mut self) {
        const KEPT_MAX: usize = 64;
        if self.elements.capacity() > KEPT_MAX {
            self.elements = HashTable::new(); // To clear it would cost as much as it ever had, each time.
        } else {
            self.elements.clear();
        }
        (self.all, self.whole) = ([0; MODES_MAX], [0; MODES_MAX]);
        (self.present, self.down, self.up) = (0, 0, 0);
    }

    /// Whether `claims` commute with everything held, apart from what the same owner holds (`own`, all its
    /// claims on this record), when the state leaves `room`. O(claims x (modes + own claims)), whatever
    /// the number of holders.
    pub fn admits<'a>(
        &self,
        modes: &Modes,
        claims: &Claims,
        room: Room,
        own: impl Iterator<Item = &'a Claims> + Clone,
    ) -> bool {
        self.admits_modes(modes, claims, own.clone()) && self.admits_draw(claims.draw, room, own)
    }

    /// The part of [`Held::admits`] that is about modes, not about escrow.
    pub fn admits_modes<'a>(
        &self,
        modes: &Modes,
        claims: &Claims,
        own: impl Iterator<Item = &'a Claims> + Clone,
    ) -> bool {
        claims.list.iter().all(|claim| {
            let mut suspects = modes.conflicts_of(claim.mode) & self.present;
            while suspects != 0 {
                let mode = Mode(suspects.trailing_zeros() as u8);
                suspects &= suspects - 1;
                let held = self.count(claim.scope, mode);
                if held > 0 && held > own_count(own.clone(), claim.scope, mode) {
                    return false;
                }
            }
            true
        })
    }

    /// [`Held::admits_modes`], with what the owner holds summed up in `own`. O(claims x modes), however many calls the owner
    /// made.
    pub fn admits_modes_beside(&self, modes: &Modes, claims: &Claims, own: &Held) -> bool {
        claims.list.iter().all(|claim| {
            let mut suspects = modes.conflicts_of(claim.mode) & self.present;
            while suspects != 0 {
                let mode = Mode(suspects.trailing_zeros() as u8);
                suspects &= suspects - 1;
                if self.count(claim.scope, mode) > own.count(claim.scope, mode) {
                    return false;
                }
            }
            true
        })
    }

    /// Whether `draw` fits into `room` beside all that is drawn but what the owner draws itself: `own`, its draws down and
    /// up. O(1).
    pub fn admits_draw_beside(&self, draw: Draw, room: Room, own: (u128, u128)) -> bool {
        let (down, up) = (self.down - own.0, self.up - own.1);
        (draw.down == 0 || down + u128::from(draw.down) <= u128::from(room.down))
            && (draw.up == 0 || up + u128::from(draw.up) <= u128::from(room.up))
    }

    /// What is left of a room beside all that is drawn. O(1).
    pub fn room_beside(&self, room: Room) -> Room {
        let left = |room: u64, drawn: u128| room.saturating_sub(u64::try_from(drawn).unwrap_or(u64::MAX));
        Room { down: left(room.down, self.down), up: left(room.up, self.up) }
    }

    /// Whether somebody draws the same way as `draw`, so that one may block the other.
    pub fn draws_beside(&self, draw: Draw) -> bool {
        (draw.down > 0 && self.down > 0) || (draw.up > 0 && self.up > 0)
    }

    fn admits_draw<'a>(&self, draw: Draw, room: Room, own: impl Iterator<Item = &'a Claims>) -> bool {
        if draw == Draw::default() {
            return true;
        }
        let drawn = own.fold((0, 0), |(down, up), claims| {
            (down + u128::from(claims.draw.down), up + u128::from(claims.draw.up))
        });
        self.admits_draw_beside(draw, room, drawn)
    }

    /// How many claims of `mode` meet `scope`.
    fn count(&self, scope: Scope, mode: Mode) -> u32 {
        match scope {
            Scope::Record => self.all[mode.0 as usize],
            Scope::Element(hash) => {
                let on_element = self
                    .elements
                    .find(hash, |element| element.hash == hash)
                    .and_then(|element| element.counts.iter().find(|(held, _)| *held == mode))
                    .map_or(0, |(_, count)| *count);
                self.whole[mode.0 as usize] + on_element
            }
        }
    }

    fn add_element(&mut self, hash: u64, mode: Mode) {
        let entry = self.elements.entry(hash, |element| element.hash == hash, |element| element.hash);
        let element = entry.or_insert_with(|| Element { hash, counts: SmallVec::new() }).into_mut();
        match element.counts.iter_mut().find(|(held, _)| *held == mode) {
            Some((_, count)) => *count += 1,
            None => element.counts.push((mode, 1)),
        }
    }

    fn remove_element(&mut self, hash: u64, mode: Mode) {
        let entry = self.elements.find_entry(hash, |element| element.hash == hash);
        let mut entry = entry.expect("an element is released once");
        let counts = &mut entry.get_mut().counts;
        let at = counts.iter().position(|(held, _)| *held == mode).expect("a claim is released once");
        counts[at].1 -= 1;
        if counts[at].1 == 0 {
            counts.swap_remove(at);
        }
        if entry.get().counts.is_empty() {
            entry.remove();
        }
    }
}

/// How many of the owner's own claims of `mode` meet `scope`.
fn own_count<'a>(own: impl Iterator<Item = &'a Claims>, scope: Scope, mode: Mode) -> u32 {
    own.flat_map(|claims| claims.list.iter())
        .filter(|claim| claim.mode == mode)
        .filter(|claim| match (scope, claim.scope) {
            (Scope::Element(x), Scope::Element(y)) => x == y,
            (Scope::Record, _) | (_, Scope::Record) => true,
        })
        .count() as u32
}

/// Equal when the same claims are held, in whatever order they came.
impl PartialEq for Held {
    #[expect(clippy::disallowed_methods, reason = "all must be alike, in whatever order")]
    fn eq(&self, other: &Self) -> bool {
        (self.all, self.whole, self.down, self.up) == (other.all, other.whole, other.down, other.up)
            && self.elements.len() == other.elements.len()
            && self.elements.iter().all(|element| {
                other.elements.find(element.hash, |it| it.hash == element.hash).is_some_and(|it| {
                    it.counts.len() == element.counts.len()
                        && element.counts.iter().all(|count| it.counts.contains(count))
                })
            })
    }
}
