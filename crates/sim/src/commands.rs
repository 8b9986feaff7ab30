//! Commands of the server as steps of programs (`docs/scripts.md`): on records in memory `APPEND` and `STRLEN` stand for them, whose
//! answers only the state at apply tells.

use std::collections::BTreeSet;

use claret_types::{Access, Bytes, Command, KeyspaceOp, Operation};

use crate::random::Random;
use crate::workload::{Action, Program, Step};

/// The family of records on which they are.
const FAMILY: &[u8] = b"register";

impl Program {
    /// So many of a thousand operations that wait for the commit, on records that such a command fits, become one. Behind it the program
    /// has further commands alone on that record (A22).
    pub(crate) fn run_commands(&mut self, permille: u64, random: &mut Random) {
        let mut run_on: BTreeSet<Bytes> = BTreeSet::new();
        let mut left_out = Vec::new();
        for (at, step) in self.steps.iter_mut().enumerate() {
            match step {
                Step::Buffer(action) if action.key.starts_with(FAMILY) => {
                    let becomes_one = random.chance(permille);
                    if becomes_one || run_on.contains(&action.key) {
                        run_on.insert(action.key.clone());
                        *action = Action::fixed(action.key.clone(), command(&action.key, random));
                    }
                }
                Step::Execute(actions) => {
                    // What the server is asked now, others may ask with it.
                    for action in actions.iter_mut().filter(|action| action.key.starts_with(FAMILY)) {
                        if random.chance(permille / 2) {
                            let length = Command::new(Access::Read, &["STRLEN".into(), action.key.clone()]);
                            *action = Action::fixed(action.key.clone(), KeyspaceOp::Ask(length).into());
                        }
                    }
                    actions.retain(|action| !run_on.contains(&action.key));
                    if actions.is_empty() {
                        left_out.push(at);
                    }
                }
                _ => {}
            }
        }
        for at in left_out.into_iter().rev() {
            self.steps.remove(at);
        }
    }
}

fn command(key: &Bytes, random: &mut Random) -> Operation {
    let (access, words) = match random.below(3) {
        0 => (Access::Read, vec!["STRLEN".into(), key.clone()]),
        _ => (Access::Write, vec!["APPEND".into(), key.clone(), Bytes::from(*random.pick(&["a", "bc"]))]),
    };
    Operation::from(KeyspaceOp::Run(Command::new(access, &words)))
}
