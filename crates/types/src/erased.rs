//! Type-erased operations, states and effects: what the protocol carries and the store keeps.
//!
//! The protocol treats all types alike, those of this crate and those of users. It sees an [`Operation`], a [`State`]
//! and an [`Effect`], which forward to the [`DataType`]. Nothing here knows any particular type.
//!
//! A record's state belongs to the first type that wrote it. Types that share a `State` (Register and
//! Counter, as in Redis) work on the same keys; others are refused with WRONGTYPE. What is said of records of any type
//! (`keyspace.rs`) is erased from the beginning.
//!
//! Types know nothing of a record's expiry. It is kept here, beside the content, and what an operation of a type has to
//! do with it is added here to the operation's claims and effect.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::data_type::{Access, DataType, Execution, Few, Method, Unique};
use crate::expecting::Expecting;
use crate::{Bytes, Claims, Expiry, Mode, Modes, OpError, Reply, Room, Scope};

/// An operation of any type. Cheap to clone.
#[derive(Clone)]
pub struct Operation(Arc<dyn AnyOp>);

/// The content of a record of any type, and when it expires.
pub struct State {
    content: Box<dyn AnyState>,
    expiry: Option<Expiry>,
}

/// A decided change of any type.
pub struct Effect(Box<dyn AnyEffect>);

/// [`DataType::NATIVE`] of what is no type of records: operations on records of any type, in universal modes alone.
pub(crate) const OF_ANY: &str = "any";

/// What executing an operation of any type decides.
pub type Executed = Execution<Effect>;

/// What the protocol needs to know of a type as a whole.
#[derive(Clone, Copy, Debug)]
pub struct TypeInfo {
    /// [`DataType::NAME`].
    pub name: &'static str,
    /// [`DataType::SUMMARY`].
    pub summary: &'static str,
    /// [`DataType::NATIVE`].
    pub native: &'static str,
    /// [`DataType::MODES`].
    pub modes: Modes,
    /// [`DataType::METHODS`].
    pub methods: &'static [Method],
    /// Reads a call.
    pub parse: fn(&str, &[Bytes]) -> Result<Operation, OpError>,
    /// Which type it is, whatever it is called: a custom type may have the name of a built-in one.
    pub id: TypeId,
}

struct InfoOf<T>(PhantomData<T>);

impl<T: DataType> InfoOf<T> {
    const INFO: TypeInfo = TypeInfo {
        name: T::NAME,
        summary: T::SUMMARY,
        native: T::NATIVE,
        modes: T::MODES,
        methods: T::METHODS,
        parse: |method, arguments| T::parse(method, arguments).map(Operation::new::<T>),
        id: TypeId::of::<T>(),
    };
}

impl TypeInfo {
    /// That of a type.
    pub const fn of<T: DataType>() -> &'static TypeInfo {
        &InfoOf::<T>::INFO
    }

    /// That of operations on records of any type ([`KeyspaceOp`](crate::KeyspaceOp)).
    pub const fn of_keyspace() -> &'static TypeInfo {
        TypeInfo::KEYSPACE
    }

    /// The modes by which claims of two types on one record are held against each other. `None`: they all conflict.
    // P14.
    pub fn common_modes<'a>(&'a self, other: &'a TypeInfo) -> Option<&'a Modes> {
        if std::ptr::eq(self, other) || self.id == other.id || other.is_of_any() {
            return Some(&self.modes);
        }
        self.is_of_any().then_some(&other.modes)
    }

    /// Whether its operations are on records of any type, and so in universal modes alone.
    pub fn is_of_any(&self) -> bool {
        self.native == OF_ANY
    }
}

impl Operation {
    /// Forgets the type.
    pub fn new<T: DataType>(op: T::Op) -> Self {
        let method = T::method(&op);
        Operation(Arc::new(Op::<T> { op, method }))
    }

    /// The operation, if it is one of `T`.
    pub fn downcast<T: DataType>(&self) -> Option<&T::Op> {
        self.0.as_any().downcast_ref::<Op<T>>().map(|it| &it.op)
    }

    pub(crate) fn from_any(op: impl AnyOp + 'static) -> Self {
        Operation(Arc::new(op))
    }

    pub(crate) fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }

    pub(crate) fn any(&self) -> &dyn AnyOp {
        &*self.0
    }

    /// Whether [`Operation::resolve`] may have something to do.
    pub fn is_timed(&self) -> bool {
        self.0.is_timed()
    }

    /// Whether it is a command of the server, which is carried out with the commit and answers then ([`Command`](crate::Command)).
    pub fn is_command(&self) -> bool {
        self.0.is_command()
    }

    /// Its type.
    pub fn type_info(&self) -> &'static TypeInfo {
        self.0.type_info()
    }

    /// Which of the type's methods it is.
    pub fn method(&self) -> &'static Method {
        self.0.method()
    }

    /// [`DataType::arguments`].
    pub fn arguments(&self) -> Few<Bytes> {
        self.0.arguments()
    }

    /// Whether it answers with something.
    pub fn returns(&self) -> bool {
        self.method().returns || self.is_tried()
    }

    /// [`DataType::size`].
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// [`DataType::check`], and the limit on the size of a value.
    pub fn check(&self, value_bytes_max: usize) -> Result<(), OpError> {
        self.0.check()?;
        let size = self.0.size();
        if size > value_bytes_max {
            return Err(OpError::TooLarge { what: "value".into(), size, limit: value_bytes_max });
        }
        Ok(())
    }

    /// [`DataType::footprint`]: what it claims at most, on a record without expiry.
    pub fn footprint(&self) -> Claims {
        self.0.footprint()
    }

    /// The same for who knows neither whether the record has an expiry nor what time it is at the shard (`keyspace.rs`).
    pub fn footprint_with_expiry(&self) -> Claims {
        let mut claims = self.footprint();
        let modes = &self.type_info().modes;
        if claims.list.is_empty() {
            claims.push(Scope::Record, Mode::PRESENT);
            claims.push(Scope::Record, Mode::SHARED);
        } else if claims.have(modes.removing) || self.may_be_over() {
            claims.push(Scope::Record, Mode::EXCLUSIVE);
        }
        claims
    }

    /// [`DataType::footprint_modes`].
    pub fn footprint_modes(&self) -> Option<u16> {
        self.0.footprint_modes()
    }

    /// [`DataType::is_total`]. What must give a certain answer is not.
    pub fn is_total(&self) -> bool {
        self.0.is_total()
    }

    /// [`DataType::is_lasting`]. What must give a certain answer is not.
    pub fn is_lasting(&self) -> bool {
        self.0.is_lasting()
    }

    /// What it does whatever is there, if it is blind ([`DataType::is_blind`]). What must give a certain answer is not.
    pub fn blind_effect(&self) -> Option<Effect> {
        if !self.0.is_blind() {
            return None;
        }
        self.execute(None, Unique(0)).ok()?.effect
    }

    /// Whether a record that holds this is of its type.
    pub fn fits(&self, state: &State) -> bool {
        self.0.fits(state)
    }

    /// Its claims in the reader/writer baseline: the record, shared or exclusive.
    pub fn reader_writer(&self) -> Claims {
        Claims::record(match self.method().access {
            Access::Read => Mode::SHARED,
            Access::Write => Mode::EXCLUSIVE,
        })
    }

    /// [`DataType::execute`]. `None` is the absent record.
    pub fn execute(&self, state: Option<&State>, unique: Unique) -> Result<Executed, OpError> {
        self.0.execute(state, unique)
    }

    /// Executes in a partial state of a record (`None`: the record is absent) with its owner's pending effects on it added
    /// first, and says what room there is then.
    ///
    /// # Errors
    /// When the operation cannot be done, or the partial state does not hold what it or the effects need.
    pub fn execute_in_partial(
        &self,
        partial: Option<State>,
        own: &[&Effect],
        unique: Unique,
    ) -> Result<(Executed, Room), OpError> {
        let mut state = partial;
        self.add_to_partial(&mut state, own)?;
        let executed = self.execute(state.as_ref(), unique)?;
        Ok((executed, self.room(state.as_ref())))
    }

    /// Adds pending effects of its owner to a partial state that was made for this operation.
    ///
    /// # Errors
    /// When the partial state does not hold what the effects need.
    pub fn add_to_partial(&self, partial: &mut Option<State>, own: &[&Effect]) -> Result<(), OpError> {
        if own.is_empty() || self.asks_version() || self.command().is_some() {
            return Ok(());
        }
        let add = || {
            for effect in own {
                (*effect).clone().apply(partial);
            }
        };
        catch_unwind(AssertUnwindSafe(add)).map_err(|panic| panicked(self.method(), &*panic))
    }

    /// [`DataType::room`] of the operation's type in this state.
    pub fn room(&self, state: Option<&State>) -> Room {
        self.0.room(state)
    }

    /// [`DataType::combine`]; `None` also when the types differ.
    pub fn combine_with(&self, held: &Operation, answer: &Reply) -> Option<Reply> {
        self.0.combine(held.0.as_any(), answer)
    }
}

/// As one would type it after the key: `SADD Add("x")`.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f)
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any()) && self.expected() == other.expected()
    }
}

impl State {
    /// Forgets the type.
    pub fn new<T: DataType>(state: T::State) -> Self {
        State { content: Box::new(Content::<T>(state)), expiry: None }
    }

    /// A record of which only its key was looked at: a host's partial state for [`KeyspaceOp`](crate::KeyspaceOp). It takes
    /// effects on its content without a trace, so there must be something left of it after them.
    pub fn opaque() -> Self {
        Opaque::default().into()
    }

    /// A record of a type that is none of Claret's, as its host keeps it: a host's partial state for
    /// [`KeyspaceOp::Digest`](crate::KeyspaceOp::Digest). For all else it is [`State::opaque`].
    pub fn of_foreign(dump: Bytes) -> Self {
        Opaque { dump: Some(dump), ..Opaque::default() }.into()
    }

    /// What [`State::of_foreign`] was given.
    pub(crate) fn foreign(&self) -> Option<&Bytes> {
        self.content.content().downcast_ref::<Opaque>()?.dump.as_ref()
    }

    /// What is told of a record, there or not, to [`KeyspaceOp::Version`](crate::KeyspaceOp::Version): a host's partial state for it
    /// alone. Two of one record are equal only if nothing changed it in between, not even to what it had been. What an attempt has
    /// not committed is no change.
    pub fn of_version(version: Bytes) -> Self {
        Opaque { version: Some(version), ..Opaque::default() }.into()
    }

    /// What [`State::of_version`] was given.
    pub(crate) fn version(&self) -> Option<&Bytes> {
        self.content.content().downcast_ref::<Opaque>()?.version.as_ref()
    }

    /// What its server answers to a command that was asked of a record, there or not: a host's partial state for
    /// [`KeyspaceOp::Ask`](crate::KeyspaceOp::Ask) alone.
    pub fn of_answer(answer: Reply) -> Self {
        Opaque { answer: Some(answer), ..Opaque::default() }.into()
    }

    /// What [`State::of_answer`] was given.
    pub(crate) fn answer(&self) -> Option<&Reply> {
        self.content.content().downcast_ref::<Opaque>()?.answer.as_ref()
    }

    /// Whether it is [`State::opaque`].
    pub(crate) fn is_opaque(&self) -> bool {
        self.content.content().is::<Opaque>()
    }

    /// With this expiry.
    #[must_use]
    pub fn expiring(mut self, expiry: Option<Expiry>) -> Self {
        self.expiry = expiry;
        self
    }

    /// When the record expires.
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    pub(crate) fn set_expiry(&mut self, expiry: Option<Expiry>) {
        self.expiry = expiry;
    }

    /// The content, if it is that of `T` or of a type that shares its `State`.
    pub fn downcast<T: DataType>(&self) -> Option<&T::State> {
        self.content.content().downcast_ref()
    }

    /// The type that made it.
    pub fn type_info(&self) -> &'static TypeInfo {
        self.content.type_info()
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        self.content.duplicate().expiring(self.expiry)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.content.describe(f)?;
        match self.expiry {
            Some(expiry) => write!(f, " until {} ms", expiry.ms()),
            None => Ok(()),
        }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.expiry == other.expiry && self.content.equals(other.content.content())
    }
}

impl Effect {
    /// Forgets the type.
    pub fn new<T: DataType>(effect: T::Effect) -> Self {
        let expiry = if T::clears_expiry(&effect) { Ends::At(None) } else { Ends::AsBefore };
        Effect(Box::new(Change::<T> { effect: Some(effect), expiry }))
    }

    pub(crate) fn from_any(effect: impl AnyEffect + 'static) -> Self {
        Effect(Box::new(effect))
    }

    pub(crate) fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }

    /// The effect, if it is one of `T`: a host that keeps records by itself reads from it what to do.
    pub fn downcast<T: DataType>(&self) -> Option<&T::Effect> {
        self.0.as_any().downcast_ref::<Change<T>>().map(Change::effect)
    }

    /// The type of the operation that decided it.
    pub fn type_info(&self) -> &'static TypeInfo {
        self.0.type_info()
    }

    /// Whether it clears the record's expiry, beside what it does to the content.
    pub fn clears_expiry(&self) -> bool {
        self.0.clears_expiry()
    }

    /// [`DataType::apply`] on the record in `slot`, which appears and vanishes as the state does. Returns
    /// the effect that undoes it.
    ///
    /// # Panics
    /// If the record is of another type: a claim was not held.
    pub fn apply(self, slot: &mut Option<State>) -> Effect {
        self.0.apply(slot)
    }
}

impl Clone for Effect {
    fn clone(&self) -> Self {
        self.0.duplicate()
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f)
    }
}

impl PartialEq for Effect {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any())
    }
}

pub(crate) trait AnyOp: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    /// What must give a certain answer (`expecting.rs`).
    fn expecting(&self) -> Option<&Expecting> {
        None
    }
    fn type_info(&self) -> &'static TypeInfo;
    fn method(&self) -> &'static Method;
    fn arguments(&self) -> Few<Bytes>;
    fn check(&self) -> Result<(), OpError>;
    fn size(&self) -> usize;
    fn is_timed(&self) -> bool {
        false
    }
    fn is_command(&self) -> bool {
        false
    }
    fn footprint(&self) -> Claims;
    fn footprint_modes(&self) -> Option<u16> {
        None
    }
    fn is_total(&self) -> bool {
        false
    }
    fn is_lasting(&self) -> bool {
        false
    }
    fn is_blind(&self) -> bool {
        false
    }
    fn fits(&self, state: &State) -> bool;
    fn execute(&self, state: Option<&State>, unique: Unique) -> Result<Executed, OpError>;
    fn room(&self, state: Option<&State>) -> Room;
    fn combine(&self, held: &dyn Any, answer: &Reply) -> Option<Reply>;
    fn equals(&self, other: &dyn Any) -> bool;
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

struct Op<T: DataType> {
    op: T::Op,
    /// Looked up once, because every step needs it.
    method: &'static Method,
}

impl<T: DataType> Op<T> {
    fn content<'a>(&self, state: &'a State) -> Result<&'a T::State, OpError> {
        state.downcast::<T>().ok_or_else(|| OpError::WrongType {
            found: state.type_info().name.into(),
            expected: T::NAME.into(),
            method: self.method.name.into(),
        })
    }
}

/// The message of a panic in a type's code.
fn panicked(method: &Method, panic: &(dyn Any + Send)) -> OpError {
    let text = panic.downcast_ref::<String>().cloned();
    let message = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
    OpError::Panicked { method: method.name.into(), message: message.unwrap_or_default() }
}

impl<T: DataType> AnyOp for Op<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_info(&self) -> &'static TypeInfo {
        TypeInfo::of::<T>()
    }

    fn method(&self) -> &'static Method {
        self.method
    }

    fn arguments(&self) -> Few<Bytes> {
        T::arguments(&self.op)
    }

    fn check(&self) -> Result<(), OpError> {
        T::check(&self.op)
    }

    fn size(&self) -> usize {
        T::size(&self.op)
    }

    fn footprint(&self) -> Claims {
        T::footprint(&self.op)
    }

    fn footprint_modes(&self) -> Option<u16> {
        T::footprint_modes(&self.op)
    }

    fn is_total(&self) -> bool {
        T::is_total(&self.op)
    }

    fn is_lasting(&self) -> bool {
        T::is_lasting(&self.op)
    }

    fn is_blind(&self) -> bool {
        T::is_blind(&self.op)
    }

    fn fits(&self, state: &State) -> bool {
        self.content(state).is_ok()
    }

    /// A panic becomes an error. A shard executes what others wait for, and a mistake in one type must not harm them
    /// or the shard's own bookkeeping. Execute only reads, so nothing is left half done.
    fn execute(&self, state: Option<&State>, unique: Unique) -> Result<Executed, OpError> {
        let content = state.map(|state| self.content(state)).transpose()?;
        let run = || {
            let execution = match content {
                Some(content) => T::execute(content, &self.op, unique),
                None => T::execute(&T::State::default(), &self.op, unique),
            };
            let Execution { reply, effect, mut claims } = execution?;
            if claims.list.is_empty() {
                // Whatever the content is by then: the record may go.
                claims.push(Scope::Record, if state.is_some() { Mode::PRESENT } else { Mode::SHARED });
            }
            if effect.is_some()
                && state.is_some_and(|state| state.expiry.is_some())
                && claims.have(T::MODES.removing)
            {
                claims.push(Scope::Record, Mode::EXCLUSIVE);
            }
            Ok(Execution { reply, effect: effect.map(Effect::new::<T>), claims })
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panicked(self.method, &*panic)))
    }

    fn room(&self, state: Option<&State>) -> Room {
        match state.and_then(State::downcast::<T>) {
            Some(content) => T::room(content),
            None => T::room(&T::State::default()),
        }
    }

    fn combine(&self, held: &dyn Any, answer: &Reply) -> Option<Reply> {
        let held = held.downcast_ref::<Self>()?;
        T::combine(&held.op, answer, &self.op)
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.op == self.op)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.method.name, self.op)
    }
}

trait AnyState: Send + Sync {
    fn content(&self) -> &dyn Any;
    fn content_mut(&mut self) -> &mut dyn Any;
    fn type_info(&self) -> &'static TypeInfo;
    fn duplicate(&self) -> State;
    fn equals(&self, other: &dyn Any) -> bool;
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

struct Content<T: DataType>(T::State);

impl<T: DataType> AnyState for Content<T> {
    fn content(&self) -> &dyn Any {
        &self.0
    }

    fn content_mut(&mut self) -> &mut dyn Any {
        &mut self.0
    }

    fn type_info(&self) -> &'static TypeInfo {
        TypeInfo::of::<T>()
    }

    fn duplicate(&self) -> State {
        State::new::<T>(self.0.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.type_id() == TypeId::of::<T::State>() && other.downcast_ref() == Some(&self.0)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The content of a record that nobody looked at.
#[derive(Clone, Default, PartialEq)]
struct Opaque {
    /// As its host keeps it, if that is told.
    dump: Option<Bytes>,
    /// Which version it is, if that is told instead.
    version: Option<Bytes>,
    /// What its server answers to what is asked, if that is told.
    answer: Option<Reply>,
}

impl From<Opaque> for State {
    fn from(record: Opaque) -> Self {
        State { content: Box::new(record), expiry: None }
    }
}

impl AnyState for Opaque {
    fn content(&self) -> &dyn Any {
        self
    }

    fn content_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn type_info(&self) -> &'static TypeInfo {
        TypeInfo::KEYSPACE
    }

    fn duplicate(&self) -> State {
        State { content: Box::new(self.clone()), expiry: None }
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }
}

pub(crate) trait AnyEffect: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn type_info(&self) -> &'static TypeInfo;
    fn clears_expiry(&self) -> bool {
        false
    }
    fn apply(self: Box<Self>, slot: &mut Option<State>) -> Effect;
    fn duplicate(&self) -> Effect;
    fn equals(&self, other: &dyn Any) -> bool;
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// What an effect of a type does to the record's expiry.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    AsBefore,
    /// Cleared, as by `SET`; or as it was, where a change is undone.
    At(Option<Expiry>),
}

struct Change<T: DataType> {
    /// Always there, but for a moment: what undoes an effect takes its place, and that of its allocation.
    effect: Option<T::Effect>,
    expiry: Ends,
}

impl<T: DataType> Change<T> {
    fn effect(&self) -> &T::Effect {
        self.effect.as_ref().expect("an effect")
    }
}

impl<T: DataType> AnyEffect for Change<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_info(&self) -> &'static TypeInfo {
        TypeInfo::of::<T>()
    }

    fn clears_expiry(&self) -> bool {
        self.expiry == Ends::At(None)
    }

    fn apply(mut self: Box<Self>, slot: &mut Option<State>) -> Effect {
        let state = slot.get_or_insert_with(|| State::new::<T>(T::State::default()));
        let before = state.expiry;
        let Some(content) = state.content.content_mut().downcast_mut::<T::State>() else {
            assert!(state.is_opaque(), "the record's type is held");
            if let Ends::At(expiry) = self.expiry {
                state.expiry = expiry;
            }
            // Nobody undoes what is done to a partial state.
            return Effect(self);
        };
        let effect = self.effect.take().expect("an effect");
        self.effect = Some(T::apply(content, effect));
        if T::is_absent(content) {
            *slot = None;
        } else if let Ends::At(expiry) = self.expiry {
            state.expiry = expiry;
        }
        let after = slot.as_ref().and_then(|state| state.expiry);
        self.expiry = if before == after { Ends::AsBefore } else { Ends::At(before) };
        Effect(self)
    }

    fn duplicate(&self) -> Effect {
        Effect(Box::new(Change::<T> { effect: Some(self.effect().clone()), expiry: self.expiry }))
    }

    fn equals(&self, other: &dyn Any) -> bool {
        let other = other.downcast_ref::<Self>();
        other.is_some_and(|other| other.effect == self.effect && other.expiry == self.expiry)
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.effect())?;
        match self.expiry {
            Ends::AsBefore => Ok(()),
            Ends::At(None) => f.write_str(", without expiry"),
            Ends::At(Some(expiry)) => write!(f, ", until {} ms", expiry.ms()),
        }
    }
}
