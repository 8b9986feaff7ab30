//! Versions of records (O10 of `docs/optimistic.md`): a value that is another one after every change. It is nothing of a record's
//! content, so no state has one but that which a host makes to answer with ([`State::of_version`]).

use crate::data_type::Execution;
use crate::erased::{Executed, Operation, State};
use crate::{Claims, KeyspaceOp, Mode, OpError, Reply};

impl Operation {
    /// Whether it asks which version of a record there is: then it is executed on [`State::of_version`], and nothing else.
    #[inline]
    pub fn asks_version(&self) -> bool {
        matches!(self.keyspace(), Some(KeyspaceOp::Version))
    }
}

/// What is answered where a host says this.
///
/// # Errors
/// It says nothing: a mistake of the host.
pub(crate) fn answered(state: Option<&State>) -> Result<Executed, OpError> {
    let version = state.and_then(State::version).ok_or_else(|| OpError::Argument {
        given: "RECORD.VERSION".into(),
        expected: "asked of a store, which counts what changes a record".into(),
    })?;
    Ok(Execution::read(Reply::Bytes(version.clone()), Claims::record(Mode::SHARED)))
}

#[cfg(test)]
mod tests {
    use crate::{
        Bytes, Claims, Effect, KeyspaceEffect, KeyspaceOp, Mode, OpError, Operation, Register, Reply, State,
        Text, Unique,
    };

    fn op() -> Operation {
        Operation::from(KeyspaceOp::Version)
    }

    #[test]
    fn a_version_is_what_the_host_says_and_no_state_has_one_by_itself() {
        let told = State::of_version("v1".into());
        let executed = op().execute(Some(&told), Unique(0)).expect("told");
        assert_eq!(executed.reply, Reply::Bytes("v1".into()));
        assert_eq!(executed.claims, Claims::record(Mode::SHARED));
        assert_eq!(op().footprint(), executed.claims, "as a digest claims it");
        assert!(executed.effect.is_none());
        let content = State::new::<Register>(Text::Bytes("x".into()));
        for state in [None, Some(&content), Some(&State::opaque())] {
            let error = op().execute(state, Unique(0)).expect_err("nothing is told");
            assert!(matches!(error, OpError::Argument { .. }), "{error}");
        }
    }

    #[test]
    fn what_its_own_transaction_did_is_no_version_of_the_record() {
        let own = Effect::from(KeyspaceEffect::Remove);
        let told = Some(State::of_version("v1".into()));
        let (executed, _) = op().execute_in_partial(told, &[&own], Unique(0)).expect("told");
        assert_eq!(executed.reply, Reply::Bytes("v1".into()));
    }

    #[test]
    fn a_demanded_version_is_met_by_itself_alone() {
        let demanded = op().demanding(&Reply::Bytes("v1".into()));
        assert!(demanded.asks_version() && !op().demanding(&Reply::Nil).is_total());
        let ask = |version: &str| demanded.execute(Some(&State::of_version(Bytes::from(version))), Unique(0));
        assert!(ask("v1").is_ok());
        assert!(matches!(ask("v2"), Err(OpError::Unexpected { .. })));
    }
}
