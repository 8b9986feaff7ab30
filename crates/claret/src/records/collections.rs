//! Handles of the collections.

use claret_types::{Bytes, Dict, DictOp, Pairs, Set, SetOp, few};

use super::living::living;
use super::{AnswerIn, Record, Scope, many, one};
use crate::decode;
use crate::value::{FromValue, IntoValue, ValueError};

living!(SetRecord.0, DictRecord.0);

fn pair((field, value): (impl IntoValue, impl IntoValue)) -> Result<(Bytes, Bytes), ValueError> {
    Ok((field.into_value()?, value.into_value()?))
}

/// Distinct members without order. See [`Set`].
#[derive(Clone, Debug)]
pub struct SetRecord<S>(pub(super) Record<S, Set>);

impl<S: Scope> SetRecord<S> {
    /// `SADD`: adds a member.
    pub fn add(&self, member: impl IntoValue) -> S::Void {
        self.0.issue_checked(one(member).map(SetOp::Add))
    }

    /// `SADD`: adds members.
    pub fn add_many(&self, members: impl IntoIterator<Item = impl IntoValue>) -> S::Void {
        self.0.issue_many(many(members), SetOp::Add)
    }

    /// `SADD.RETURNING`: adds a member; whether it is new.
    pub fn add_returning(&self, member: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(one(member).map(SetOp::AddReturning))
    }

    /// `SADD.RETURNING`: adds members; how many are new.
    pub fn add_many_returning(&self, members: impl IntoIterator<Item = impl IntoValue>) -> AnswerIn<S, u64> {
        self.0.read_many(many(members), SetOp::AddReturning, decode::count())
    }

    /// `SREM`: removes a member.
    pub fn remove(&self, member: impl IntoValue) -> S::Void {
        self.0.issue_checked(one(member).map(SetOp::Remove))
    }

    /// `SREM`: removes members.
    pub fn remove_many(&self, members: impl IntoIterator<Item = impl IntoValue>) -> S::Void {
        self.0.issue_many(many(members), SetOp::Remove)
    }

    /// `SREM.RETURNING`: removes a member; whether it was there.
    pub fn remove_returning(&self, member: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(one(member).map(SetOp::RemoveReturning))
    }

    /// `SREM.RETURNING`: removes members; how many were there.
    pub fn remove_many_returning(
        &self,
        members: impl IntoIterator<Item = impl IntoValue>,
    ) -> AnswerIn<S, u64> {
        self.0.read_many(many(members), SetOp::RemoveReturning, decode::count())
    }

    /// `SISMEMBER`: whether it is a member.
    pub fn contains(&self, member: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(member.into_value().map(SetOp::Contains))
    }

    /// `SCARD`: how many members.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(SetOp::Len)
    }

    /// `SMEMBERS`: all members, in bytewise order.
    pub fn members<V: FromValue>(&self) -> AnswerIn<S, Vec<V>> {
        self.0.read(SetOp::Members, decode::each())
    }
}

/// Fields and their values. See [`Dict`].
#[derive(Clone, Debug)]
pub struct DictRecord<S>(pub(super) Record<S, Dict>);

impl<S: Scope> DictRecord<S> {
    /// `HSET`: writes a field.
    pub fn set(&self, field: impl IntoValue, value: impl IntoValue) -> S::Void {
        self.0.issue_checked(pair((field, value)).map(|pair| DictOp::Set(few([pair]))))
    }

    /// `HSET`: writes fields.
    pub fn set_many(&self, fields: impl IntoIterator<Item = (impl IntoValue, impl IntoValue)>) -> S::Void {
        self.0.issue_many(fields.into_iter().map(pair).collect(), DictOp::Set)
    }

    /// `HSET.RETURNING`: writes a field; whether it is new.
    pub fn set_returning(&self, field: impl IntoValue, value: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(pair((field, value)).map(|pair| DictOp::SetReturning(few([pair]))))
    }

    /// `HSET.RETURNING`: writes fields; how many are new.
    pub fn set_many_returning(
        &self,
        fields: impl IntoIterator<Item = (impl IntoValue, impl IntoValue)>,
    ) -> AnswerIn<S, u64> {
        self.0.read_many(fields.into_iter().map(pair).collect(), DictOp::SetReturning, decode::count())
    }

    /// `HDEL`: removes a field.
    pub fn remove(&self, field: impl IntoValue) -> S::Void {
        self.0.issue_checked(one(field).map(DictOp::Remove))
    }

    /// `HDEL`: removes fields.
    pub fn remove_many(&self, fields: impl IntoIterator<Item = impl IntoValue>) -> S::Void {
        self.0.issue_many(many(fields), DictOp::Remove)
    }

    /// `HDEL.RETURNING`: removes a field; whether it was there.
    pub fn remove_returning(&self, field: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(one(field).map(DictOp::RemoveReturning))
    }

    /// `HDEL.RETURNING`: removes fields; how many were there.
    pub fn remove_many_returning(
        &self,
        fields: impl IntoIterator<Item = impl IntoValue>,
    ) -> AnswerIn<S, u64> {
        self.0.read_many(many(fields), DictOp::RemoveReturning, decode::count())
    }

    /// `HINCRBY`: adds to a field's number.
    pub fn add(&self, field: impl IntoValue, amount: i64) -> S::Void {
        self.0.issue_checked(field.into_value().map(|field| DictOp::Add(field, amount)))
    }

    /// `HINCRBY.RETURNING`: adds to a field's number; the sum.
    pub fn add_returning(&self, field: impl IntoValue, amount: i64) -> AnswerIn<S, i64> {
        self.0.run_checked(field.into_value().map(|field| DictOp::AddReturning(field, amount)))
    }

    /// `HGET`: a field's value.
    pub fn get<V: FromValue>(&self, field: impl IntoValue) -> AnswerIn<S, Option<V>> {
        self.0.read_checked(field.into_value().map(DictOp::Get), decode::optional())
    }

    /// `HMGET`: the values of fields, in the order asked.
    pub fn get_many<V: FromValue>(
        &self,
        fields: impl IntoIterator<Item = impl IntoValue>,
    ) -> AnswerIn<S, Vec<Option<V>>> {
        self.0.read_many(many(fields), DictOp::GetMany, decode::each_optional())
    }

    /// `HEXISTS`: whether it has the field.
    pub fn contains(&self, field: impl IntoValue) -> AnswerIn<S, bool> {
        self.0.run_checked(field.into_value().map(DictOp::Contains))
    }

    /// `HLEN`: how many fields.
    pub fn len(&self) -> AnswerIn<S, u64> {
        self.0.run(DictOp::Len)
    }

    /// `HKEYS`: all fields, in bytewise order.
    pub fn fields<F: FromValue>(&self) -> AnswerIn<S, Vec<F>> {
        self.0.read(DictOp::Fields, decode::each())
    }

    /// `HGETALL`: all fields and values, in bytewise order of the fields.
    pub fn all<F: FromValue, V: FromValue>(&self) -> AnswerIn<S, Pairs<F, V>> {
        self.0.read(DictOp::All, decode::fields())
    }
}
