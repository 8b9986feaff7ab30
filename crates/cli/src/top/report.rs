//! Two readings as a report: rates of each shard and of all, hot keys, and who waits for whom. Its form as JSON is documented in
//! `docs/operations.md`; names there stay, and new ones may come.

use serde::Serialize;

use super::answer::{Answer, Attempt, Counters, Key};
use super::asking::{NodeReading, Reading};

/// Grows when a name goes or changes its meaning.
const VERSION: u32 = 1;

/// What happened in a second. `None` as long as there is one reading only, and where a shard began anew meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) transactions_per_second: Option<f64>,
    pub(crate) commits_per_second: Option<f64>,
    pub(crate) aborts_per_second: Option<f64>,
    pub(crate) operations_per_second: Option<f64>,
    pub(crate) frames_per_second: Option<f64>,
    pub(crate) operations_per_frame: Option<f64>,
    pub(crate) grants_per_second: Option<f64>,
    pub(crate) waits_per_second: Option<f64>,
}

/// A shard, or why it is not shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Shard {
    pub(crate) node: String,
    pub(crate) error: Option<String>,
    /// Why it serves no transactions, though it answers; `None`: it does, or is not shown.
    pub(crate) not_served: Option<String>,
    pub(crate) shard: Option<u64>,
    pub(crate) incarnation: Option<u64>,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    pub(crate) open_attempts: Option<u64>,
    pub(crate) held_keys: Option<u64>,
    pub(crate) looked_at: Option<u64>,
    pub(crate) hidden_keys: Option<u64>,
}

/// All shards that answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cluster {
    pub(crate) shards: u64,
    pub(crate) answered: u64,
    /// Of these, those that serve transactions.
    pub(crate) serving: u64,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    pub(crate) open_attempts: u64,
    pub(crate) held_keys: u64,
    pub(crate) hidden_keys: u64,
}

/// Waits of one operation for a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Operation {
    pub(crate) operation: String,
    pub(crate) waits_per_second: Option<f64>,
    pub(crate) recent_waits: u64,
}

/// How many claims of a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Mode {
    pub(crate) mode: String,
    pub(crate) claims: u64,
}

/// A key for which somebody had to wait, or waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HotKey {
    pub(crate) key: String,
    pub(crate) node: String,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) waits_per_second: Option<f64>,
    pub(crate) recent_waits: u64,
    pub(crate) operations: Vec<Operation>,
    pub(crate) held: Vec<Mode>,
    pub(crate) wanted: Vec<Mode>,
    pub(crate) holders: u64,
    pub(crate) waiters: u64,
    pub(crate) joined: u64,
    pub(crate) waited_ms: f64,
    pub(crate) in_line: u64,
}

/// Who waits for whom.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Wait {
    pub(crate) key: String,
    pub(crate) node: String,
    pub(crate) waited_ms: f64,
    pub(crate) operation: String,
    pub(crate) waiter: Attempt,
    pub(crate) holder: Option<Attempt>,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) version: u32,
    /// Without a password.
    pub(crate) store: String,
    pub(crate) seconds: Option<f64>,
    pub(crate) cluster: Cluster,
    pub(crate) shards: Vec<Shard>,
    /// Those of which most operations had to wait come first.
    pub(crate) keys: Vec<HotKey>,
    /// Where somebody has waited longest comes first.
    pub(crate) waits: Vec<Wait>,
}

impl Report {
    /// What happened between two readings, and what there is now. `count`: so many of the hottest keys, and so many that
    /// somebody has waited for longest. `asked`: of how many a node was asked.
    pub(crate) fn between(
        store: &str,
        before: Option<&Reading>,
        now: &Reading,
        (count, asked): (usize, usize),
    ) -> Report {
        let mut report = Report {
            version: VERSION,
            store: store.to_owned(),
            seconds: before.map(|before| rounded(now.at.duration_since(before.at).as_secs_f64())),
            cluster: Cluster { shards: now.nodes.len() as u64, ..Cluster::default() },
            shards: Vec::new(),
            keys: Vec::new(),
            waits: Vec::new(),
        };
        let mut sum = Sum::default();
        for NodeReading { node, answer } in &now.nodes {
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    report.shards.push(Shard::missing(node, error));
                    continue;
                }
            };
            let earlier = before.and_then(|before| earlier(before, node, answer));
            let happened = earlier.map(|earlier| Happened::between(earlier, answer));
            sum.add(happened.as_ref());
            report.cluster.add(answer);
            report.shards.push(Shard::of(node, answer, happened.as_ref()));
            for key in &answer.keys {
                let key_before = earlier.map(|earlier| KeyBefore::of(earlier, key, asked));
                let seconds = happened.as_ref().map(|it| it.seconds);
                report.add_key(node, key, key_before.zip(seconds));
            }
        }
        report.cluster.rates = sum.rates();
        report.sort();
        report.cut(count);
        report
    }

    fn add_key(&mut self, node: &str, key: &Key, before: Option<(KeyBefore<'_>, f64)>) {
        let operation = |waited: &super::answer::Waited| {
            let rate = before.as_ref().and_then(|(before, seconds)| {
                Some(waited.total.checked_sub(before.total(&waited.method)?)? as f64 / seconds)
            });
            let waits_per_second = rate.map(rounded);
            Operation { operation: waited.method.clone(), waits_per_second, recent_waits: waited.recent }
        };
        let mut operations: Vec<Operation> = key.waits.iter().map(operation).collect();
        let rate = |it: &Operation| it.waits_per_second.unwrap_or(0.0);
        operations.sort_by(|a, b| {
            let by_rate = rate(b).total_cmp(&rate(a));
            by_rate.then(b.recent_waits.cmp(&a.recent_waits)).then(a.operation.cmp(&b.operation))
        });
        let rates: Vec<f64> = operations.iter().filter_map(|it| it.waits_per_second).collect();
        let waited_ms = rounded(key.waited_us as f64 / 1e3);
        let modes = |counts: &[(String, u64)]| {
            let mode = |(mode, claims): &(String, u64)| Mode { mode: mode.clone(), claims: *claims };
            counts.iter().map(mode).collect()
        };
        self.keys.push(HotKey {
            key: key.key.clone(),
            node: node.to_owned(),
            kind: key.kind.clone(),
            // Of a key for which nobody had to wait there is nothing to count.
            waits_per_second: (before.is_some() && rates.len() == operations.len())
                .then(|| rounded(rates.iter().sum())),
            recent_waits: operations.iter().map(|it| it.recent_waits).sum(),
            operations,
            held: modes(&key.held),
            wanted: modes(&key.wanted),
            holders: key.holders,
            waiters: key.waiters,
            joined: key.joined,
            waited_ms,
            in_line: key.in_line,
        });
        self.waits.extend(key.behind.iter().map(|behind| Wait {
            key: key.key.clone(),
            node: node.to_owned(),
            waited_ms,
            operation: behind.method.clone(),
            waiter: behind.waiter.clone(),
            holder: behind.holder.clone(),
        }));
    }

    fn sort(&mut self) {
        let rate = |key: &HotKey| key.waits_per_second.unwrap_or(0.0);
        self.keys.sort_by(|a, b| {
            let by_heat = rate(b).total_cmp(&rate(a)).then(b.recent_waits.cmp(&a.recent_waits));
            by_heat.then(b.waiters.cmp(&a.waiters)).then(a.key.cmp(&b.key))
        });
        self.waits.sort_by(|a, b| b.waited_ms.total_cmp(&a.waited_ms).then(a.key.cmp(&b.key)));
    }
}

impl Report {
    /// Keeps the first keys, and the waits for those that somebody has waited for longest, with their keys.
    fn cut(&mut self, count: usize) {
        let mut longest: Vec<(String, String)> = Vec::new();
        self.waits.retain(|wait| {
            let key = (wait.node.clone(), wait.key.clone());
            let is_known = longest.contains(&key);
            if !is_known && longest.len() < count {
                longest.push(key);
                return true;
            }
            is_known
        });
        let mut place = 0;
        self.keys.retain(|key| {
            place += 1;
            place <= count || longest.iter().any(|(node, it)| (node, it) == (&key.node, &key.key))
        });
    }
}

/// Of the same incarnation of the same shard.
fn earlier<'a>(before: &'a Reading, node: &str, now: &Answer) -> Option<&'a Answer> {
    let earlier = before.nodes.iter().find(|it| it.node == node)?.answer.as_ref().ok()?;
    let is_same = (earlier.shard, earlier.incarnation) == (now.shard, now.incarnation);
    (is_same && earlier.now_us < now.now_us).then_some(earlier)
}

/// What a node had counted of a key.
struct KeyBefore<'a> {
    key: Option<&'a Key>,
    /// There may have been more than it was asked for.
    is_full: bool,
}

impl<'a> KeyBefore<'a> {
    fn of(earlier: &'a Answer, key: &Key, asked: usize) -> Self {
        let is_full = earlier.keys.len() >= asked;
        KeyBefore { key: earlier.keys.iter().find(|it| it.key == key.key), is_full }
    }

    /// Waits until then: none, if the operation was not counted. `None` where that is not known.
    fn total(&self, method: &str) -> Option<u64> {
        let Some(key) = self.key else { return (!self.is_full).then_some(0) };
        Some(key.waits.iter().find(|it| it.method == method).map_or(0, |it| it.total))
    }
}

/// What happened at a node, by its own clock.
struct Happened {
    counts: Counters,
    seconds: f64,
}

impl Happened {
    fn between(earlier: &Answer, now: &Answer) -> Self {
        let (a, b) = (&earlier.counters, &now.counters);
        let counts = Counters {
            transactions: b.transactions.saturating_sub(a.transactions),
            commits: b.commits.saturating_sub(a.commits),
            aborts: b.aborts.saturating_sub(a.aborts),
            operations: b.operations.saturating_sub(a.operations),
            frames: b.frames.saturating_sub(a.frames),
            grants: b.grants.saturating_sub(a.grants),
            waits: b.waits.saturating_sub(a.waits),
        };
        Happened { counts, seconds: (now.now_us - earlier.now_us) as f64 / 1e6 }
    }

    fn rates(&self) -> Rates {
        let mut sum = Sum::default();
        sum.add(Some(self));
        sum.rates()
    }
}

/// Rates of several nodes, added up.
#[derive(Default)]
struct Sum {
    /// In the order of the fields of [`Counters`].
    rates: [f64; 7],
    is_any: bool,
}

impl Sum {
    fn add(&mut self, happened: Option<&Happened>) {
        let Some(Happened { counts, seconds }) = happened else { return };
        let Counters { transactions, commits, aborts, operations, frames, grants, waits } = *counts;
        let counts = [transactions, commits, aborts, operations, frames, grants, waits];
        for (rate, count) in self.rates.iter_mut().zip(counts) {
            *rate += count as f64 / seconds;
        }
        self.is_any = true;
    }

    fn rates(&self) -> Rates {
        let [transactions, commits, aborts, operations, frames, grants, waits] = self.rates;
        let rate = |rate: f64| self.is_any.then(|| rounded(rate));
        Rates {
            transactions_per_second: rate(transactions),
            commits_per_second: rate(commits),
            aborts_per_second: rate(aborts),
            operations_per_second: rate(operations),
            frames_per_second: rate(frames),
            operations_per_frame: (frames > 0.0).then(|| rounded(operations / frames)),
            grants_per_second: rate(grants),
            waits_per_second: rate(waits),
        }
    }
}

impl Shard {
    fn missing(node: &str, error: &str) -> Shard {
        Shard {
            node: node.to_owned(),
            error: Some(error.to_owned()),
            not_served: None,
            shard: None,
            incarnation: None,
            rates: Rates::default(),
            open_attempts: None,
            held_keys: None,
            looked_at: None,
            hidden_keys: None,
        }
    }

    fn of(node: &str, answer: &Answer, happened: Option<&Happened>) -> Shard {
        Shard {
            node: node.to_owned(),
            error: None,
            not_served: answer.not_served.clone(),
            shard: Some(answer.shard),
            incarnation: Some(answer.incarnation),
            rates: happened.map(Happened::rates).unwrap_or_default(),
            open_attempts: Some(answer.open_attempts),
            held_keys: Some(answer.held_keys),
            looked_at: Some(answer.looked_at),
            hidden_keys: Some(answer.hidden),
        }
    }
}

impl Cluster {
    fn add(&mut self, answer: &Answer) {
        self.answered += 1;
        self.serving += u64::from(answer.not_served.is_none());
        self.open_attempts += answer.open_attempts;
        self.held_keys += answer.held_keys;
        self.hidden_keys += answer.hidden;
    }
}

/// To three digits behind the point: more are noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, Instant};

    use super::super::answer::{Behind, Waited};
    use super::*;

    fn attempt(name: &str) -> Attempt {
        Attempt {
            attempt: name.to_owned(),
            has_voted: false,
            user: "shop".into(),
            client: "3".into(),
            address: "10.0.0.9:4000".into(),
        }
    }

    pub(crate) fn key(name: &str, total: u64, waited_us: u64) -> Key {
        let behind =
            Behind { waiter: attempt("5.1/1"), method: "GET".into(), holder: Some(attempt("4.1/1")) };
        Key {
            key: name.to_owned(),
            kind: Some("set".into()),
            waits: vec![Waited { method: "SADD".into(), recent: total, total }],
            held: vec![("add".into(), 3)],
            wanted: vec![("read-all".into(), 1)],
            holders: 3,
            waiters: 1,
            waited_us,
            behind: vec![behind],
            ..Key::default()
        }
    }

    pub(crate) fn answer(now_us: u64, count: u64, keys: Vec<Key>) -> Answer {
        let counters = Counters {
            transactions: count,
            commits: 2 * count,
            aborts: 0,
            operations: 4 * count,
            frames: count,
            grants: 3 * count,
            waits: count,
        };
        Answer { shard: 1, incarnation: 9, now_us, counters, held_keys: 2, keys, ..Answer::default() }
    }

    pub(crate) fn reading(at: Instant, answers: Vec<Result<Answer, String>>) -> Reading {
        let node = |(at, answer)| NodeReading { node: format!("10.0.0.{at}:7000"), answer };
        Reading { at, nodes: answers.into_iter().enumerate().map(node).collect() }
    }

    #[test]
    fn rates_are_by_each_nodes_clock_and_added_up() {
        let began = Instant::now();
        let before = reading(began, vec![Ok(answer(0, 0, vec![])), Ok(answer(5_000_000, 1_000, vec![]))]);
        let later = vec![Ok(answer(1_000_000, 100, vec![])), Ok(answer(7_000_000, 2_000, vec![]))];
        let now = reading(began + Duration::from_secs(1), later);
        let report = Report::between("s", Some(&before), &now, (16, 16));
        let rates = [0, 1].map(|at| report.shards[at].rates.transactions_per_second);
        assert_eq!(rates, [Some(100.0), Some(500.0)]);
        let Cluster { rates, held_keys, answered, .. } = report.cluster;
        assert_eq!((rates.transactions_per_second, rates.commits_per_second), (Some(600.0), Some(1200.0)));
        assert_eq!((rates.operations_per_frame, held_keys, answered), (Some(4.0), 4, 2));
        assert_eq!(report.seconds, Some(1.0));
        let first = Report::between("s", None, &before, (16, 16));
        assert_eq!((first.cluster.rates, first.seconds), (Rates::default(), None));
    }

    #[test]
    fn a_node_that_is_down_is_named_and_one_that_began_anew_has_no_rates() {
        let began = Instant::now();
        let before = reading(began, vec![Ok(answer(9_000, 5, vec![])), Ok(answer(0, 0, vec![]))]);
        let anew = Answer { incarnation: 10, ..answer(10_000, 6, vec![]) };
        let now = reading(began, vec![Ok(anew), Err("down".into())]);
        let report = Report::between("s", Some(&before), &now, (16, 16));
        assert_eq!((report.cluster.shards, report.cluster.answered), (2, 1));
        assert_eq!(report.shards[0].rates, Rates::default());
        assert_eq!(report.shards[1].error.as_deref(), Some("down"));
        // And so has one whose clock went back.
        let back = reading(began, vec![Ok(answer(8_000, 7, vec![]))]);
        assert_eq!(Report::between("s", Some(&before), &back, (16, 16)).cluster.rates, Rates::default());
    }

    #[test]
    fn keys_come_by_their_rate_and_waits_by_their_age() {
        let began = Instant::now();
        let before = reading(began, vec![Ok(answer(0, 0, vec![key("a", 10, 5), key("b", 90, 6)]))]);
        let keys = vec![key("b", 91, 7_000), key("a", 30, 5_000), key("new", 4, 9_000)];
        let now = reading(began, vec![Ok(answer(2_000_000, 0, keys))]);
        let report = Report::between("s", Some(&before), &now, (16, 16));
        let rates: Vec<_> = report.keys.iter().map(|it| (&*it.key, it.waits_per_second)).collect();
        assert_eq!(rates, [("a", Some(10.0)), ("new", Some(2.0)), ("b", Some(0.5))]);
        let waits: Vec<_> = report.waits.iter().map(|it| (&*it.key, it.waited_ms)).collect();
        assert_eq!(waits, [("new", 9.0), ("b", 7.0), ("a", 5.0)]);
        // One that may have been there before, beyond those that were asked for: nobody knows.
        let report = Report::between("s", Some(&before), &now, (16, 2));
        assert_eq!(report.keys.iter().find(|it| it.key == "new").and_then(|it| it.waits_per_second), None);
    }

    #[test]
    fn as_many_are_shown_as_are_wanted_and_those_waited_for_longest_are_not_left_out() {
        let keys = (0..9).map(|at| key(&format!("k{at}"), 100 - at, 1_000 * (at + 1))).collect();
        let now = reading(Instant::now(), vec![Ok(answer(1, 1, keys))]);
        let report = Report::between("s", None, &now, (2, 64));
        assert_eq!(report.keys.iter().map(|it| &*it.key).collect::<Vec<_>>(), ["k0", "k1", "k7", "k8"]);
        assert_eq!(report.waits.iter().map(|it| &*it.key).collect::<Vec<_>>(), ["k8", "k7"]);
    }

    /// `docs/operations.md` names these.
    #[test]
    fn the_form_of_the_json_stays() {
        let now = reading(Instant::now(), vec![Ok(answer(1, 1, vec![key("k", 1, 1)])), Err("down".into())]);
        let json = serde_json::to_value(Report::between("s", None, &now, (16, 16))).expect("JSON");
        let names = |value: &serde_json::Value| {
            let mut names: Vec<_> = value.as_object().expect("an object").keys().cloned().collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(names(&json), "cluster keys seconds shards store version waits");
        let rates = "aborts_per_second answered commits_per_second frames_per_second grants_per_second held_keys hidden_keys \
                     open_attempts operations_per_frame operations_per_second serving shards transactions_per_second \
                     waits_per_second";
        assert_eq!(names(&json["cluster"]), rates);
        let shard = "aborts_per_second commits_per_second error frames_per_second grants_per_second held_keys hidden_keys \
                     incarnation looked_at node not_served open_attempts operations_per_frame operations_per_second shard \
                     transactions_per_second waits_per_second";
        assert_eq!([0, 1].map(|at| names(&json["shards"][at])), [shard; 2]);
        let key = "held holders in_line joined key node operations recent_waits type waited_ms waiters waits_per_second wanted";
        assert_eq!(names(&json["keys"][0]), key);
        assert_eq!(names(&json["keys"][0]["operations"][0]), "operation recent_waits waits_per_second");
        assert_eq!(names(&json["keys"][0]["held"][0]), "claims mode");
        assert_eq!(names(&json["waits"][0]), "holder key node operation waited_ms waiter");
        assert_eq!(names(&json["waits"][0]["holder"]), "address attempt client has_voted user");
    }
}
