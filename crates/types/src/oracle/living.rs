//! A type together with what can be done to its records whatever they are: the oracle then checks both at once, by the
//! erased operations, states and effects that a store uses (`erased.rs`, `keyspace.rs`).

use std::marker::PhantomData;

use crate::Moment;
use crate::content::Content;
use crate::data_type::{Arguments, DataType, Examples, Execution, Few, Method, Unique};
use crate::keyspace::{KEYSPACE, KeyspaceOp};
use crate::{Bytes, Claims, Effect, Expiry, Modes, OpError, Operation, Reply, Room, State};

/// Records of `T` that come, expire and go. `check::<Living<T>>` shows that operations of `T` and those on records of
/// any type commute where their claims say so; for a type of your own that is the check of [`Modes::removing`] and
/// [`Modes::clearing`].
pub struct Living<T>(PhantomData<T>);

/// A place for a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot(Option<State>);

/// How many methods a type may have here.
const METHODS_MAX: usize = 64;
/// How long its name may be.
const NAME_MAX: usize = 64;
const SUFFIX: &str = "+keyspace";
/// What operations hear when they ask for the time, in milliseconds since 1970.
const NOW: u64 = 500;

impl<T: DataType> Living<T> {
    const NAME_LENGTH: usize = T::NAME.len() + SUFFIX.len();

    const NAME_BYTES: [u8; NAME_MAX] = {
        let mut bytes = [0; NAME_MAX];
        let (name, suffix) = (T::NAME.as_bytes(), SUFFIX.as_bytes());
        let mut at = 0;
        while at < Self::NAME_LENGTH {
            bytes[at] = if at < name.len() { name[at] } else { suffix[at - name.len()] };
            at += 1;
        }
        bytes
    };

    const METHODS_LENGTH: usize = T::METHODS.len() + KEYSPACE.methods.len();

    const ALL_METHODS: [Method; METHODS_MAX] = {
        let mut all = [KEYSPACE.methods[0]; METHODS_MAX];
        let mut at = 0;
        while at < Self::METHODS_LENGTH {
            let own = T::METHODS.len();
            all[at] = if at < own { T::METHODS[at] } else { KEYSPACE.methods[at - own] };
            at += 1;
        }
        all
    };
}

impl<T: DataType> DataType for Living<T> {
    const NAME: &'static str = match str::from_utf8(Self::NAME_BYTES.split_at(Self::NAME_LENGTH).0) {
        Ok(name) => name,
        Err(_) => T::NAME,
    };
    const SUMMARY: &'static str = T::SUMMARY;
    const NATIVE: &'static str = T::NATIVE;
    const MODES: Modes = T::MODES;
    const METHODS: &'static [Method] = Self::ALL_METHODS.split_at(Self::METHODS_LENGTH).0;

    type State = Slot;
    type Op = Operation;
    type Effect = Effect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<Operation, OpError> {
        if T::METHODS.iter().any(|known| known.name == method) {
            return T::parse(method, given).map(Operation::new::<T>);
        }
        let mut op = (KEYSPACE.parse)(method, given)?;
        op.resolve(|| NOW);
        Ok(op)
    }

    fn method(op: &Operation) -> &'static Method {
        op.method()
    }

    fn arguments(op: &Operation) -> Few<Bytes> {
        op.arguments()
    }

    fn is_absent(slot: &Slot) -> bool {
        slot.0.is_none()
    }

    fn footprint(op: &Operation) -> Claims {
        op.footprint_with_expiry()
    }

    fn execute(slot: &Slot, op: &Operation, unique: Unique) -> Result<Execution<Effect>, OpError> {
        if op.asks_version() {
            // Some host's, by which any two contents have two versions.
            let digest = Operation::from(KeyspaceOp::Digest).execute(slot.0.as_ref(), unique)?;
            let version = Bytes::from(format!("{:?}", digest.reply));
            return op.execute(Some(&State::of_version(version)), unique);
        }
        op.execute(slot.0.as_ref(), unique)
    }

    fn room(slot: &Slot) -> Room {
        match slot.0.as_ref().and_then(State::downcast::<T>) {
            Some(content) => T::room(content),
            None => T::room(&T::State::default()),
        }
    }

    fn apply(slot: &mut Slot, effect: Effect) -> Effect {
        effect.apply(&mut slot.0)
    }

    fn combine(held: &Operation, answer: &Reply, op: &Operation) -> Option<Reply> {
        op.combine_with(held, answer)
    }
}

impl<T: Examples> Examples for Living<T> {
    fn states() -> Vec<Slot> {
        let mut slots = vec![Slot(None)];
        for content in T::states().into_iter().filter(|content| !T::is_absent(content)) {
            for expiry in [None, Expiry::at_ms(1000), Expiry::at_ms(2500)] {
                slots.push(Slot(Some(State::new::<T>(content.clone()).expiring(expiry))));
            }
        }
        slots
    }

    fn operations() -> Vec<Operation> {
        let expire =
            |ms, only_later, returning| KeyspaceOp::Expire { at: Moment::At(ms), only_later, returning };
        let on_any = [
            KeyspaceOp::Delete { returning: false },
            KeyspaceOp::Delete { returning: true },
            KeyspaceOp::Exists,
            expire(2000, false, false),
            expire(3000, false, false),
            expire(2000, false, true),
            expire(2000, true, false),
            expire(3000, true, false),
            expire(3000, true, true),
            KeyspaceOp::Persist { returning: false },
            KeyspaceOp::Persist { returning: true },
            KeyspaceOp::TimeLeft { in_seconds: false, now: Some(NOW) },
            KeyspaceOp::ExpiryTime,
            KeyspaceOp::SetUntil { value: "x".into(), at: Moment::At(3000) },
            KeyspaceOp::Content,
            KeyspaceOp::Digest,
            KeyspaceOp::Version,
        ];
        // Those of custom types have no words.
        let contents = T::states().into_iter().filter(|content| !T::is_absent(content)).map(State::new::<T>);
        let puts = contents.filter_map(|state| Content::of(&state).ok()).take(1).map(KeyspaceOp::Put);
        let own = T::operations().into_iter().map(Operation::new::<T>);
        own.chain(on_any.into_iter().chain(puts).map(Operation::from)).collect()
    }
}
