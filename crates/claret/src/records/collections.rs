//! Handles of the collections.

use claret_types::{Bytes, Dict, DictOp, Few, Pairs, Set, SetOp};

use super::{Record, Scope};

fn one(member: impl Into<Bytes>) -> Few<Bytes> {
    Few::from_elem(member.into(), 1)
}

/// Distinct members without order. See [`Set`].
#[derive(Clone, Debug)]
pub struct SetRecord<S>(pub(super) Record<S, Set>);

impl<S: Scope> SetRecord<S> {
    /// `SADD`: adds a member.
    pub fn add(&self, member: impl Into<Bytes>) -> S::Void {
        self.0.issue(SetOp::Add(one(member)))
    }

    /// `SADD.RETURNING`: adds a member; whether it is new.
    pub fn add_returning(&self, member: impl Into<Bytes>) -> S::Value<bool> {
        self.0.run(SetOp::AddReturning(one(member)))
    }

    /// `SREM`: removes a member.
    pub fn remove(&self, member: impl Into<Bytes>) -> S::Void {
        self.0.issue(SetOp::Remove(one(member)))
    }

    /// `SREM.RETURNING`: removes a member; whether it was there.
    pub fn remove_returning(&self, member: impl Into<Bytes>) -> S::Value<bool> {
        self.0.run(SetOp::RemoveReturning(one(member)))
    }

    /// `SISMEMBER`: whether it is a member.
    pub fn contains(&self, member: impl Into<Bytes>) -> S::Value<bool> {
        self.0.run(SetOp::Contains(member.into()))
    }

    /// `SCARD`: how many members.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(SetOp::Len)
    }

    /// `SMEMBERS`: all members, in bytewise order.
    pub fn members(&self) -> S::Value<Vec<Bytes>> {
        self.0.run(SetOp::Members)
    }
}

/// Fields and their values. See [`Dict`].
#[derive(Clone, Debug)]
pub struct DictRecord<S>(pub(super) Record<S, Dict>);

impl<S: Scope> DictRecord<S> {
    /// `HSET`: writes a field.
    pub fn set(&self, field: impl Into<Bytes>, value: impl Into<Bytes>) -> S::Void {
        self.0.issue(DictOp::Set(Few::from_iter([(field.into(), value.into())])))
    }

    /// `HSET`: writes several fields.
    pub fn set_all<F: Into<Bytes>, V: Into<Bytes>>(
        &self,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> S::Void {
        let fields = fields.into_iter().map(|(field, value)| (field.into(), value.into()));
        self.0.issue(DictOp::Set(fields.collect()))
    }

    /// `HDEL`: removes a field.
    pub fn remove(&self, field: impl Into<Bytes>) -> S::Void {
        self.0.issue(DictOp::Remove(one(field)))
    }

    /// `HINCRBY`: adds to a field's number.
    pub fn add(&self, field: impl Into<Bytes>, amount: i64) -> S::Void {
        self.0.issue(DictOp::Add(field.into(), amount))
    }

    /// `HINCRBY.RETURNING`: adds to a field's number; the sum.
    pub fn add_returning(&self, field: impl Into<Bytes>, amount: i64) -> S::Value<i64> {
        self.0.run(DictOp::AddReturning(field.into(), amount))
    }

    /// `HGET`: a field's value.
    pub fn get(&self, field: impl Into<Bytes>) -> S::Value<Option<Bytes>> {
        self.0.run(DictOp::Get(field.into()))
    }

    /// `HEXISTS`: whether it has the field.
    pub fn contains(&self, field: impl Into<Bytes>) -> S::Value<bool> {
        self.0.run(DictOp::Contains(field.into()))
    }

    /// `HLEN`: how many fields.
    pub fn len(&self) -> S::Value<u64> {
        self.0.run(DictOp::Len)
    }

    /// `HGETALL`: all fields and values, in bytewise order of the fields.
    pub fn all(&self) -> S::Value<Pairs<Bytes, Bytes>> {
        self.0.run(DictOp::All)
    }
}
