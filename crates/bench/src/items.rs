//! The items of the mode `sinfonia`: what a call overwrites, and so has to be read before and to be the same when it is written.
//!
//! Items are records, but fields of a Dict. A collection keeps its size, or its end, in an item of its own, as something must be
//! changed with each member that comes or goes. Increments are read and written back: the operation that is sent is still the
//! increment, but what it adds to is compared.

use claret::{Answer, Tx};
use claret_types::{
    Access, BoundedCounter, BoundedCounterOp as Bounded, Bytes, Counter, CounterOp, Dict, DictOp, End,
    FloatCounter, FloatCounterOp as Float, List, ListOp, Operation, Reply, ScoredSet, ScoredSetOp, Set,
    SetOp, SummaryBag, SummaryBagOp, TopK, TopKOp,
};

use crate::workload::{Call, ops};

/// Asks for what these calls overwrite.
pub(crate) fn ask(tx: &Tx, calls: &[Call]) -> Vec<Answer<Reply>> {
    overwritten(calls).into_iter().map(|Call { key, op }| tx.execute(key, op)).collect()
}

/// Whether the calls are one mini-transaction: they overwrite nothing that has to be read before, and what they ask is read.
pub(crate) fn is_one(calls: &[Call]) -> bool {
    let reads = |op: &Operation| !op.returns() || op.method().access == Access::Read;
    calls.iter().all(|call| reads(&call.op)) && overwritten(calls).is_empty()
}

/// An item that is read because it is overwritten.
enum Item {
    /// A field of a Dict.
    Field(Bytes),
    /// What an increment adds to. Who reads it afterwards knows what was there before.
    Number(Operation),
    /// What belongs to all of a collection.
    Of(Operation),
}

/// The questions to ask before these calls. Those that stand together on one record are asked together. O(calls), if few do.
fn overwritten(calls: &[Call]) -> Vec<Call> {
    let mut questions: Vec<Call> = Vec::new();
    for group in calls.chunk_by(|one, next| one.key == next.key) {
        let (mut fields, first) = (Vec::new(), questions.len());
        for (at, call) in group.iter().enumerate() {
            let is_read_later = |question: &Operation| group[at + 1..].iter().any(|it| it.op == *question);
            let question = match item(&call.op) {
                Some(Item::Field(field)) => {
                    if !is_read_later(&get_field(field.clone())) && !fields.contains(&field) {
                        fields.push(field);
                    }
                    continue;
                }
                Some(Item::Number(question)) if is_read_later(&question) => continue,
                Some(Item::Number(question) | Item::Of(question)) => question,
                None => continue,
            };
            if questions[first..].iter().all(|known| known.op != question) {
                questions.push(Call::new(&call.key, question));
            }
        }
        let question = match fields.len() {
            0 => continue,
            1 => get_field(fields.remove(0)),
            _ => Operation::new::<Dict>(DictOp::GetMany(fields.into_iter().collect())),
        };
        questions.push(Call::new(&group[0].key, question));
    }
    questions
}

fn get_field(field: Bytes) -> Operation {
    Operation::new::<Dict>(DictOp::Get(field))
}

/// What an operation overwrites that it must know. None: it reads, or its answer tells, or it does not care.
fn item(op: &Operation) -> Option<Item> {
    if let Some(op) = op.downcast::<Dict>() {
        return match op {
            DictOp::Add(field, _) => Some(Item::Field(field.clone())),
            _ => None,
        };
    }
    if let Some(op) = op.downcast::<Counter>() {
        return matches!(op, CounterOp::Add(_)).then(|| Item::Number(ops::get()));
    }
    if let Some(op) = op.downcast::<FloatCounter>() {
        let get = || Item::Number(Operation::new::<FloatCounter>(Float::Get));
        return matches!(op, Float::Add(_)).then(get);
    }
    if let Some(op) = op.downcast::<BoundedCounter>() {
        let get = || Operation::new::<BoundedCounter>(Bounded::Get);
        return match op {
            Bounded::Add(_) | Bounded::Take(_) | Bounded::TakeWrapping(_) => Some(Item::Number(get())),
            // It says whether it was enough, and not how much there is.
            Bounded::AddReturning(_) | Bounded::TakeReturning(_) => Some(Item::Of(get())),
            _ => None,
        };
    }
    of_collection(op).map(Item::Of)
}

/// What of a collection changes with a member that comes or goes.
fn of_collection(op: &Operation) -> Option<Operation> {
    if let Some(op) = op.downcast::<Set>() {
        return match op {
            SetOp::Contains(_) | SetOp::Len | SetOp::Members => None,
            _ => Some(ops::scard()),
        };
    }
    if let Some(op) = op.downcast::<ScoredSet>() {
        return match op {
            ScoredSetOp::Increment { member, .. } => Some(ops::zscore(member.clone())),
            ScoredSetOp::Add(_) | ScoredSetOp::Remove(_) => Some(ops::zcard()),
            _ => None,
        };
    }
    if let Some(op) = op.downcast::<List>() {
        let index = |at| Some(Operation::new::<List>(ListOp::Index(at)));
        // A push that answers tells how long the list is, and a pop what stood at its end.
        return match op {
            ListOp::Push(End::Front, _) => index(0),
            ListOp::Push(End::Back, _) => index(-1),
            _ => None,
        };
    }
    if let Some(TopKOp::Add { capacity, .. }) = op.downcast::<TopK>() {
        return Some(Operation::new::<TopK>(TopKOp::List { count: u64::from(*capacity) }));
    }
    let add = op.downcast::<SummaryBag>().filter(|op| matches!(op, SummaryBagOp::Add(_)));
    add.map(|_| Operation::new::<SummaryBag>(SummaryBagOp::Summary))
}

#[cfg(test)]
mod tests {
    use claret_types::{Register, RegisterOp};

    use super::*;

    fn questions(calls: &[Call]) -> Vec<(String, Operation)> {
        overwritten(calls).into_iter().map(|call| (call.key.to_string(), call.op)).collect()
    }

    fn bounded(op: Bounded) -> Operation {
        Operation::new::<BoundedCounter>(op)
    }

    /// A counter is read and its new value written back; what is only replaced is not.
    #[test]
    fn increments_are_read_first_and_what_is_replaced_is_not() {
        let set = Operation::new::<Register>(RegisterOp::Set("5".into()));
        let calls = [
            Call::new(&"n".into(), ops::incrby(1)),
            Call::new(&"r".into(), set),
            Call::new(&"d".into(), ops::hset([("a", "1".into())])),
            Call::new(&"s".into(), ops::sadd("x".into())),
        ];
        assert_eq!(questions(&calls), [("n".into(), ops::get()), ("s".into(), ops::scard())]);
        assert!(is_one(&calls[1..3]) && !is_one(&calls[..3]));
    }

    /// Fields of one record are one question; a field or a number that the transaction reads after its change is none.
    #[test]
    fn what_is_asked_of_one_record_is_asked_together_and_once() {
        let key = "c".into();
        let calls = [
            Call::new(&key, ops::hincrby("balance", -5)),
            Call::new(&key, ops::hincrby("paid", 5)),
            Call::new(&key, ops::hincrby("count", 1)),
            Call::new(&key, ops::hget("balance")),
            Call::new(&"q".into(), bounded(Bounded::TakeWrapping(3))),
            Call::new(&"q".into(), bounded(Bounded::Get)),
        ];
        let two =
            Operation::new::<Dict>(DictOp::GetMany(["paid", "count"].map(Bytes::from).into_iter().collect()));
        assert_eq!(questions(&calls), [("c".into(), two)]);
    }

    /// What a take that answers leaves is not known from its answer.
    #[test]
    fn a_take_that_answers_is_of_a_number_that_is_read() {
        let take = [Call::new(&"q".into(), bounded(Bounded::TakeReturning(1)))];
        assert_eq!(questions(&take), [("q".into(), bounded(Bounded::Get))]);
        assert!(!is_one(&take) && is_one(&[Call::new(&"q".into(), bounded(Bounded::Get))]));
    }
}
