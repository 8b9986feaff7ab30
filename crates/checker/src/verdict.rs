//! Hands a finished history to all judges, and collects what they find.

use std::collections::{BTreeMap, BTreeSet};

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use claret_sim::observed::{Judged, judge};

use crate::history::{Entry, History, Outcome, Reason, Step, Why};
use crate::sums::judge_sums;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Transactions and edges that were looked at.
    pub(crate) judged: Judged,
    /// Transactions on lists that adya looked at.
    pub(crate) lists: usize,
    /// Violations, in words; none when all is well.
    pub(crate) anomalies: Vec<String>,
}

/// Judges a history.
pub(crate) fn judge_all(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    // What a client saw is lost with it: what others saw of that is no anomaly of its own.
    if let Some(broken) = &history.broken {
        verdict.anomalies.push(broken.clone());
        return verdict;
    }
    judge_orders(history, &mut verdict);
    verdict.anomalies.extend(judge_sums(history));
    verdict.anomalies.extend(judge_reasons(history));
    verdict
}

/// Judges what shows who came before whom: sets, counters, lists and registers; and lists alone by another judge.
pub(crate) fn judge_orders(history: &History, verdict: &mut Verdict) {
    match judge(&history.observed()) {
        Ok(judged) => verdict.judged = judged,
        Err(anomaly) => verdict.anomalies.push(anomaly),
    }
    let ended: BTreeSet<&str> = history.ends().into_keys().collect();
    let lists: Vec<Entry> = history.entries.iter().filter_map(|entry| of_lists(entry, &ended)).collect();
    verdict.lists = lists.len();
    verdict.anomalies.extend(ask_adya(&lists));
}

/// Whoever was refused something for a reason was so while there was that reason.
fn judge_reasons(history: &History) -> Option<String> {
    let ends = history.entries.iter().filter(|entry| entry.is_end());
    let first_end = ends.map(|entry| entry.began).min();
    let is_wrong = |entry: &&Entry| match entry.outcome {
        Outcome::Committed | Outcome::Unknown | Outcome::Void(Why::Later) => false,
        Outcome::Void(Why::Missing) => first_end.is_none_or(|began| entry.ended < began),
        Outcome::Void(why) => {
            let meets = |reason: &&Reason| reason.began <= entry.ended && entry.began <= reason.ended;
            history.reasons.iter().filter(|reason| reason.why == why).find(meets).is_none()
        }
    };
    let entry = history.entries.iter().find(is_wrong)?;
    Some(format!("client {} was refused a transaction ({:?}) without a reason", entry.client, entry.outcome))
}

/// The part of a transaction that is about lists which did not end: less is known of it, nothing wrong.
fn of_lists(entry: &Entry, ended: &BTreeSet<&str>) -> Option<Entry> {
    let is_of_lists = |step: &&Step| match step {
        Step::Append(key, _) | Step::List(key, _) => !ended.contains(key.as_str()),
        _ => false,
    };
    let steps: Vec<Step> = entry.steps.iter().filter(is_of_lists).cloned().collect();
    (!steps.is_empty()).then(|| Entry { steps, ..entry.clone() })
}

/// What adya says of a history that has no edges.
const NO_GRAPH: &str = "empty-transaction-graph";

/// Strict serializability, as adya finds it.
fn ask_adya(entries: &[Entry]) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let options = adya::Opts { models: vec!["strict-serializable".into()], ..adya::Opts::default() };
    let report = adya::check(&as_adya(entries), adya::Workload::ListAppend, &options);
    match report.valid {
        adya::Valid::True => None,
        // Nobody saw what another one wrote.
        adya::Valid::Unknown if report.anomaly_types.iter().all(|it| *it == NO_GRAPH) => None,
        adya::Valid::False | adya::Valid::Unknown => {
            Some(format!("adya: {}", report.anomaly_types.join(", ")))
        }
    }
}

fn as_adya(entries: &[Entry]) -> adya::History {
    let mut interner = Interner::default();
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(entries.len() * 2);
    for (at, entry) in entries.iter().enumerate() {
        events.push((entry.began, false, at));
        events.push((entry.ended, true, at));
    }
    // What ends and begins at one moment counts as concurrent.
    events.sort_unstable();
    // After an unknown end a client goes on under another name: whoever completes later is not that one.
    let mut lives: BTreeMap<u64, i64> = BTreeMap::new();
    let clients = entries.iter().map(|entry| entry.client).max().unwrap_or(0) as i64 + 1;
    let ops = events.into_iter().enumerate().map(|(index, (time, ended, at))| {
        let entry = &entries[at];
        let life = lives.entry(entry.client).or_default();
        let process = *life * clients + entry.client as i64;
        let kind = match (ended, entry.outcome) {
            (false, _) => OpType::Invoke,
            (true, Outcome::Committed) => OpType::Ok,
            (true, Outcome::Void(_)) => OpType::Fail,
            (true, Outcome::Unknown) => OpType::Info,
        };
        if kind == OpType::Info {
            *life += 1;
        }
        let value = entry.steps.iter().map(|step| micro(step, kind == OpType::Ok, &mut interner)).collect();
        Op { index: index as u64, kind, process: Some(process), value, time: Some(time as i64 * 1000) }
    });
    let ops: Vec<Op> = ops.collect();
    adya::History::from_ops(ops, interner)
}

fn micro(step: &Step, is_known: bool, interner: &mut Interner) -> Mop {
    let mut id = |scalar| interner.intern(scalar);
    match step {
        Step::Append(key, item) => {
            Mop::Append { key: id(Scalar::Str(key.clone())), value: id(Scalar::Int(*item as i64)) }
        }
        Step::List(key, items) => {
            let key = id(Scalar::Str(key.clone()));
            let items = items.iter().map(|item| id(Scalar::Int(*item as i64))).collect();
            Mop::Read { key, value: if is_known { ReadValue::List(items) } else { ReadValue::Nil } }
        }
        other => unreachable!("only steps on lists are shown to adya, not {other:?}"),
    }
}
