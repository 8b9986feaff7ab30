//! The contract of a data type: [`DataType`], and what its methods take and give (P67).

use std::fmt::Debug;

use smallvec::SmallVec;

pub use crate::method::{Access, Method, method_named};
use crate::{Bytes, Claims, Modes, OpError, Reply, Room};

/// A number that no other execution on the same record ever gets, even if this one aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unique(pub u64);

/// What executing an operation decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution<E> {
    /// The answer; [`Reply::Ok`] for void operations.
    pub reply: Reply,
    /// What to do at commit; `None` when nothing changes.
    pub effect: Option<E>,
    /// What must be held until the commit, so that the decision stays right.
    pub claims: Claims,
}

impl<E> Execution<E> {
    /// Reads, and changes nothing.
    pub fn read(reply: Reply, claims: Claims) -> Self {
        Execution { reply, effect: None, claims }
    }

    /// Changes, and answers nothing.
    pub fn void(effect: E, claims: Claims) -> Self {
        Execution { reply: Reply::Ok, effect: Some(effect), claims }
    }

    /// Changes and answers.
    pub fn returning(reply: Reply, effect: E, claims: Claims) -> Self {
        Execution { reply, effect: Some(effect), claims }
    }
}

/// The arguments of a call as they come from a prompt or a wire.
pub type Arguments<'a> = &'a [Bytes];

/// A data type: what its operations do, and which of them commute. Types of your own run on the embedded store; a cluster
/// has the built-in types alone, and there an operation of another type is an error that names the type and the nodes.
///
/// To write a type, implement this and [`Examples`], and let the [oracle](crate::oracle) check it: `docs/howto/write-a-type.md`
/// writes one from nothing. You then get abstract locks, phases, combining and read-your-writes without touching anything
/// else. Operations are split as in the Claret paper (`claret-2015`, s.3.3): [execute](DataType::execute) reads and decides,
/// once the lock is granted; [apply](DataType::apply) mutates, at commit. The **effect** links them. It carries what was decided
/// (named elements, amounts) and never a choice to be made again, because other effects may be applied in between.
///
/// A type must keep these promises; the oracle checks them all on small cases:
///
/// - `execute` and `apply` are functions of their arguments alone;
/// - operations whose claims admit one another give the same replies and the same final state in every order and for
///   every subset, whatever else is granted, applied or aborted in between;
/// - `footprint` claims at least as much as `execute` does in any state;
/// - the effect that `apply` returns undoes it exactly.
pub trait DataType: Sized + Send + Sync + 'static {
    /// The name, as in `claret check-type NAME`.
    const NAME: &'static str;
    /// One line on what it is for.
    const SUMMARY: &'static str;
    /// The native Redis type of its records on a cluster (`string`, `hash`, `set`, `zset`, `list`). Types that share
    /// a `State` share keys, as in Redis. `any` is for operations on records of any type alone.
    const NATIVE: &'static str;
    /// Lock modes and their conflicts.
    const MODES: Modes;
    /// All operations.
    const METHODS: &'static [Method];

    /// A record's content. `default()` is the absent record.
    type State: Clone + Default + PartialEq + Debug + Send + Sync + 'static;
    /// An operation with its arguments.
    type Op: Clone + PartialEq + Debug + Send + Sync + 'static;
    /// A decided change.
    type Effect: Clone + PartialEq + Debug + Send + Sync + 'static;

    /// Parses a call from its name (in capitals) and arguments. Refuses bad arguments and names them, so every
    /// operation that exists is well-formed.
    fn parse(method: &str, arguments: Arguments<'_>) -> Result<Self::Op, OpError>;

    /// Which of [`Self::METHODS`] an operation is.
    fn method(op: &Self::Op) -> &'static Method;

    /// The arguments of this operation as a call: with the name of its method, [`DataType::parse`] makes the same
    /// operation of them. Operations travel in this form.
    fn arguments(op: &Self::Op) -> Few<Bytes>;

    /// Checks the arguments of an operation that a program built (NaN, negative bounds). Called before
    /// anything is sent or locked.
    fn check(op: &Self::Op) -> Result<(), OpError> {
        let _ = op;
        Ok(())
    }

    /// The largest argument in bytes, to compare with the limit on values.
    fn size(op: &Self::Op) -> usize {
        let _ = op;
        0
    }

    /// Whether the record is gone (Redis deletes empty collections).
    fn is_absent(state: &Self::State) -> bool;

    /// The claims of an operation whatever the state: at least those of `execute` in any state. Queues and combining
    /// use it, because they cannot see the state.
    fn footprint(op: &Self::Op) -> Claims;

    /// The modes that [`DataType::footprint`] claims, as bits, for who need not know the scopes: to find those may take longer. `None`:
    /// the footprint tells; so it is of operations that draw.
    fn footprint_modes(op: &Self::Op) -> Option<u16> {
        let _ = op;
        None
    }

    /// Whether an operation is *total*: it can be done in every state of its type, the absent record included, and draws nothing. Such a
    /// one may be given its place among others before the state is known in which it will be executed.
    // P82.
    fn is_total(op: &Self::Op) -> bool {
        let _ = op;
        false
    }

    /// Whether an operation is *lasting*: where it can be done, it can be done after whatever others of its type, too, in whatever order
    /// they come. Total ones are. One that draws [draws little](crate::Draw::is_small), and is lasting where there is
    /// [ample room](Room::is_ample), beside others that draw little. A type has none that are total beside those that are lasting alone.
    // P82.
    fn is_lasting(op: &Self::Op) -> bool {
        Self::is_total(op)
    }

    /// Whether an operation is *blind*: total, void, and what it does to an absent record is what it does to every other one. Two of
    /// them may differ in nothing but their order, and to be carried out a blind one need not know what is there.
    // K16.
    fn is_blind(op: &Self::Op) -> bool {
        let _ = op;
        false
    }

    /// Decides an operation in `state`, which already includes the caller's own earlier effects. Read-only.
    ///
    /// # Errors
    /// When it cannot be done in this state (overflow, not a number). The transaction is then doomed.
    fn execute(
        state: &Self::State,
        op: &Self::Op,
        unique: Unique,
    ) -> Result<Execution<Self::Effect>, OpError>;

    /// How far the value may still move, for types with escrow.
    fn room(state: &Self::State) -> Room {
        let _ = state;
        Room::UNBOUNDED
    }

    /// Applies an effect and returns the one that undoes it. Cannot fail: `execute` has decided whatever could.
    fn apply(state: &mut Self::State, effect: Self::Effect) -> Self::Effect;

    /// Whether an effect that was decided clears the record's expiry, as `SET` does. Its claims are then among
    /// [`Modes::clearing`], or conflict with everything.
    fn clears_expiry(effect: &Self::Effect) -> bool {
        let _ = effect;
        false
    }

    /// Derives the answer of `op` from that of `held`, an operation of another transaction of the same process that
    /// still holds its lock (combining, `claret-2015` s.5.3). Called only for operations that return something and
    /// only read.
    fn combine(held: &Self::Op, answer: &Reply, op: &Self::Op) -> Option<Reply> {
        if held == op { Some(answer.clone()) } else { None }
    }
}

/// Small cases of a type, for the oracle: a few states and the operations that tell them apart.
pub trait Examples: DataType {
    /// States that differ in what operations see: absent, one element, several, at a bound.
    fn states() -> Vec<Self::State>;
    /// Operations over the same few elements, including every method and every interesting argument.
    fn operations() -> Vec<Self::Op>;
}

/// Several effects or elements: mostly one.
pub type Few<T> = SmallVec<[T; 1]>;

/// A few, from those at hand.
pub fn few<T, const N: usize>(items: [T; N]) -> Few<T> {
    let mut list = Few::with_capacity(N);
    items.into_iter().for_each(|item| list.push(item));
    list
}

/// Reading arguments, with errors that name what was given, and writing them.
pub mod arguments {
    use std::fmt::Write;

    use super::{Bytes, OpError};

    /// An integer.
    pub fn int(given: &Bytes) -> Result<i64, OpError> {
        parsed(given, "an integer")
    }

    /// A count or an index from zero.
    pub fn unsigned(given: &Bytes) -> Result<u64, OpError> {
        parsed(given, "a whole number, zero or more")
    }

    /// A float that is not NaN; `inf`, `+inf` and `-inf` are. The digits of a number that is too large for a float
    /// are refused, as in Redis.
    pub fn float(given: &Bytes, what: &'static str) -> Result<f64, OpError> {
        let expected = "a number";
        let value: f64 = parsed(given, expected)?;
        match value {
            _ if value.is_nan() => Err(OpError::NotANumber(what.into())),
            _ if value.is_infinite() && given.iter().any(u8::is_ascii_digit) => {
                Err(OpError::Argument { given: given.to_string(), expected: expected.into() })
            }
            _ => Ok(value),
        }
    }

    /// An integer as an argument: what [`int`] reads back.
    pub fn of_int(value: i64) -> Bytes {
        written(format_args!("{value}"))
    }

    /// A count as an argument: what [`unsigned`] reads back.
    pub fn of_unsigned(value: u64) -> Bytes {
        written(format_args!("{value}"))
    }

    /// A float as an argument, without loss: the shortest text that [`float`] reads back as the same bits.
    pub fn of_float(value: f64) -> Bytes {
        written(format_args!("{value:?}"))
    }

    /// Formats without allocating: numbers are short.
    pub(crate) fn written(text: std::fmt::Arguments<'_>) -> Bytes {
        let mut bytes = Bytes::default();
        bytes.write_fmt(text).expect("writing to memory does not fail");
        bytes
    }

    fn parsed<T: std::str::FromStr>(given: &Bytes, expected: &'static str) -> Result<T, OpError> {
        given
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| OpError::Argument { given: given.to_string(), expected: expected.into() })
    }
}
