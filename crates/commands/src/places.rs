//! Searches for places whose result is written to another key: `GEOSEARCHSTORE`, and `GEORADIUS` and its kin by `STORE` and
//! `STOREDIST`. The server of the places searches (A31), and the result is written as a sorted set.

use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes, Command, Few, KeyspaceOp, Reply, ScoredSetOp};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, any, scored};
use crate::words::{Words, is, number};

/// What the server of the places is asked, and where its answer goes.
struct Search<'a> {
    source: &'a Bytes,
    /// The command, without what says where the result goes.
    words: Vec<Bytes>,
    target: Option<&'a Bytes>,
    /// The scores are distances; otherwise places.
    distances: bool,
}

/// `GEOSEARCHSTORE target source ...`.
pub(crate) async fn geosearchstore(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([target, source], rest) = words.split_before(5)?;
    let mut asked: Vec<Bytes> = vec!["GEOSEARCH".into(), source.clone()];
    asked.extend(rest.iter().filter(|word| !is(word, "STOREDIST")).cloned());
    if let Some(word) = rest.iter().find(|word| is_shown(word)) {
        return Err(Fault::told(format!(
            "ERR syntax error: GEOSEARCHSTORE answers how many, without {word}"
        )));
    }
    let distances = rest.iter().any(|word| is(word, "STOREDIST"));
    Search { source, words: asked, target: Some(target), distances }.run(steps).await
}

/// `GEORADIUS source ...` and `GEORADIUSBYMEMBER source ...`.
pub(crate) async fn georadius(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([source], _) = words.split()?;
    let mut search = Search {
        source,
        words: vec![Bytes::from(format!("{}_RO", words.name))],
        target: None,
        distances: false,
    };
    let mut rest = words.rest.iter();
    while let Some(word) = rest.next() {
        let is_distance = is(word, "STOREDIST");
        if search.words.len() > FIXED && (is_distance || is(word, "STORE")) {
            search.target = Some(rest.next().ok_or_else(Fault::syntax)?);
            search.distances = is_distance;
        } else {
            search.words.push(word.clone());
        }
    }
    if search.target.is_some() && search.words.iter().skip(FIXED).any(is_shown) {
        return Err(Fault::told(format!(
            "ERR STORE option in {} is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            words.name
        )));
    }
    search.run(steps).await
}

/// The command, the source, and a member, a radius and its unit: no options.
const FIXED: usize = 4;

fn is_shown(word: &Bytes) -> bool {
    ["WITHDIST", "WITHHASH", "WITHCOORD"].into_iter().any(|option| is(word, option))
}

impl Search<'_> {
    async fn run(mut self, steps: Steps<'_>) -> Answered {
        let Some(target) = self.target else {
            return Ok(Answer::from(self.ask(steps).await?));
        };
        self.words.push(if self.distances { "WITHDIST" } else { "WITHHASH" }.into());
        let Reply::Array(found) = self.ask(steps).await? else {
            return Err(Fault::told("ERR the server's answer to a search for places is not understood"));
        };
        let found = found.into_iter().map(member_and_score).collect::<Result<Few<_>, _>>()?;
        let count = found.len();
        let made = (count > 0).then(|| scored(ScoredSetOp::Add(found)));
        match made {
            Some(added) if is_planted(Bug::PlacesAdded) => steps.write(target, added)?,
            made => steps.replace(target, made)?,
        }
        Ok(Answer::count(count))
    }

    async fn ask(&self, steps: Steps<'_>) -> Result<Reply, Fault> {
        let asked = any(KeyspaceOp::Ask(Command::new(Access::Read, &self.words)));
        let is_written = self.target == Some(self.source);
        steps.read_of(self.source, asked.tried(), is_written.then_some(self.source)).await
    }
}

/// `[member, score]`, of which the score is an integer or text.
fn member_and_score(found: Reply) -> Result<(Bytes, f64), Fault> {
    let pair = match found {
        Reply::Array(pair) => <[Reply; 2]>::try_from(pair).ok(),
        _ => None,
    };
    let read = match pair {
        Some([Reply::Bytes(member), Reply::Int(score)]) => Some((member, score as f64)),
        Some([Reply::Bytes(member), Reply::Bytes(score)]) => number(&score).map(|score| (member, score)),
        _ => None,
    };
    read.ok_or_else(|| Fault::told("ERR the server's answer to a search for places is not understood"))
}
