//! Commands of the server as operations (A19, A23 of docs/scripts.md): what they claim, and what they answer where records are in memory.

use claret_types::{
    Access, Bytes, Claims, Command, Expiry, KeyspaceOp, Mode, OpError, Operation, Register, Reply, Set,
    State, Text, Unique,
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
    let error = of(&["PFADD", "k", "x"], Access::Write).execute(None, Unique(0)).expect_err("no server");
    assert_eq!(error.to_string(), "ERR 'PFADD' is carried out by servers, and these records are in memory");
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

/// A35: what has a meaning in memory means the same whenever it is carried out, on replay too.
#[test]
fn a_command_in_memory_is_given_the_time_once() {
    let given = |words: &[&str]| {
        let mut op = of(words, Access::Write);
        op.resolve_in_memory(|| 5_000);
        let words: Vec<String> =
            op.command().expect("a command").words().iter().map(Bytes::to_string).collect();
        (op, words.join(" "))
    };
    let (add, words) = given(&["XADD", "s", "MAXLEN", "~", "9", "*", "f", "v"]);
    assert_eq!(words, "XADD s MAXLEN ~ 9 *5000 f v");
    assert_eq!(given(&["expire", "s", "7"]).1, "PEXPIREAT s 12000");
    assert_eq!(given(&["XADD", "s", "*1", "f"]).1, "XADD s *1 f");
    assert_eq!(given(&["PFADD", "s", "*"]).1, "PFADD s *");
    let mut slot = None;
    for id in ["5000-0", "5000-1"] {
        let run =
            add.execute(slot.as_ref(), Unique(0)).expect("it can be done").effect.expect("it changes it");
        assert_eq!(run.run().expect("a command").carry_out(&mut slot), Reply::from(id));
    }
    let run = |words: &[&str], slot: &mut Option<State>| {
        let (op, _) = given(words);
        let effect = op.execute(slot.as_ref(), Unique(0)).expect("it can be done").effect.expect("it is run");
        effect.run().expect("a command").carry_out(slot)
    };
    assert_eq!(run(&["TYPE", "s"], &mut slot), Reply::from("stream"));
    assert_eq!(run(&["PEXPIRE", "s", "10"], &mut slot), Reply::Int(1));
    assert_eq!(slot.as_ref().and_then(State::expiry).map(Expiry::ms), Some(5_010));
    assert_eq!(run(&["PERSIST", "s"], &mut slot), Reply::Int(1));
    assert_eq!(run(&["DEL", "s"], &mut slot), Reply::Int(1));
    assert_eq!((run(&["EXISTS", "s"], &mut slot), slot), (Reply::Int(0), None));
    let error =
        of(&["EXPIRE", "s", "7", "NX"], Access::Write).execute(None, Unique(0)).expect_err("an option");
    assert!(error.to_string().contains("options that it has not"), "{error}");
}

/// A later command stands for an earlier one if it leaves the same, whatever their words are.
#[test]
fn a_command_stands_for_earlier_ones_of_its_name() {
    let run = |words: &[&str]| {
        let op = of(words, Access::Write);
        op.execute(Some(&State::opaque()), Unique(0))
            .expect("it is")
            .effect
            .expect("it runs")
            .run()
            .unwrap()
            .clone()
    };
    assert!(run(&["xadd", "s", "1-1", "f", "v"]).stands_for(&run(&["XADD", "s", "*", "g", "w"])));
    assert!(!run(&["XADD", "s", "*", "f", "v"]).stands_for(&run(&["DEL", "s"])));
    let create = ["XGROUP", "CREATE", "s", "g", "$"];
    assert!(!run(&create).stands_for(&run(&create)));
}
