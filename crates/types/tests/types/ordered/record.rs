//! A record with its lock and transactions on it, for tests of commutativity: a minimal shard.
//!
//! Deferred update as in the store: an operation executes on what is committed plus its transaction's own
//! effects, is granted if its claims commute with what others hold, and changes the record at commit.

use claret_types::{Bytes, Claims, DataType, Execution, Held, OpError, Reply, Unique};

/// Parses a call as one would type it.
pub(crate) fn call<T: DataType>(line: &str) -> T::Op {
    try_call::<T>(line).expect("a well-formed call")
}

/// Parses a call as one would type it.
pub(crate) fn try_call<T: DataType>(line: &str) -> Result<T::Op, OpError> {
    let mut words = line.split(' ');
    let method = words.next().expect("a name");
    let arguments: Vec<Bytes> = words.map(Bytes::from).collect();
    let op = T::parse(method, &arguments)?;
    T::check(&op)?;
    Ok(op)
}

/// Executes a call.
pub(crate) fn execute<T: DataType>(state: &T::State, line: &str) -> Result<Execution<T::Effect>, OpError> {
    T::execute(state, &call::<T>(line), Unique(7))
}

/// Carries out calls one after the other; the last answer.
pub(crate) fn run<T: DataType>(state: &mut T::State, lines: &[&str]) -> Reply {
    let mut reply = Reply::Nil;
    for line in lines {
        let execution = execute::<T>(state, line).expect("an operation that succeeds");
        reply = execution.reply;
        if let Some(effect) = execution.effect {
            T::apply(state, effect);
        }
    }
    reply
}

/// The state that calls lead to.
pub(crate) fn state_of<T: DataType>(lines: &[&str]) -> T::State {
    let mut state = T::State::default();
    run::<T>(&mut state, lines);
    state
}

/// Which of the calls, each by a transaction of its own, get the lock while all granted before are pending.
pub(crate) fn granted<T: DataType>(state: &T::State, lines: &[&str]) -> Vec<bool> {
    let mut held = Held::default();
    let grant = |line: &&str| {
        let claims = execute::<T>(state, line).expect("an operation that succeeds").claims;
        let admitted = held.admits(&T::MODES, &claims, T::room(state), std::iter::empty());
        if admitted {
            held.add(&claims);
        }
        admitted
    };
    lines.iter().map(grant).collect()
}

/// Whether all the calls share the lock, in whatever order they ask for it.
pub(crate) fn share<T: DataType>(state: &T::State, lines: &[&str]) -> bool {
    let forwards = granted::<T>(state, lines).into_iter().all(|granted| granted);
    let backwards: Vec<&str> = lines.iter().rev().copied().collect();
    assert_eq!(
        forwards,
        granted::<T>(state, &backwards).into_iter().all(|granted| granted),
        "order of asking matters: {lines:?}"
    );
    forwards
}

/// What happened to a transaction.
#[derive(Clone)]
enum Step {
    Answered(Reply),
    Committed,
    Aborted,
}

struct Transaction<T: DataType> {
    ops: Vec<T::Op>,
    effects: Vec<T::Effect>,
    claims: Vec<Claims>,
    replies: Vec<Reply>,
    over: bool,
}

impl<T: DataType> Transaction<T> {
    fn new(ops: Vec<T::Op>) -> Self {
        Transaction { ops, effects: vec![], claims: vec![], replies: vec![], over: false }
    }
}

impl<T: DataType> Clone for Transaction<T> {
    fn clone(&self) -> Self {
        Transaction {
            ops: self.ops.clone(),
            effects: self.effects.clone(),
            claims: self.claims.clone(),
            replies: self.replies.clone(),
            over: self.over,
        }
    }
}

/// A record, what is committed on it, and what a serial execution in the order of commits makes of it.
pub(crate) struct History<T: DataType> {
    committed: T::State,
    serial: T::State,
    transactions: Vec<Transaction<T>>,
    trace: Vec<(usize, Step)>,
}

impl<T: DataType> Clone for History<T> {
    fn clone(&self) -> Self {
        History {
            committed: self.committed.clone(),
            serial: self.serial.clone(),
            transactions: self.transactions.clone(),
            trace: self.trace.clone(),
        }
    }
}

fn unique(transaction: usize, op: usize) -> Unique {
    Unique((transaction * 100 + op) as u64)
}

impl<T: DataType> History<T> {
    pub(crate) fn new(state: T::State, transactions: Vec<Vec<T::Op>>) -> Self {
        History {
            committed: state.clone(),
            serial: state,
            transactions: transactions.into_iter().map(Transaction::new).collect(),
            trace: vec![],
        }
    }

    /// Goes through every interleaving of grants, commits and aborts, and returns how many commits it checked.
    pub(crate) fn explore(&self) -> u64 {
        self.check_orders();
        let mut checked = 0;
        for at in 0..self.transactions.len() {
            let transaction = &self.transactions[at];
            if transaction.over {
                continue;
            }
            if transaction.replies.len() < transaction.ops.len() {
                if let Some(next) = self.grant(at) {
                    checked += next.explore();
                }
            } else {
                checked += 1 + self.commit(at).explore();
                let mut aborted = self.clone();
                aborted.transactions[at].over = true;
                aborted.trace.push((at, Step::Aborted));
                checked += aborted.explore();
            }
        }
        checked
    }

    /// Transactions that could commit now leave the same state in either order: other records may see them
    /// commit in the other one.
    fn check_orders(&self) {
        let is_ready = |at: &usize| {
            let transaction = &self.transactions[*at];
            !transaction.over && transaction.replies.len() == transaction.ops.len()
        };
        let ready: Vec<usize> = (0..self.transactions.len()).filter(is_ready).collect();
        for (i, a) in ready.iter().enumerate() {
            for b in &ready[i + 1..] {
                let (one, other) = (self.applied(&[*a, *b]), self.applied(&[*b, *a]));
                assert_eq!(one, other, "T{a} and T{b} in either order\n{}", self.explanation());
            }
        }
    }

    fn applied(&self, order: &[usize]) -> T::State {
        let mut state = self.committed.clone();
        for effect in order.iter().flat_map(|at| &self.transactions[*at].effects) {
            T::apply(&mut state, effect.clone());
        }
        state
    }

    /// The next operation of a transaction, if the lock admits it.
    fn grant(&self, at: usize) -> Option<Self> {
        let own = &self.transactions[at];
        let mut seen = self.committed.clone();
        for effect in &own.effects {
            T::apply(&mut seen, effect.clone());
        }
        let op = &own.ops[own.replies.len()];
        let execution = T::execute(&seen, op, unique(at, own.replies.len())).ok()?;
        let mut held = Held::default();
        for claims in self.transactions.iter().filter(|other| !other.over).flat_map(|other| &other.claims) {
            held.add(claims);
        }
        if !held.admits(&T::MODES, &execution.claims, T::room(&seen), own.claims.iter()) {
            return None;
        }
        let mut next = self.clone();
        next.trace.push((at, Step::Answered(execution.reply.clone())));
        let own = &mut next.transactions[at];
        own.effects.extend(execution.effect);
        own.claims.push(execution.claims);
        own.replies.push(execution.reply);
        Some(next)
    }

    fn commit(&self, at: usize) -> Self {
        let mut next = self.clone();
        next.trace.push((at, Step::Committed));
        next.transactions[at].over = true;
        let own = &self.transactions[at];
        for effect in &own.effects {
            T::apply(&mut next.committed, effect.clone());
        }
        for (i, (op, reply)) in own.ops.iter().zip(&own.replies).enumerate() {
            let execution = T::execute(&next.serial, op, unique(at, i));
            let execution = execution.unwrap_or_else(|error| panic!("{error}\n{}", next.explanation()));
            assert_eq!(execution.reply, *reply, "answer of {op:?}\n{}", next.explanation());
            if let Some(effect) = execution.effect {
                T::apply(&mut next.serial, effect);
            }
        }
        assert_eq!(next.committed, next.serial, "state\n{}", next.explanation());
        next
    }

    fn explanation(&self) -> String {
        let ops: Vec<_> = self.transactions.iter().map(|transaction| &transaction.ops).collect();
        let mut explanation = format!("transactions: {ops:#?}");
        for (at, step) in &self.trace {
            let line = match step {
                Step::Answered(reply) => format!("\nT{at} is granted its next operation: {reply}"),
                Step::Committed => format!("\nT{at} commits"),
                Step::Aborted => format!("\nT{at} aborts"),
            };
            explanation.push_str(&line);
        }
        explanation
    }
}
