//! Type-erased operations, states and effects: what the protocol carries and the store keeps.
//!
//! The protocol treats all types alike, those of this crate and those of users. It sees an [`Operation`], a [`State`]
//! and an [`Effect`], which forward to the [`DataType`]. Nothing here knows any particular type.
//!
//! A record's state belongs to the first type that wrote it. Types that share a `State` (Register and
//! Counter, as in Redis) work on the same keys; others are refused with WRONGTYPE.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::data_type::{Access, DataType, Execution, Few, Method, Unique};
use crate::{Bytes, Claims, Mode, Modes, OpError, Reply, Room};

/// An operation of any type. Cheap to clone.
#[derive(Clone)]
pub struct Operation(Arc<dyn AnyOp>);

/// The content of a record of any type.
pub struct State(Box<dyn AnyState>);

/// A decided change of any type.
pub struct Effect(Box<dyn AnyEffect>);

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
        self.method().returns
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
            return Err(OpError::TooLarge { what: "value", size, limit: value_bytes_max });
        }
        Ok(())
    }

    /// [`DataType::footprint`].
    pub fn footprint(&self) -> Claims {
        self.0.footprint()
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
        if own.is_empty() {
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
        self.0.equals(other.0.as_any())
    }
}

impl State {
    /// Forgets the type.
    pub fn new<T: DataType>(state: T::State) -> Self {
        State(Box::new(Content::<T>(state)))
    }

    /// The content, if it is that of `T` or of a type that shares its `State`.
    pub fn downcast<T: DataType>(&self) -> Option<&T::State> {
        self.0.content().downcast_ref()
    }

    /// The type that made it.
    pub fn type_info(&self) -> &'static TypeInfo {
        self.0.type_info()
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        self.0.duplicate()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f)
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.content())
    }
}

impl Effect {
    /// Forgets the type.
    pub fn new<T: DataType>(effect: T::Effect) -> Self {
        Effect(Box::new(Change::<T>(effect)))
    }

    /// The effect, if it is one of `T`: a host that keeps records by itself reads from it what to do.
    pub fn downcast<T: DataType>(&self) -> Option<&T::Effect> {
        self.0.as_any().downcast_ref::<Change<T>>().map(|change| &change.0)
    }

    /// The type of the operation that decided it.
    pub fn type_info(&self) -> &'static TypeInfo {
        self.0.type_info()
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

trait AnyOp: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn type_info(&self) -> &'static TypeInfo;
    fn method(&self) -> &'static Method;
    fn arguments(&self) -> Few<Bytes>;
    fn check(&self) -> Result<(), OpError>;
    fn size(&self) -> usize;
    fn footprint(&self) -> Claims;
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
            found: state.type_info().name,
            expected: T::NAME,
            method: self.method.name,
        })
    }
}

/// The message of a panic in a type's code.
fn panicked(method: &Method, panic: &(dyn Any + Send)) -> OpError {
    let text = panic.downcast_ref::<String>().cloned();
    let message = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
    OpError::Panicked { method: method.name, message: message.unwrap_or_default() }
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

    /// A panic becomes an error. A shard executes what others wait for, and a mistake in one type must not harm them
    /// or the shard's own bookkeeping. Execute only reads, so nothing is left half done.
    fn execute(&self, state: Option<&State>, unique: Unique) -> Result<Executed, OpError> {
        let content = state.map(|state| self.content(state)).transpose()?;
        let run = || match content {
            Some(content) => T::execute(content, &self.op, unique),
            None => T::execute(&T::State::default(), &self.op, unique),
        };
        let execution = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(panicked(self.method, &*panic)))?;
        let Execution { reply, effect, claims } = execution;
        Ok(Execution { reply, effect: effect.map(Effect::new::<T>), claims })
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

trait AnyEffect: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn type_info(&self) -> &'static TypeInfo;
    fn apply(self: Box<Self>, slot: &mut Option<State>) -> Effect;
    fn duplicate(&self) -> Effect;
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

struct Change<T: DataType>(T::Effect);

impl<T: DataType> AnyEffect for Change<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_info(&self) -> &'static TypeInfo {
        TypeInfo::of::<T>()
    }

    fn apply(self: Box<Self>, slot: &mut Option<State>) -> Effect {
        let state = slot.get_or_insert_with(|| State::new::<T>(T::State::default()));
        let content = state.0.content_mut().downcast_mut::<T::State>().expect("the record's type is held");
        let inverse = T::apply(content, self.0);
        if T::is_absent(content) {
            *slot = None;
        }
        Effect::new::<T>(inverse)
    }

    fn duplicate(&self) -> Effect {
        Effect::new::<T>(self.0.clone())
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
