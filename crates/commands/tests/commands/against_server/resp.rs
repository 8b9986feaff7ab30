//! Asking a server, and reading what it answers in either protocol.

use std::io::{Read, Write};
use std::net::TcpStream;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resp {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Option<Vec<u8>>),
    Array(Option<Vec<Resp>>),
    /// These are of RESP3.
    Null,
    Double(String),
    Map(Vec<Resp>),
    Set(Vec<Resp>),
}

impl Resp {
    /// Of these bytes, all of them.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (answer, rest) =
            read(bytes).unwrap_or_else(|| panic!("{:?} is no answer", bytes.escape_ascii().to_string()));
        assert!(rest.is_empty(), "{:?} is more than an answer", bytes.escape_ascii().to_string());
        answer
    }

    pub(super) fn text(&self) -> String {
        match self {
            Resp::Simple(text) | Resp::Error(text) => text.clone(),
            Resp::Int(number) => number.to_string(),
            Resp::Bulk(bytes) => {
                String::from_utf8(bytes.clone().unwrap_or_default()).expect("only text is drawn")
            }
            Resp::Double(text) => text.clone(),
            Resp::Null | Resp::Array(_) | Resp::Map(_) | Resp::Set(_) => String::new(),
        }
    }

    pub(super) fn elements(&self) -> &[Resp] {
        match self {
            Resp::Array(Some(all)) | Resp::Map(all) | Resp::Set(all) => all,
            _ => &[],
        }
    }

    /// What is in it, at whatever depth.
    pub(super) fn leaves(&self) -> Vec<&Resp> {
        match self {
            Resp::Array(Some(_)) | Resp::Map(_) | Resp::Set(_) => {
                self.elements().iter().flat_map(Resp::leaves).collect()
            }
            leaf => vec![leaf],
        }
    }

    /// The same float, as far as 64 bits go.
    pub(super) fn is_as_float(&self, other: &Resp) -> bool {
        let number = |it: &Resp| it.text().parse::<f64>().ok();
        number(self).zip(number(other)).is_some_and(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(1.0))
    }

    /// A number that differs by no more.
    pub(super) fn is_near(&self, other: &Resp, by: u64) -> bool {
        match (self, other) {
            (Resp::Int(a), Resp::Int(b)) => (*a < 0) == (*b < 0) && a.abs_diff(*b) <= by,
            _ => self == other,
        }
    }
}

fn read(bytes: &[u8]) -> Option<(Resp, &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (std::str::from_utf8(&bytes[1..end]).ok()?, &bytes[end + 2..]);
    let answer = match bytes[0] {
        b'+' => Resp::Simple(line.to_owned()),
        b'-' => Resp::Error(line.to_owned()),
        b':' => Resp::Int(line.parse().ok()?),
        b'$' => match line.parse::<i64>().ok()? {
            -1 => Resp::Bulk(None),
            length => {
                let length = length as usize;
                let bulk = rest.get(..length)?.to_vec();
                return Some((Resp::Bulk(Some(bulk)), rest.get(length + 2..)?));
            }
        },
        b'_' => Resp::Null,
        b',' => Resp::Double(line.to_owned()),
        b'*' if line == "-1" => Resp::Array(None),
        b'*' => return many(line, 1, rest).map(|(all, rest)| (Resp::Array(Some(all)), rest)),
        b'%' => return many(line, 2, rest).map(|(all, rest)| (Resp::Map(all), rest)),
        b'~' => return many(line, 1, rest).map(|(all, rest)| (Resp::Set(all), rest)),
        _ => return None,
    };
    Some((answer, rest))
}

fn many<'a>(count: &str, width: usize, mut rest: &'a [u8]) -> Option<(Vec<Resp>, &'a [u8])> {
    let mut all = Vec::new();
    for _ in 0..count.parse::<usize>().ok()? * width {
        let (one, after) = read(rest)?;
        all.push(one);
        rest = after;
    }
    Some((all, rest))
}

/// Sends a command and waits for its answer.
pub(super) fn ask(server: &mut TcpStream, words: &[String]) -> Resp {
    let mut sent = format!("*{}\r\n", words.len());
    for word in words {
        sent.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    server.write_all(sent.as_bytes()).expect("the server is there");
    let mut answer = Vec::new();
    let mut part = [0; 1 << 16];
    loop {
        let count = server.read(&mut part).expect("the server answers");
        assert!(count > 0, "the server hung up");
        answer.extend_from_slice(&part[..count]);
        if let Some((answer, [])) = read(&answer) {
            return answer;
        }
    }
}
