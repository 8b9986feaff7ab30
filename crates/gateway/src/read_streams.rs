//! `XREAD` and `XREADGROUP` of streams in several slots (G16 of docs/gateway.md).
//!
//! What is there is read in one transaction. If there is nothing, and the command says `BLOCK`, it waits at the nodes, with a connection for
//! each slot. Who has an answer first ends the others; what a group was given by then is answered as well.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes as Word, BytesMut};
use claret_commands::{Answer, Command, named};
use claret_planted::{Bug, is_planted};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::fault::Fault;
use crate::passthrough::{ask_apart, ask_beside};
use crate::resp::Protocol;
use crate::session::{Nodes, Session};
use crate::waits::{Ending, Unblock, WaitsAt};

/// A command waits in so many slots, each of which costs a connection.
const SLOTS_MAX: usize = 64;

/// So long those that are ended have to answer.
const ENDING: Duration = Duration::from_secs(1);

/// The wait in one slot, and where it is.
type Waiting<'a> = (Pin<Box<dyn Future<Output = Result<Word, Fault>> + 'a>>, &'a Place);

type Place = Mutex<Option<WaitsAt>>;

impl Client {
    /// Such a command.
    pub(crate) async fn read_streams(
        &mut self,
        session: &Session,
        command: &'static Command,
        words: &[Word],
    ) -> Result<Answer, Fault> {
        let block = Block::of(command, words)?;
        let protocol = self.state.protocol;
        let began = Instant::now();
        let found = self.stepped(session, command, words).await?;
        let (Some(block), Answer::Nil | Answer::NilArray) = (block, &found) else {
            return Ok(shaped(found, protocol));
        };
        let Some(nodes) = session.nodes() else {
            let time =
                (block.ms > 0).then(|| Duration::from_millis(block.ms).saturating_sub(began.elapsed()));
            return Box::pin(self.wait_here(session, command, words, time)).await;
        };
        let parts = block.parts(command, words, began.elapsed());
        if parts.len() > SLOTS_MAX {
            return Err(Fault::told(format!(
                "ERR streams in over {SLOTS_MAX} slots are waited for: use several commands"
            )));
        }
        let (entry, unblock) = (Arc::clone(&self.entry), Arc::new(Unblock::default()));
        let places: Vec<Place> = parts.iter().map(|_| Place::default()).collect();
        let note = async |own: &Place, at: Option<WaitsAt>| {
            *own.lock().await = at;
            if places.iter().all(|place| place.try_lock().is_ok_and(|at| at.is_some())) {
                entry.waits_at(Some(WaitsAt::Here(Arc::clone(&unblock)))).await;
            }
        };
        let note = &note;
        let mut waiting: Vec<Waiting<'_>> = Vec::with_capacity(parts.len());
        for ((slot, words), place) in parts.iter().zip(&places) {
            let waits_at = async move |at| note(place, at).await;
            let work =
                async move { ask_apart(nodes, protocol, command, Some(*slot), words, &waits_at).await };
            waiting.push((Box::pin(work), place));
        }
        let first = async {
            tokio::select! {
                biased;
                answer = first_of(&mut waiting) => Ok(answer),
                how = unblock.told() => Err(how),
            }
        };
        let Some(ended) = self.unless_gone(first).await else {
            return Err(Fault::told("ERR the client is gone"));
        };
        let mut answers = Vec::from_iter(ended.as_ref().ok().cloned());
        for one in &mut waiting {
            // What does not end is away: its connection is closed.
            answers.extend(tokio::time::timeout(ENDING, end(nodes, protocol, one)).await);
        }
        entry.waits_at(None).await;
        match ended {
            Err(Ending::Error) if answers.iter().all(|answer| !has_entries(answer)) => Ok(unblocked()),
            Err(_) => joined(answers, protocol, true),
            Ok(_) => joined(answers, protocol, false),
        }
    }

    /// The same of streams of this process: after each transaction of its clients those who wait look again.
    async fn wait_here(
        &mut self,
        session: &Session,
        command: &'static Command,
        words: &[Word],
        time: Option<Duration>,
    ) -> Result<Answer, Fault> {
        let until = time.map(|time| Instant::now() + time);
        let (shared, entry, unblock) =
            (Rc::clone(&self.shared), Arc::clone(&self.entry), Arc::new(Unblock::default()));
        entry.waits_at(Some(WaitsAt::Here(Arc::clone(&unblock)))).await;
        let mut words = words.to_vec();
        self.fix_last_ids(session, command, &mut words).await?;
        let answer = loop {
            let mut over = pin!(shared.here.over.notified());
            over.as_mut().enable();
            let found = self.stepped(session, command, &words).await;
            if !matches!(found, Ok(Answer::Nil | Answer::NilArray)) {
                break found;
            }
            let wait = async {
                tokio::select! {
                    biased;
                    how = unblock.told() => Some(how),
                    () = over => None,
                    () = passed(until) => Some(Ending::Timeout),
                }
            };
            match self.unless_gone(wait).await {
                None => break Err(Fault::told("ERR the client is gone")),
                Some(None) => {}
                Some(Some(Ending::Timeout)) => break Ok(Answer::NilArray),
                Some(Some(Ending::Error)) => break Ok(unblocked()),
            }
        };
        entry.waits_at(None).await;
        answer.map(|answer| shaped(answer, self.state.protocol))
    }

    /// Whoever waits for what comes behind the last entry (`$`) means that of now.
    async fn fix_last_ids(
        &mut self,
        session: &Session,
        command: &'static Command,
        words: &mut [Word],
    ) -> Result<(), Fault> {
        let places: Vec<usize> = command.keys.of(words).into_iter().flatten().collect();
        let about = named(b"XINFO").expect("it is in the table");
        for key in &places {
            let id = key + places.len();
            if &words[id][..] != b"$" {
                continue;
            }
            let asked = [Word::from("XINFO"), Word::from("STREAM"), words[*key].clone()];
            let last = match self.stepped(session, about, &asked).await {
                Ok(Answer::Array(told)) => last_id(told),
                _ => None, // There is none, or what is there is told when it is read.
            };
            words[id] = last.unwrap_or_else(|| Word::from("0-0"));
        }
        Ok(())
    }
}

fn last_id(told: Vec<Answer>) -> Option<Word> {
    let at = told.iter().position(|it| *it == Answer::text("last-generated-id"))?;
    match told.get(at + 1) {
        Some(Answer::Bulk(id)) => Some(Word::copy_from_slice(id)),
        _ => None,
    }
}

fn unblocked() -> Answer {
    Answer::error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
}

/// Until that time; for ever if there is none.
async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

/// How long a command waits, and where its words say so.
struct Block {
    at: usize,
    /// 0: for ever.
    ms: u64,
}

impl Block {
    fn of(command: &Command, words: &[Word]) -> Result<Option<Block>, Fault> {
        // Behind the names of a group and a consumer.
        let first = if command.writes { 4 } else { 1 };
        let keys = command.keys.of(words).ok().and_then(|mut places| places.next()).unwrap_or(words.len());
        let is_block = |word: &Word| word.eq_ignore_ascii_case(b"BLOCK");
        let Some(at) = words[..keys].iter().skip(first).position(is_block).map(|at| first + at) else {
            return Ok(None);
        };
        let number = words.get(at + 1).and_then(|word| std::str::from_utf8(word).ok()?.parse::<i64>().ok());
        let number = number.ok_or_else(|| Fault::told("ERR timeout is not an integer or out of range"))?;
        let ms = u64::try_from(number).map_err(|_| Fault::told("ERR timeout is negative"))?;
        Ok(Some(Block { at, ms }))
    }

    /// The command in each slot, with the time that is left.
    fn parts(&self, command: &Command, words: &[Word], passed: Duration) -> Vec<(u16, Vec<Word>)> {
        let places: Vec<usize> = command.keys.of(words).into_iter().flatten().collect();
        let Some(first) = places.first().copied() else { return Vec::new() };
        let left = match self.ms {
            0 => 0,
            ms => ms.saturating_sub(passed.as_millis() as u64).max(1),
        };
        let mut before = words[..first].to_vec();
        before[self.at + 1] = Word::from(left.to_string());
        let mut slots: Vec<(u16, Vec<usize>)> = Vec::new();
        for at in places.iter().copied() {
            let slot = claret_redis::slot_of(&words[at]);
            match slots.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, own)) => own.push(at),
                None => slots.push((slot, vec![at])),
            }
        }
        let of_slot = |(slot, own): (u16, Vec<usize>)| {
            let keys = own.iter().map(|at| words[*at].clone());
            let ids = own.iter().map(|at| words[*at + places.len()].clone());
            (slot, before.iter().cloned().chain(keys).chain(ids).collect())
        };
        slots.into_iter().map(of_slot).collect()
    }
}

/// The first answer. Who has given it waits no more.
async fn first_of(waiting: &mut Vec<Waiting<'_>>) -> Result<Word, String> {
    poll_fn(|cx| {
        for at in 0..waiting.len() {
            if let Poll::Ready(answer) = waiting[at].0.as_mut().poll(cx) {
                drop(waiting.swap_remove(at));
                return Poll::Ready(answer.map_err(|fault| fault.text()));
            }
        }
        Poll::Pending
    })
    .await
}

/// Has the node end a wait: what it answers.
async fn end(nodes: &Nodes, protocol: Protocol, (work, place): &mut Waiting<'_>) -> Result<Word, String> {
    loop {
        // Until it is at the node, or has its answer.
        let answer = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if place.try_lock().is_ok_and(|at| at.is_some()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(answer) = answer.await {
            return answer.map_err(|fault| fault.text());
        }
        // Its connection does nothing else until the node has been told.
        let told = async {
            let at = place.lock().await;
            if let Some(WaitsAt::Node(node, number)) = &*at {
                let number = number.to_string();
                let words = [&b"CLIENT"[..], b"UNBLOCK", number.as_bytes()];
                let _ = ask_beside(nodes, protocol, node, &words).await;
            }
        };
        let (answer, ()) = tokio::join!(
            async {
                let answered = poll_fn(|cx| work.as_mut().poll(cx));
                tokio::time::timeout(ENDING, answered).await.ok()
            },
            told
        );
        if let Some(answer) = answer {
            return answer.map_err(|fault| fault.text());
        }
    }
}

/// As `XREAD` answers in that protocol.
fn shaped(found: Answer, protocol: Protocol) -> Answer {
    match found {
        Answer::Array(all) if protocol == Protocol::Resp3 => {
            let flat = all.into_iter().flat_map(|one| match one {
                Answer::Array(pair) => pair,
                other => vec![other, Answer::Nil],
            });
            Answer::Map(flat.collect())
        }
        Answer::Nil => Answer::NilArray,
        other => other,
    }
}

/// Whether a node's answer has streams.
fn has_entries(answer: &Result<Word, String>) -> bool {
    answer.as_ref().is_ok_and(|answer| count_of(answer).is_some())
}

/// How many streams a node's answer has, and their bytes.
fn count_of(answer: &[u8]) -> Option<(usize, &[u8])> {
    let end = answer.windows(2).position(|two| two == b"\r\n")?;
    let count = std::str::from_utf8(answer.get(1..end)?).ok()?.parse().ok()?;
    matches!(answer.first(), Some(b'*' | b'%')).then_some((count, &answer[end + 2..]))
}

/// The streams of all answers. Without any: the first error, but for those of waits that were ended (`ended`: all were).
fn joined(answers: Vec<Result<Word, String>>, protocol: Protocol, ended: bool) -> Result<Answer, Fault> {
    let mut all = (0, BytesMut::new());
    for (count, bytes) in answers.iter().flatten().filter_map(|answer| count_of(answer)) {
        if all.0 > 0 && is_planted(Bug::OtherStreamsUnheard) {
            break;
        }
        all.0 += count;
        all.1.extend_from_slice(bytes);
    }
    if all.0 > 0 {
        let head = if protocol == Protocol::Resp3 { '%' } else { '*' };
        let mut out = BytesMut::from(format!("{head}{}\r\n", all.0).as_bytes());
        out.extend_from_slice(&all.1);
        return Ok(Answer::Raw(out.freeze()));
    }
    match answers.into_iter().next() {
        Some(Ok(error)) if !ended && error.starts_with(b"-") => Ok(Answer::Raw(error)),
        Some(Err(text)) if !ended => Err(Fault::told(text)),
        _ => Ok(Answer::NilArray),
    }
}

#[cfg(test)]
mod tests {
    use claret_commands::named;

    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(|word| Word::copy_from_slice(word.as_bytes())).collect()
    }

    #[test]
    fn a_command_waits_in_each_slot_with_its_own_streams() {
        let line = "XREADGROUP GROUP block BLOCK COUNT 2 BLOCK 500 NOACK STREAMS {a}1 b {a}2 > 0 >";
        let command = named(b"XREADGROUP").unwrap();
        let block = Block::of(command, &words(line)).unwrap().expect("it blocks");
        let parts = block.parts(command, &words(line), Duration::from_millis(100));
        let told: Vec<String> = parts
            .iter()
            .map(|(_, words)| {
                words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
            })
            .collect();
        let before = "XREADGROUP GROUP block BLOCK COUNT 2 BLOCK 400 NOACK STREAMS";
        assert_eq!(told, [format!("{before} {{a}}1 {{a}}2 > >"), format!("{before} b 0")]);
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        let command = named(b"XREAD").unwrap();
        let of = |line: &str| Block::of(command, &words(line)).map(|block| block.map(|block| block.ms));
        assert_eq!(of("XREAD BLOCK 0 STREAMS a b 0 0").unwrap(), Some(0));
        assert_eq!(of("XREAD STREAMS BLOCK b 0 0").unwrap(), None);
        for (line, told) in [
            ("XREAD BLOCK x STREAMS a b 0 0", "ERR timeout is not an integer or out of range"),
            ("XREAD BLOCK -1 STREAMS a b 0 0", "ERR timeout is negative"),
        ] {
            assert_eq!(of(line).unwrap_err().text(), told);
        }
    }

    #[test]
    fn the_answers_of_several_nodes_are_one() {
        let join = |answers: &[&str], ended| {
            let answers = answers.iter().map(|it| Ok(Word::copy_from_slice(it.as_bytes()))).collect();
            joined(answers, Protocol::Resp2, ended)
        };
        let raw = |text: &str| Answer::Raw(Word::copy_from_slice(text.as_bytes()));
        let (one, two) = ("*1\r\n*2\r\n+a\r\n*0\r\n", "*1\r\n*2\r\n+b\r\n*0\r\n");
        let both = raw("*2\r\n*2\r\n+a\r\n*0\r\n*2\r\n+b\r\n*0\r\n");
        assert_eq!(join(&[one, "*-1\r\n", two], false).unwrap(), both);
        assert_eq!(join(&["*-1\r\n", "$-1\r\n"], false).unwrap(), Answer::NilArray);
        let gone = "-NOGROUP no group\r\n";
        assert_eq!(join(&[gone, "*-1\r\n"], false).unwrap(), raw(gone));
        assert_eq!(join(&[gone, one], false).unwrap(), raw(one), "what a group was given is told");
    }
}
