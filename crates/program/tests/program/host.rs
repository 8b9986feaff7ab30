//! A host for runs: a few commands on a map of strings, and answers as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use claret_program::{Answer, Failure, Limits, Pause, Program, Run, Start};

/// The bounds that tests run with.
pub(crate) const LIMITS: Limits = Limits { steps: 20_000_000, bytes: 64 << 20, depth: 10_000 };

/// A map of strings.
#[derive(Debug, Default)]
pub(crate) struct Host {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Host {
    /// What a server would answer.
    pub(crate) fn answer(&mut self, words: &[Vec<u8>]) -> Answer {
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let wrong = || Answer::Error(b"ERR Wrong number of args calling Redis command from script".to_vec());
        match (name.as_slice(), &words[1.min(words.len())..]) {
            (b"get", [key]) => self.map.get(key).map_or(Answer::Nil, |value| Answer::Bulk(value.clone())),
            (b"set", [key, value]) => {
                self.map.insert(key.clone(), value.clone());
                Answer::Status(b"OK".to_vec())
            }
            (b"incr", [key]) => {
                let value = self
                    .map
                    .get(key)
                    .map_or(Some(0), |value| std::str::from_utf8(value).ok()?.parse::<i64>().ok());
                let Some(value) = value.and_then(|value| value.checked_add(1)) else {
                    return Answer::Error(b"ERR value is not an integer or out of range".to_vec());
                };
                self.map.insert(key.clone(), value.to_string().into_bytes());
                Answer::Int(value)
            }
            (b"del", [key]) => Answer::Int(i64::from(self.map.remove(key).is_some())),
            (b"mget", keys @ [_, ..]) => Answer::Array(
                keys.iter()
                    .map(|key| self.map.get(key).map_or(Answer::Nil, |value| Answer::Bulk(value.clone())))
                    .collect(),
            ),
            (b"get" | b"set" | b"incr" | b"del" | b"mget", _) => wrong(),
            _ => Answer::Error(b"ERR Unknown Redis command called from script".to_vec()),
        }
    }

    /// Runs a script to its end, some steps at a time.
    pub(crate) fn run(&mut self, run: &mut Run, steps: u64) -> Result<Answer, Failure> {
        loop {
            match run.resume(steps) {
                Pause::Rested => {}
                Pause::Call(call) => {
                    let answer = self.answer(&call.words);
                    run.answered(answer);
                }
                Pause::Done(answer) => return Ok(answer),
                Pause::Failed(failure) => return Err(failure),
            }
        }
    }
}

/// A run of a script.
pub(crate) fn started(script: &str, limits: Limits) -> Run {
    let program = Program::compile(script.as_bytes()).unwrap_or_else(|error| panic!("{script}: {error}"));
    let (keys, args) = (vec![b"k1".to_vec()], vec![b"a1".to_vec()]);
    Run::new(Arc::new(program), Start { keys, args, limits, seed: 0 })
}

/// What a script answers, as text.
pub(crate) fn evaluated(script: &str) -> String {
    evaluated_with(script, LIMITS, 1_000_000)
}

/// What a script answers with other bounds, and so many steps at a time.
pub(crate) fn evaluated_with(script: &str, limits: Limits, steps: u64) -> String {
    match Program::compile(script.as_bytes()) {
        Err(error) => format!("(compile) {error}"),
        Ok(program) => {
            let (keys, args) = (vec![b"k1".to_vec()], vec![b"a1".to_vec()]);
            let start = Start { keys, args, limits, seed: 0 };
            match Host::default().run(&mut Run::new(Arc::new(program), start), steps) {
                Ok(answer) => shown(&answer),
                Err(failure) => format!("-{}", failure.message),
            }
        }
    }
}

/// An answer as text.
pub(crate) fn shown(answer: &Answer) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match answer {
        Answer::Nil | Answer::Null3 => "nil".into(),
        Answer::Int(number) => number.to_string(),
        Answer::Status(status) => format!("+{}", text(status)),
        Answer::Error(error) => format!("-{}", text(error)),
        Answer::Bulk(bytes) => format!("\"{}\"", text(bytes)),
        Answer::Array(answers) | Answer::Set(answers) => {
            format!("[{}]", answers.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        Answer::Map(pairs) => {
            let parts: Vec<String> =
                pairs.iter().flat_map(|(key, value)| [shown(key), shown(value)]).collect();
            format!("[{}]", parts.join(" "))
        }
        Answer::Double(number) => format!("\"{number}\""),
        Answer::Bool(bool) => u8::from(*bool).to_string(),
        Answer::BigNumber(bytes) | Answer::Verbatim { text: bytes, .. } => format!("\"{}\"", text(bytes)),
        Answer::Later(ticket) => format!("later {ticket}"),
    }
}
