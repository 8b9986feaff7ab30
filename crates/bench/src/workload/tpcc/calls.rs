//! The operations of this workload that the others have no use for.

use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Bytes, Dict, DictOp, End, List, ListOp, Operation,
};
use smallvec::smallvec;

/// `HMGET field [field ...]`.
pub(super) fn hmget(fields: &[&str]) -> Operation {
    Operation::new::<Dict>(DictOp::GetMany(fields.iter().map(|field| Bytes::from(*field)).collect()))
}

/// `HSET field value [field value ...]` of fields with any names.
pub(super) fn hset(fields: impl IntoIterator<Item = (Bytes, Bytes)>) -> Operation {
    Operation::new::<Dict>(DictOp::Set(fields.into_iter().collect()))
}

/// `HGET field` of a field with any name.
pub(super) fn hget(field: Bytes) -> Operation {
    Operation::new::<Dict>(DictOp::Get(field))
}

/// `RPUSH value [value ...]`.
pub(super) fn rpush(values: impl IntoIterator<Item = Bytes>) -> Operation {
    Operation::new::<List>(ListOp::Push(End::Back, values.into_iter().collect()))
}

/// `RPUSH.RETURNING value`: the new length.
pub(super) fn rpush_returning(value: Bytes) -> Operation {
    Operation::new::<List>(ListOp::PushReturning(End::Back, smallvec![value]))
}

/// `LPOP`.
pub(super) fn lpop() -> Operation {
    Operation::new::<List>(ListOp::Pop(End::Front))
}

/// `LLEN`.
pub(super) fn llen() -> Operation {
    Operation::new::<List>(ListOp::Len)
}

/// `LRANGE start stop`.
pub(super) fn lrange(start: i64, stop: i64) -> Operation {
    Operation::new::<List>(ListOp::Range { start, stop })
}

/// `BCREATE value 10 100`: what is in stock (clause 2.4.2.2: at least 10 are left, or 91 come).
pub(super) fn stock_create(value: i64) -> Operation {
    Operation::new::<BoundedCounter>(BoundedCounterOp::Create(stock(value)))
}

/// What is in stock, with its bounds.
pub(super) fn stock(value: i64) -> Bounded {
    Bounded { value, min: 10, max: 100 }
}

/// `BDECRBY.WRAP amount`.
pub(super) fn take_wrapping(amount: i64) -> Operation {
    Operation::new::<BoundedCounter>(BoundedCounterOp::TakeWrapping(amount))
}

/// `BGET`.
pub(super) fn bget() -> Operation {
    Operation::new::<BoundedCounter>(BoundedCounterOp::Get)
}
