//! How transactions of the modes `optimistic` and `sinfonia` look, and what has to stay as it was until they commit.

use claret::types::{BoundedCounter, BoundedCounterOp, Counter, Register, RegisterOp, Set};
use claret::{Abort, Operation, Tx, TxOptions, lab::TxLab};

use crate::workload::{Call, ops};

/// Whether a transaction looks without locks, and what it has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Looking {
    /// It locks.
    #[default]
    Never,
    /// At what each operation answered.
    AtAnswers,
    /// At the records' whole values, as stores without types do: whoever writes one that was looked at is in the way.
    AtValues,
    /// At what each operation answered and at what each one overwrites, and it never locks: the mode `sinfonia`.
    AtItems,
}

impl Looking {
    /// Reads a name, as in `--check`.
    ///
    /// # Errors
    /// Names the input and lists what there is.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "answers" => Ok(Looking::AtAnswers),
            "values" => Ok(Looking::AtValues),
            other => Err(format!("there is no check '{other}'; what is checked are answers or values")),
        }
    }

    pub(crate) fn options(self) -> TxOptions {
        match self {
            Looking::Never => TxOptions::new(),
            Looking::AtAnswers | Looking::AtValues => TxOptions::new().optimistic(),
            // Who it is for begins again by itself.
            Looking::AtItems => TxOptions::new().optimistic_only().attempts(1),
        }
    }
}

/// Looks at the whole value of each record that one of the calls asks something of.
///
/// # Errors
/// The transaction is to be run again, or has failed.
pub(crate) async fn values(tx: &Tx, calls: &[Call]) -> Result<(), Abort> {
    let whole =
        calls.iter().filter(|call| call.op.returns()).filter_map(|call| Some((call, whole(&call.op)?)));
    let looks: Vec<_> = whole.map(|(call, op)| tx.execute(call.key.clone(), op)).collect();
    for look in looks {
        look.await?;
    }
    Ok(())
}

/// What reads all of a record of this operation's type. None where this is not done: there the answer alone is checked.
pub(crate) fn whole(op: &Operation) -> Option<Operation> {
    if op.downcast::<Counter>().is_some() {
        Some(ops::get())
    } else if op.downcast::<BoundedCounter>().is_some() {
        Some(Operation::new::<BoundedCounter>(BoundedCounterOp::Get))
    } else if op.downcast::<Register>().is_some() {
        Some(Operation::new::<Register>(RegisterOp::Get))
    } else if op.downcast::<Set>().is_some() {
        Some(ops::smembers())
    } else {
        None
    }
}
