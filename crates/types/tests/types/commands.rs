//! Commands of the server as operations (A19, A23 of docs/scripts.md): what they claim, and what they answer where records are in memory.

use claret_types::{
    Access, Bytes, Claims, Command, KeyspaceOp, Mode, OpError, Operation, Register, Reply, Set, State, Text,
    Unique,
};

fn of(words: &[&str], access: Access) -> Operation {
    let words: Vec<Bytes> = words.iter().map(|word| Bytes::from(*word)).collect();
    Operation::from(KeyspaceOp::Run(Command::new(access, &words)))
}

#[test]
fn a_command_answers_by_the_state_on_which_it_is_carried_out() {
    let op = of(&["APPEND", "k", "ab"], Access::Write);
    let executed = op.execute(None, Unique(0)).expect("it can be done");
    assert_eq!((executed.reply, executed.claims), (Reply::Int(2), Claims::record(Mode::EXCLUSIVE)));
    let effect = executed.effect.expect("it is carried out").numbered(7);
    let run = effect.run().expect("a command").clone();
    assert_eq!(run.no, 7);
    let mut slot = Some(State::new::<Register>(Text::Bytes("xyz".into())));
    assert_eq!(run.carry_out(&mut slot), Reply::Int(5));
    let undo = effect.apply(&mut slot);
    drop(undo.apply(&mut slot));
    let length = of(&["STRLEN", "k"], Access::Read);
    let executed = length.execute(slot.as_ref(), Unique(0)).expect("it can be done");
    assert_eq!((executed.reply, executed.claims), (Reply::Int(5), Claims::record(Mode::SHARED)));
}

#[test]
fn what_cannot_be_done_is_said_before_it_is_carried_out() {
    let set = State::new::<Set>(["x".into()].into_iter().collect());
    let append = of(&["APPEND", "k", "ab"], Access::Write);
    assert!(matches!(append.execute(Some(&set), Unique(0)), Err(OpError::WrongType { .. })));
    let error =
        of(&["XADD", "k", "*", "f", "v"], Access::Write).execute(None, Unique(0)).expect_err("no server");
    assert_eq!(error.to_string(), "ERR 'XADD' is carried out by servers, and these records are in memory");
    assert!((of(&["XADD", "k"], Access::Write).execute(Some(&State::opaque()), Unique(0))).is_ok());
}

/// A31: what only reads is asked now; the host tells what its server says.
#[test]
fn a_command_that_is_asked_answers_now_and_changes_nothing() {
    let words = ["STRLEN", "k"].map(Bytes::from);
    let op = Operation::from(KeyspaceOp::Ask(Command::new(Access::Read, &words)));
    assert!(!op.is_command() && op.command().is_some() && op.method().access == Access::Read);
    let again = (op.type_info().parse)(op.method().name, &op.arguments()).expect("it is one");
    assert_eq!(again, op);
    let text = State::new::<Register>(Text::Bytes("abc".into()));
    let told = State::of_answer(Reply::Int(7));
    for (state, reply) in [(None, 0), (Some(&text), 3), (Some(&told), 7)] {
        let executed = op.execute(state, Unique(0)).expect("it answers");
        assert_eq!((executed.reply, executed.claims), (Reply::Int(reply), Claims::record(Mode::SHARED)));
        assert!(executed.effect.is_none());
    }
    assert_eq!(op.footprint(), Claims::record(Mode::SHARED));
}

#[test]
fn a_command_travels_as_it_is() {
    let op = of(&["GEOADD", "k", "1", "2", "x"], Access::Write);
    let again = (op.type_info().parse)(op.method().name, &op.arguments()).expect("it is one");
    assert_eq!(again, op);
    assert!(op.is_command() && !op.is_total() && op.tried().is_command());
}

#[test]
fn a_command_without_a_name_is_refused_before_it_travels() {
    let op = Operation::from(KeyspaceOp::Run(Command::new(Access::Write, &[])));
    assert!(matches!(op.check(100), Err(OpError::Argument { .. })));
    assert!(of(&["XLEN", "k"], Access::Read).check(100).is_ok());
    assert!(matches!(of(&["XLEN", "key"], Access::Read).check(6), Err(OpError::TooLarge { .. })));
}
