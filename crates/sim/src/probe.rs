//! Records whose answers tell who was there before: unique elements, distinct powers of two, unique items
//! (`observed.rs`). This file makes their operations and reads their answers.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::Time;
use claret_types::{Bytes, Counter, CounterOp, End, Few, List, ListOp, Operation, Reply, Set, SetOp, State};

use crate::observed::{Act, Known, Observed};
use crate::random::Random;
use crate::run::{Issued, RunId, RunLog, Told};

/// What a probe record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    /// A set to which every element is added once.
    Elements,
    /// A counter to which every power of two is added once.
    Bits,
    /// A list to which every item is appended once.
    Items,
}

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Writes the element (of a counter: the bit), with or without an answer.
    Write {
        element: u64,
        returning: bool,
    },
    Read,
}

/// A counter has so many bits to give.
pub(crate) const BITS_MAX: u64 = 61;

impl ProbeKind {
    pub(crate) fn random(random: &mut Random) -> ProbeKind {
        *random.pick(&[ProbeKind::Elements, ProbeKind::Bits, ProbeKind::Items])
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            ProbeKind::Elements => "elements",
            ProbeKind::Bits => "bits",
            ProbeKind::Items => "items",
        }
    }

    /// The operation on a record of this kind.
    pub(crate) fn operation(self, probe: Probe) -> Operation {
        let text = |element: u64| Few::from_iter([Bytes::from(element.to_string())]);
        match (self, probe) {
            (ProbeKind::Elements, Probe::Read) => Operation::new::<Set>(SetOp::Members),
            (ProbeKind::Elements, Probe::Write { element, returning: false }) => {
                Operation::new::<Set>(SetOp::Add(text(element)))
            }
            (ProbeKind::Elements, Probe::Write { element, returning: true }) => {
                Operation::new::<Set>(SetOp::AddReturning(text(element)))
            }
            (ProbeKind::Bits, Probe::Read) => Operation::new::<Counter>(CounterOp::Get),
            (ProbeKind::Bits, Probe::Write { element, returning: false }) => {
                Operation::new::<Counter>(CounterOp::Add(1 << element))
            }
            (ProbeKind::Bits, Probe::Write { element, returning: true }) => {
                Operation::new::<Counter>(CounterOp::AddReturning(1 << element))
            }
            (ProbeKind::Items, Probe::Read) => Operation::new::<List>(ListOp::Range { start: 0, stop: -1 }),
            (ProbeKind::Items, Probe::Write { element, returning: false }) => {
                Operation::new::<List>(ListOp::Push(End::Back, text(element)))
            }
            (ProbeKind::Items, Probe::Write { element, returning: true }) => {
                Operation::new::<List>(ListOp::PushReturning(End::Back, text(element)))
            }
        }
    }

    /// What an operation and its answer show.
    fn acts(self, probe: Probe, reply: Option<&Reply>) -> Vec<Act> {
        let mut acts = Vec::new();
        if let Probe::Write { element, .. } = probe {
            acts.push(if self == ProbeKind::Items { Act::Append(element) } else { Act::Add(element) });
        }
        match (self, probe, reply) {
            // The new sum tells of everybody before, and of itself.
            (ProbeKind::Bits, _, Some(Reply::Int(sum))) => acts.push(Act::Read(bits(*sum))),
            (ProbeKind::Bits, Probe::Read, Some(_)) => acts.push(Act::Read(BTreeSet::new())),
            (ProbeKind::Elements, Probe::Read, Some(reply)) => {
                acts.push(Act::Read(numbers(reply).into_iter().collect()));
            }
            (ProbeKind::Items, Probe::Read, Some(reply)) => acts.push(Act::List(numbers(reply))),
            (_, _, _) => {}
        }
        acts
    }
}

fn bits(sum: i64) -> BTreeSet<u64> {
    (0..64).filter(|bit| sum as u64 >> bit & 1 == 1).collect()
}

/// The numbers in an array; what is none is none that anybody wrote.
fn numbers(reply: &Reply) -> Vec<u64> {
    let number = |reply: &Reply| match reply {
        Reply::Bytes(bytes) => bytes.as_str().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX),
        _ => u64::MAX,
    };
    match reply {
        Reply::Array(replies) => replies.iter().map(number).collect(),
        _ => Vec::new(),
    }
}

/// The history that users observed of these records; `ends` are those that vanished, each when that began and by when it was
/// over, and `contents` are the records at the end, if everything has come to
/// rest.
pub(crate) fn history<'a>(
    runs: &BTreeMap<RunId, RunLog>,
    kinds: &BTreeMap<Bytes, ProbeKind>,
    ends: impl Iterator<Item = (&'a Bytes, Time, Time)>,
    contents: Option<impl Iterator<Item = (&'a Bytes, &'a State)>>,
    is_replicated: bool,
) -> Vec<Observed> {
    let mut history = Vec::new();
    let mut later = runs.keys().skip(1);
    for (run, log) in runs {
        let is_last = later.next().is_none_or(|next| (next.session, next.tx) != (run.session, run.tx));
        let (mut acts, mut undone) = (Vec::new(), Vec::new());
        for (place, issued) in log.issued.iter().enumerate() {
            let (Some(probe), Some(kind)) = (issued.probe, kinds.get(&issued.key)) else { continue };
            // All runs of a transaction add one bit: whose it is shows with the last of them.
            if *kind == ProbeKind::Bits && log.told == Told::Void && !is_last {
                continue;
            }
            // Before its end is known an attempt may see what is lost with its primary. Then it does not commit (S5).
            let is_seen = !is_replicated || log.told != Told::Nothing;
            let reply = issued.reply.as_ref().filter(|_| is_seen);
            for act in kind.acts(probe, reply) {
                let act = without(act, &written_and_undone(&log.issued, place));
                match (&act, issued.undone_at) {
                    (Act::Add(_) | Act::Append(_), Some(_)) => undone.push((issued.key.clone(), act)),
                    _ => acts.push((issued.key.clone(), act)),
                }
            }
        }
        if !undone.is_empty() {
            let name = format!("what {run} has undone");
            let known = Known::Void;
            history.push(Observed { name, began: log.began.0, known, acts: undone });
        }
        let known = match log.told {
            Told::Committed(at) => Known::Committed(at.0),
            Told::Void => Known::Void,
            Told::Nothing => Known::Unknown,
        };
        history.push(Observed { name: run.to_string(), began: log.began.0, known, acts });
    }
    for (key, began, over) in ends.filter(|(key, ..)| kinds.contains_key(*key)) {
        let (name, acts) = (format!("the end of '{key}'"), vec![(key.clone(), Act::End)]);
        history.push(Observed { name, began: began.0, known: Known::Committed(over.0), acts });
    }
    history.extend(contents.map(|contents| the_end(kinds, contents)));
    history
}

/// What a run has undone by now or later, and what its operation at a place sees all the same, on its record.
fn written_and_undone(issued: &[Issued], place: usize) -> BTreeSet<u64> {
    let seen = issued[..=place]
        .iter()
        .filter(|it| it.key == issued[place].key && it.undone_at.is_some_and(|until| until > place));
    let element = |it: &Issued| match it.probe {
        Some(Probe::Write { element, .. }) => Some(element),
        _ => None,
    };
    seen.filter_map(element).collect()
}

/// What a read shows without these.
fn without(act: Act, elements: &BTreeSet<u64>) -> Act {
    match act {
        Act::Read(seen) => Act::Read(seen.difference(elements).copied().collect()),
        Act::List(items) => Act::List(items.into_iter().filter(|item| !elements.contains(item)).collect()),
        other => other,
    }
}

/// Somebody who reads everything when all is over.
fn the_end<'a>(
    kinds: &BTreeMap<Bytes, ProbeKind>,
    contents: impl Iterator<Item = (&'a Bytes, &'a State)>,
) -> Observed {
    let contents: BTreeMap<&Bytes, &State> = contents.collect();
    let mut acts = Vec::new();
    for (key, kind) in kinds {
        let read = kind.operation(Probe::Read);
        let executed = read.execute(contents.get(key).copied(), claret_types::Unique(0));
        let reply = executed.ok().map(|executed| executed.reply);
        acts.extend(kind.acts(Probe::Read, reply.as_ref()).into_iter().map(|act| (key.clone(), act)));
    }
    Observed { name: "the end".to_owned(), began: u64::MAX - 1, known: Known::Committed(u64::MAX), acts }
}
