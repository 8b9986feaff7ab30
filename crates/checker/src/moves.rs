//! Moves a slot from one node to another while clients use its keys, as `redis-cli --cluster reshard` does it.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a slot may take to move. While clients work its keys are held again and again.
const MOVE_TIME: Duration = Duration::from_secs(30);

/// Keys that go together.
const KEYS_MAX: &str = "50";

/// Who gives commands to nodes.
pub(crate) trait Operator {
    /// One command at one node.
    ///
    /// # Errors
    /// The node's, or there is no answer.
    fn ask<T: redis::FromRedisValue>(&self, node: usize, words: &[&str]) -> Result<T, String>;
}

/// Which slot goes where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<'a> {
    pub(crate) slot: u16,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// At which it takes records.
    pub(crate) port: u16,
    /// All that serve slots.
    pub(crate) primaries: &'a [usize],
    /// After so many commands that a node has carried out it is left as it is.
    pub(crate) steps_max: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The slot is where it was to go, and everybody was told.
    There,
    /// It is where it was: its keys were in use all the time.
    Here,
    /// It is on its way.
    UnderWay,
}

/// Whether nothing was done, and may be later: keys were in use, or too few replicas are there just now (Valkey replicates who has a
/// slot).
fn is_later(error: &str) -> bool {
    ["TRYAGAIN", "TryAgain", "NOREPLICAS"].iter().any(|it| error.contains(it))
}

/// Whether records stay where they are until they are asked to go again: the node that is to take them is stopped, or says that it
/// takes nothing now: it has no memory or disk left, loads its data, or waits for its replicas.
fn stays(error: &str) -> bool {
    let passing = ["OOM", "MISCONF", "LOADING", "BUSY", "NOREPLICAS", "IOERR", "CLUSTERDOWN", "NOTREADY"];
    passing.iter().any(|it| error.contains(it))
}

struct Mover<'a, O> {
    operator: &'a O,
    since: Instant,
    steps_left: usize,
}

impl<O: Operator> Mover<'_, O> {
    /// Again while it may be done later. `None`: so many steps are done; else whether it was carried out in time.
    fn say(&mut self, node: usize, words: &[&str]) -> Result<Option<bool>, String> {
        if self.steps_left == 0 {
            return Ok(None);
        }
        self.steps_left -= 1;
        loop {
            match self.operator.ask::<redis::Value>(node, words) {
                Ok(_) => return Ok(Some(true)),
                Err(error) if !is_later(&error) => return Err(error),
                Err(_) if self.since.elapsed() > MOVE_TIME => return Ok(Some(false)),
                Err(_) => sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Records go over until none is left; whether they all went before so many steps were done.
    fn migrate(&mut self, it: &Move<'_>, slot: &str) -> Result<bool, String> {
        let port = it.port.to_string();
        let mut last = String::new();
        loop {
            let words = ["CLUSTER", "GETKEYSINSLOT", slot, KEYS_MAX];
            let keys: Vec<String> = self.operator.ask(it.from, &words)?;
            if keys.is_empty() {
                return Ok(true);
            }
            if self.steps_left == 0 {
                return Ok(false);
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "REPLACE", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            match self.operator.ask::<redis::Value>(it.from, &words) {
                Ok(_) => self.steps_left -= 1,
                Err(error) if is_later(&error) || stays(&error) => {
                    last = error;
                    sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
            if self.since.elapsed() > 2 * MOVE_TIME {
                return Err(format!("slot {slot} does not become empty: {keys:?}; last: {last}"));
            }
        }
    }
}

/// Moves it. What was left under way is taken up again by the same move.
///
/// # Errors
/// A node refuses for another reason than keys in use, or a slot cannot be given away once its records are gone.
pub(crate) fn move_slot(operator: &impl Operator, it: &Move<'_>) -> Result<Moved, String> {
    let (since, slot) = (Instant::now(), it.slot.to_string());
    let mut mover = Mover { operator, since, steps_left: it.steps_max };
    let id = |node: usize| operator.ask::<String>(node, &["CLUSTER", "MYID"]);
    let (from_id, to_id) = (id(it.from)?, id(it.to)?);
    if mover.say(it.to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?.is_none() {
        return Ok(Moved::UnderWay);
    }
    match mover.say(it.from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])? {
        None => return Ok(Moved::UnderWay),
        Some(true) => {}
        Some(false) => {
            mover.say(it.to, &["CLUSTER", "SETSLOT", &slot, "STABLE"])?;
            return Ok(Moved::Here);
        }
    }
    if !mover.migrate(it, &slot)? {
        return Ok(Moved::UnderWay);
    }
    let others = it.primaries.iter().filter(|node| ![it.from, it.to].contains(node));
    for node in [it.to, it.from].iter().chain(others) {
        match mover.say(*node, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id])? {
            None => return Ok(Moved::UnderWay),
            Some(true) => {}
            Some(false) => return Err(format!("slot {slot} is not given away within {MOVE_TIME:?}")),
        }
    }
    Ok(Moved::There)
}

/// Has the node that takes a slot in begin anew, where the one that gives it away has died: before that it does not see who has taken
/// that one's place.
///
/// # Errors
/// The node's.
pub(crate) fn stop_slot(operator: &impl Operator, slot: u16, taker: usize) -> Result<(), String> {
    let mut mover = Mover { operator, since: Instant::now(), steps_left: usize::MAX };
    mover.say(taker, &["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Nodes with one record. The one that takes it refuses so often, with these words.
    struct Nodes {
        refusals: RefCell<Vec<&'static str>>,
        keys: RefCell<Vec<&'static str>>,
        /// Who is to have the slot is refused once with this.
        without_replicas: RefCell<String>,
    }

    impl Operator for Nodes {
        fn ask<T: redis::FromRedisValue>(&self, _: usize, words: &[&str]) -> Result<T, String> {
            let value = match words {
                ["CLUSTER", "GETKEYSINSLOT", ..] => {
                    let keys = self.keys.borrow();
                    redis::Value::Array(
                        keys.iter().map(|key| redis::Value::SimpleString((*key).into())).collect(),
                    )
                }
                ["MIGRATE", ..] => {
                    if let Some(error) = self.refusals.borrow_mut().pop() {
                        return Err(error.into());
                    }
                    self.keys.borrow_mut().clear();
                    redis::Value::Okay
                }
                [.., "NODE", _] if !self.without_replicas.borrow().is_empty() => {
                    return Err(self.without_replicas.borrow_mut().split_off(0));
                }
                _ => redis::Value::SimpleString("id".into()),
            };
            T::from_redis_value(value).map_err(|error| error.to_string())
        }
    }

    fn moved(refusals: &[&'static str]) -> Result<Moved, String> {
        let nodes = Nodes {
            refusals: RefCell::new(refusals.to_vec()),
            keys: RefCell::new(vec!["key"]),
            without_replicas: RefCell::new(r#""NOREPLICAS": Not enough good replicas to write."#.into()),
        };
        let it = Move { slot: 1, from: 0, to: 1, port: 1, primaries: &[0, 1, 2], steps_max: usize::MAX };
        move_slot(&nodes, &it)
    }

    /// Two faults at once: the node that takes the slot has no memory left meanwhile.
    #[test]
    fn who_takes_nothing_now_is_asked_again() {
        let refusals = [
            "MIGRATE: ResponseError: Target instance replied with error: OOM command not allowed",
            "IOERR error or timeout reading to target instance",
        ];
        assert_eq!(moved(&refusals), Ok(Moved::There));
    }

    #[test]
    fn another_error_ends_the_move() {
        assert_eq!(moved(&["ERR syntax error"]), Err("ERR syntax error".into()));
    }
}
