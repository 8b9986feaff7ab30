//! Set: distinct members, no order. Native Redis type: set.
//!
//! # Commutativity specification
//!
//! After Table 2 of `claret-2015` (s.5.1), refined by element and by what the set holds when the lock is granted. "x
//! in" means: in the set, including the transaction's own earlier changes.
//!
//! | operation | when | claims |
//! |---|---|---|
//! | `SADD x` (void) | x not in | `add` on x |
//! | `SADD x` (void) | x in | `pin-present` on x |
//! | `SADD.RETURNING x` | x not in: 1 | `add-seen` on x |
//! | `SADD.RETURNING x` | x in: 0 | `pin-present` on x |
//! | `SREM x` (void) | x in | `remove` on x |
//! | `SREM x` (void) | x not in | `pin-absent` on x |
//! | `SREM.RETURNING x` | x in: 1 | `remove-seen` on x |
//! | `SREM.RETURNING x` | x not in: 0 | `pin-absent` on x |
//! | `SISMEMBER x` | in / not in | `pin-present` / `pin-absent` on x |
//! | `SCARD`, `SMEMBERS` | | `read-all` on the record |
//!
//! Claims on different elements never conflict. On one element, or with the record:
//!
//! | | add | add-seen | remove | remove-seen | pin-present | pin-absent | read-all |
//! |---|---|---|---|---|---|---|---|
//! | add | | x | x | x | | x | x |
//! | add-seen | x | x | x | x | x | x | x |
//! | remove | x | x | | x | x | | x |
//! | remove-seen | x | x | x | x | x | x | x |
//! | pin-present | | x | x | x | | x | |
//! | pin-absent | x | x | | x | x | | |
//! | read-all | x | x | x | x | | | |
//!
//! Void adds of one member commute; adds that answer "was it new" do not. `SCARD` commutes with an add of a member
//! that is in, because that add only claims that the member stays.
//!
//! For void operations a host may skip looking the member up. `SADD x` then claims `add` and `SREM x` claims
//! `remove`, which conflict with everything that the pins conflict with.

use std::collections::BTreeSet;
use std::fmt;

use hashbrown::HashSet;
use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltIn, Native};
use crate::data_type::{
    Access, Arguments, DataType, Examples, Execution, Few, Method, Unique, few, method_named,
};
use crate::{Bytes, Claims, Mode, Modes, OpError, Reply, Scope, modes};

/// Distinct members without order. Operations on different members share the lock, and so do additions of one member; the size
/// and the members exclude additions and removals.
///
/// `docs/types.md` says for each operation what it shares the lock with.
pub struct Set;

/// Operations of [`Set`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum SetOp {
    Add(Few<Bytes>),
    AddReturning(Few<Bytes>),
    Remove(Few<Bytes>),
    RemoveReturning(Few<Bytes>),
    Contains(Bytes),
    Len,
    Members,
}

/// Members that are added and members that are removed: disjoint, and each a real change when it was decided. If two
/// transactions add one member, the second effect finds it there, so a host applies it with commands that tolerate
/// that (`SADD`, `SREM`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetEffect {
    added: Few<Bytes>,
    removed: Few<Bytes>,
}

impl SetEffect {
    /// Members that are added.
    pub fn added(&self) -> &[Bytes] {
        &self.added
    }

    /// Members that are removed.
    pub fn removed(&self) -> &[Bytes] {
        &self.removed
    }
}

/// The content of a set, or a partial state of it.
#[derive(Clone, Default, PartialEq)]
pub struct SetState {
    members: HashSet<Bytes, foldhash::fast::FixedState>,
    /// Members that are not in `members`; none in a whole set.
    elsewhere: usize,
}

type Members = SetState;

impl SetState {
    /// A part of a set: some of its members, and how many more it has.
    ///
    /// What it must hold: of the members that the operation names, and of those that its owner's effects add or
    /// remove, those that are in. For `SCARD` that is none but what the effects name; for `SMEMBERS` it is all.
    /// With all members it is the whole set.
    ///
    /// For a void `SADD` it may leave out members that are in, and for a void `SREM` have some that are not: they claim
    /// more than they need to then, and their effects do what they should.
    pub fn partial(members: impl IntoIterator<Item = Bytes>, elsewhere: usize) -> Self {
        SetState { members: members.into_iter().collect(), elsewhere }
    }

    /// How many members. O(1).
    pub fn len(&self) -> usize {
        self.members.len() + self.elsewhere
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is a member, as far as the partial state says. O(1).
    pub fn contains(&self, member: &[u8]) -> bool {
        self.members.contains(member)
    }

    /// The members that are here, in bytewise order. O(n log n).
    #[expect(clippy::disallowed_methods, reason = "sorted before anybody looks")]
    pub fn sorted(&self) -> Vec<&Bytes> {
        let mut list: Vec<&Bytes> = self.members.iter().collect();
        list.sort_unstable();
        list
    }
}

impl FromIterator<Bytes> for SetState {
    fn from_iter<I: IntoIterator<Item = Bytes>>(members: I) -> Self {
        SetState::partial(members, 0)
    }
}

impl fmt::Debug for SetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_set();
        shown.entries(&self.members);
        if self.elsewhere > 0 {
            shown.entry(&format_args!("and {} elsewhere", self.elsewhere));
        }
        shown.finish()
    }
}

const ADD: Mode = Mode(0);
const ADD_SEEN: Mode = Mode(1);
const REMOVE: Mode = Mode(2);
const REMOVE_SEEN: Mode = Mode(3);
const PIN_PRESENT: Mode = Mode(4);
const PIN_ABSENT: Mode = Mode(5);
const READ_ALL: Mode = Mode(6);

const METHODS: &[Method] = &[
    Method {
        name: "SADD",
        arguments: "member [member ...]",
        summary: "adds members",
        access: Access::Write,
        returns: false,
        complexity: "O(members)",
    },
    Method {
        name: "SADD.RETURNING",
        arguments: "member [member ...]",
        summary: "adds members; how many were new",
        access: Access::Write,
        returns: true,
        complexity: "O(members)",
    },
    Method {
        name: "SREM",
        arguments: "member [member ...]",
        summary: "removes members",
        access: Access::Write,
        returns: false,
        complexity: "O(members)",
    },
    Method {
        name: "SREM.RETURNING",
        arguments: "member [member ...]",
        summary: "removes members; how many there were",
        access: Access::Write,
        returns: true,
        complexity: "O(members)",
    },
    Method {
        name: "SISMEMBER",
        arguments: "member",
        summary: "1 if it is a member, else 0",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "SCARD",
        arguments: "",
        summary: "how many members",
        access: Access::Read,
        returns: true,
        complexity: "O(1)",
    },
    Method {
        name: "SMEMBERS",
        arguments: "",
        summary: "all members, in bytewise order",
        access: Access::Read,
        returns: true,
        complexity: "O(n log n)",
    },
];

impl DataType for Set {
    const NAME: &'static str = "set";
    const SUMMARY: &'static str = "distinct members without order";
    const NATIVE: &'static str = "set";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &["add", "add-seen", "remove", "remove-seen", "pin-present", "pin-absent", "read-all"],
        conflicts: &[
            modes(&[ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_ABSENT, READ_ALL]),
            modes(&[ADD, ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_PRESENT, PIN_ABSENT, READ_ALL]),
            modes(&[ADD, ADD_SEEN, REMOVE_SEEN, PIN_PRESENT, READ_ALL]),
            modes(&[ADD, ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_PRESENT, PIN_ABSENT, READ_ALL]),
            modes(&[ADD_SEEN, REMOVE, REMOVE_SEEN, PIN_ABSENT]),
            modes(&[ADD, ADD_SEEN, REMOVE_SEEN, PIN_PRESENT]),
            modes(&[ADD, ADD_SEEN, REMOVE, REMOVE_SEEN]),
        ],
        removing: modes(&[REMOVE, REMOVE_SEEN]),
        clearing: 0,
    };

    type State = Members;
    type Op = SetOp;
    type Effect = SetEffect;

    fn parse(method: &str, arguments: Arguments<'_>) -> Result<SetOp, OpError> {
        let op = match (method, arguments) {
            ("SADD", [_, ..]) => SetOp::Add(arguments.into()),
            ("SADD.RETURNING", [_, ..]) => SetOp::AddReturning(arguments.into()),
            ("SREM", [_, ..]) => SetOp::Remove(arguments.into()),
            ("SREM.RETURNING", [_, ..]) => SetOp::RemoveReturning(arguments.into()),
            ("SISMEMBER", [member]) => SetOp::Contains(member.clone()),
            ("SCARD", []) => SetOp::Len,
            ("SMEMBERS", []) => SetOp::Members,
            _ => return Err(OpError::misuse(METHODS, method)),
        };
        Ok(op)
    }

    fn method(op: &SetOp) -> &'static Method {
        // Void and returning variants stand in METHODS in this order.
        match op {
            SetOp::Add(_) => &METHODS[0],
            SetOp::AddReturning(_) => &METHODS[1],
            SetOp::Remove(_) => &METHODS[2],
            SetOp::RemoveReturning(_) => &METHODS[3],
            SetOp::Contains(_) => &METHODS[4],
            SetOp::Len => &METHODS[5],
            SetOp::Members => method_named(METHODS, "SMEMBERS"),
        }
    }

    fn arguments(op: &SetOp) -> Few<Bytes> {
        match op {
            SetOp::Add(members)
            | SetOp::AddReturning(members)
            | SetOp::Remove(members)
            | SetOp::RemoveReturning(members) => members.clone(),
            SetOp::Contains(member) => few([member.clone()]),
            SetOp::Len | SetOp::Members => Few::new(),
        }
    }

    fn size(op: &SetOp) -> usize {
        match op {
            SetOp::Add(list)
            | SetOp::AddReturning(list)
            | SetOp::Remove(list)
            | SetOp::RemoveReturning(list) => list.iter().map(|member| member.len()).max().unwrap_or(0),
            SetOp::Contains(member) => member.len(),
            SetOp::Len | SetOp::Members => 0,
        }
    }

    fn is_absent(state: &Members) -> bool {
        state.is_empty()
    }

    fn is_total(_: &SetOp) -> bool {
        true
    }

    fn is_blind(op: &SetOp) -> bool {
        matches!(op, SetOp::Add(_))
    }

    fn footprint(op: &SetOp) -> Claims {
        let each = |list: &[Bytes], modes: &[Mode]| {
            let mut claims = Claims::none();
            for member in list {
                let scope = Scope::element(member);
                modes.iter().for_each(|mode| claims.push(scope, *mode));
            }
            claims
        };
        match op {
            SetOp::Add(list) => each(list, &[ADD, PIN_PRESENT]),
            SetOp::AddReturning(list) => each(list, &[ADD_SEEN, PIN_PRESENT]),
            SetOp::Remove(list) => each(list, &[REMOVE, PIN_ABSENT]),
            SetOp::RemoveReturning(list) => each(list, &[REMOVE_SEEN, PIN_ABSENT]),
            SetOp::Contains(member) => each(std::slice::from_ref(member), &[PIN_PRESENT, PIN_ABSENT]),
            SetOp::Len | SetOp::Members => Claims::record(READ_ALL),
        }
    }

    fn footprint_modes(op: &SetOp) -> Option<u16> {
        Some(match op {
            SetOp::Add(_) => modes(&[ADD, PIN_PRESENT]),
            SetOp::AddReturning(_) => modes(&[ADD_SEEN, PIN_PRESENT]),
            SetOp::Remove(_) => modes(&[REMOVE, PIN_ABSENT]),
            SetOp::RemoveReturning(_) => modes(&[REMOVE_SEEN, PIN_ABSENT]),
            SetOp::Contains(_) => modes(&[PIN_PRESENT, PIN_ABSENT]),
            SetOp::Len | SetOp::Members => modes(&[READ_ALL]),
        })
    }

    fn execute(state: &Members, op: &SetOp, _: Unique) -> Result<Execution<SetEffect>, OpError> {
        let execution = match op {
            SetOp::Add(list) => add(state, list, ADD, false),
            SetOp::AddReturning(list) => add(state, list, ADD_SEEN, true),
            SetOp::Remove(list) => remove(state, list, REMOVE, false),
            SetOp::RemoveReturning(list) => remove(state, list, REMOVE_SEEN, true),
            SetOp::Contains(member) => {
                let is_in = state.contains(member);
                let pin = if is_in { PIN_PRESENT } else { PIN_ABSENT };
                Execution::read(Reply::bool(is_in), Claims::element(member, pin))
            }
            SetOp::Len => Execution::read(Reply::count(state.len()), Claims::record(READ_ALL)),
            SetOp::Members => Execution::read(members(state), Claims::record(READ_ALL)),
        };
        Ok(execution)
    }

    fn apply(state: &mut Members, effect: SetEffect) -> SetEffect {
        // Of two transactions that add one member, the second finds it there: undoing it must not take
        // the first one's away, so the inverse holds only what really changed.
        let mut inverse = SetEffect::default();
        for member in effect.removed {
            if state.members.remove(&member) {
                inverse.added.push(member);
            }
        }
        for member in effect.added {
            if state.members.insert(member.clone()) {
                inverse.removed.push(member);
            }
        }
        inverse
    }

    fn combine(held: &SetOp, answer: &Reply, op: &SetOp) -> Option<Reply> {
        match (held, op, answer) {
            (SetOp::Members, SetOp::Len, Reply::Array(members)) => Some(Reply::count(members.len())),
            (SetOp::Members, SetOp::Contains(member), Reply::Array(members)) => {
                Some(Reply::bool(members.contains(&Reply::Bytes(member.clone()))))
            }
            _ if held == op => Some(answer.clone()),
            _ => None,
        }
    }
}

fn add(state: &Members, list: &[Bytes], fresh: Mode, returns: bool) -> Execution<SetEffect> {
    let mut claims = Claims::none();
    let mut added = Few::new();
    for member in list {
        if state.contains(member) {
            claims.push(Scope::element(member), PIN_PRESENT);
        } else if !added.contains(member) {
            claims.push(Scope::element(member), fresh);
            added.push(member.clone());
        }
    }
    let reply = if returns { Reply::count(added.len()) } else { Reply::Ok };
    let effect = (!added.is_empty()).then(|| SetEffect { added, removed: Few::new() });
    Execution { reply, effect, claims }
}

fn remove(state: &Members, list: &[Bytes], taken: Mode, returns: bool) -> Execution<SetEffect> {
    let mut claims = Claims::none();
    let mut removed = Few::new();
    for member in list {
        if !state.contains(member) {
            claims.push(Scope::element(member), PIN_ABSENT);
        } else if !removed.contains(member) {
            claims.push(Scope::element(member), taken);
            removed.push(member.clone());
        }
    }
    let reply = if returns { Reply::count(removed.len()) } else { Reply::Ok };
    let effect = (!removed.is_empty()).then(|| SetEffect { added: Few::new(), removed });
    Execution { reply, effect, claims }
}

fn members(state: &Members) -> Reply {
    assert_eq!(state.elsewhere, 0, "SMEMBERS reads all members");
    Reply::Array(state.sorted().into_iter().cloned().map(Reply::Bytes).collect())
}

impl Examples for Set {
    fn states() -> Vec<Members> {
        [&[][..], &["x"], &["y"], &["x", "y"]]
            .iter()
            .map(|list| list.iter().map(|member| Bytes::from(*member)).collect())
            .collect()
    }

    fn operations() -> Vec<SetOp> {
        let few = |list: &[&str]| list.iter().map(|member| Bytes::from(*member)).collect::<Few<Bytes>>();
        let mut operations = vec![SetOp::Len, SetOp::Members, SetOp::Add(few(&["x", "y"]))];
        for member in ["x", "y"] {
            operations.push(SetOp::Add(few(&[member])));
            operations.push(SetOp::AddReturning(few(&[member])));
            operations.push(SetOp::Remove(few(&[member])));
            operations.push(SetOp::RemoveReturning(few(&[member])));
            operations.push(SetOp::Contains(member.into()));
        }
        operations.push(SetOp::RemoveReturning(few(&["x", "y"])));
        operations
    }
}

impl BuiltIn for Set {
    const SHARING: &'static str = "different members; adds of one member";
    const READS_ALL: &'static [&'static str] = &["SMEMBERS"];

    fn native(state: &SetState) -> Native {
        Native::Set(state.sorted().into_iter().cloned().collect())
    }

    fn of_words(words: &[Bytes]) -> Result<Option<SetState>, OpError> {
        Ok((!words.is_empty()).then(|| SetState::partial(words.iter().cloned(), 0)))
    }

    fn elements(state: &SetState) -> usize {
        state.len()
    }

    fn part(whole: &SetState, op: &SetOp, own: &[&SetEffect]) -> SetState {
        let mut names: BTreeSet<&Bytes> = match op {
            SetOp::Add(list)
            | SetOp::AddReturning(list)
            | SetOp::Remove(list)
            | SetOp::RemoveReturning(list) => list.iter().collect(),
            SetOp::Contains(member) => BTreeSet::from([member]),
            SetOp::Len => BTreeSet::new(),
            SetOp::Members => return whole.clone(),
        };
        names.extend(own.iter().flat_map(|effect| effect.added().iter().chain(effect.removed())));
        let here: Vec<Bytes> = names.into_iter().filter(|name| whole.contains(name)).cloned().collect();
        let elsewhere = whole.len() - here.len();
        SetState::partial(here, elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_footprints_are_those_that_they_claim() {
        for op in Set::operations() {
            let claims = Set::footprint(&op);
            let claimed = claims.list.iter().fold(0, |bits, claim| bits | 1 << claim.mode.0);
            assert_eq!(Set::footprint_modes(&op), Some(claimed), "{op:?}");
        }
    }
}
