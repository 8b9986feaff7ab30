//! The operations that workloads use, named as in Redis, and how their replies are read.

use claret_types::{
    Bytes, Counter, CounterOp, Dict, DictOp, Operation, Reply, ScoredSet, ScoredSetOp, Set, SetOp,
    SummaryBag, SummaryBagOp, TopK, TopKOp, UidGenerator, UidOp,
};
use smallvec::smallvec;

/// `SADD member`.
pub fn sadd(member: Bytes) -> Operation {
    Operation::new::<Set>(SetOp::Add(smallvec![member]))
}

/// `SADD member [member ...]`.
pub fn sadd_all(members: impl IntoIterator<Item = Bytes>) -> Operation {
    Operation::new::<Set>(SetOp::Add(members.into_iter().collect()))
}

/// `SCARD`.
pub fn scard() -> Operation {
    Operation::new::<Set>(SetOp::Len)
}

/// `SMEMBERS`.
pub fn smembers() -> Operation {
    Operation::new::<Set>(SetOp::Members)
}

/// `INCRBY amount`.
pub fn incrby(amount: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::Add(amount))
}

/// `GET` of a counter.
pub fn get() -> Operation {
    Operation::new::<Counter>(CounterOp::Get)
}

/// `HSET field value [field value ...]`.
pub fn hset(fields: impl IntoIterator<Item = (&'static str, Bytes)>) -> Operation {
    let fields = fields.into_iter().map(|(field, value)| (Bytes::from(field), value));
    Operation::new::<Dict>(DictOp::Set(fields.collect()))
}

/// `HINCRBY field amount`.
pub fn hincrby(field: &str, amount: i64) -> Operation {
    Operation::new::<Dict>(DictOp::Add(field.into(), amount))
}

/// `HGET field`.
pub fn hget(field: &str) -> Operation {
    Operation::new::<Dict>(DictOp::Get(field.into()))
}

/// `HGETALL`.
pub fn hgetall() -> Operation {
    Operation::new::<Dict>(DictOp::All)
}

/// `ZADD score member`.
pub fn zadd(member: Bytes, score: f64) -> Operation {
    Operation::new::<ScoredSet>(ScoredSetOp::Add(smallvec![(member, score)]))
}

/// `ZREM member`.
pub fn zrem(member: Bytes) -> Operation {
    Operation::new::<ScoredSet>(ScoredSetOp::Remove(smallvec![member]))
}

/// `ZRANGE start stop`: members, lowest score first.
pub fn zrange(start: i64, stop: i64) -> Operation {
    Operation::new::<ScoredSet>(ScoredSetOp::Range { start, stop, reverse: false, scores: false })
}

/// `ZRANGE start stop REV`: members, highest score first.
pub fn zrange_rev(start: i64, stop: i64) -> Operation {
    Operation::new::<ScoredSet>(ScoredSetOp::Range { start, stop, reverse: true, scores: false })
}

/// `ZSCORE member`.
pub fn zscore(member: Bytes) -> Operation {
    Operation::new::<ScoredSet>(ScoredSetOp::Score(member))
}

/// `ZCARD`.
pub fn zcard() -> Operation {
    Operation::new::<ScoredSet>(ScoredSetOp::Len)
}

/// `TOPK.ADD capacity score member`.
pub fn topk_add(capacity: u32, score: f64, member: Bytes) -> Operation {
    Operation::new::<TopK>(TopKOp::Add { capacity, score, member })
}

/// `TOPK.MAX`: member and score, or nil.
pub fn topk_max() -> Operation {
    Operation::new::<TopK>(TopKOp::Max)
}

/// The member that [`topk_max`] answered.
pub fn topk_max_member(reply: &Reply) -> Option<&Bytes> {
    match reply {
        Reply::Array(items) => items.first().and_then(super::bytes),
        other => super::bytes(other),
    }
}

/// `BAG.ADD value`.
pub fn bag_add(value: f64) -> Operation {
    Operation::new::<SummaryBag>(SummaryBagOp::Add(value))
}

/// `BAG.SUM`.
pub fn bag_sum() -> Operation {
    Operation::new::<SummaryBag>(SummaryBagOp::Sum)
}

/// `BAG.MEAN`.
pub fn bag_mean() -> Operation {
    Operation::new::<SummaryBag>(SummaryBagOp::Mean)
}

/// `UID.NEXT`.
pub fn uid_next() -> Operation {
    Operation::new::<UidGenerator>(UidOp::Next)
}
