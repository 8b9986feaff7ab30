//! `LCS`: the longest common subsequence of two strings.

use claret_types::{Bytes, OpError, RegisterOp, Reply};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, text};
use crate::words::{Words, int, is};

/// The most memory that the table may take: strings of 4,096 bytes each.
const TABLE_BYTES_MAX: u64 = 65 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Options {
    length: bool,
    matches: bool,
    with_lengths: bool,
    shortest: i64,
}

impl Options {
    fn of(words: &[Bytes]) -> Result<Self, Fault> {
        let mut options = Options::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if is(word, "IDX") {
                options.matches = true;
            } else if is(word, "LEN") {
                options.length = true;
            } else if is(word, "WITHMATCHLEN") {
                options.with_lengths = true;
            } else if is(word, "MINMATCHLEN") {
                options.shortest = int(rest.next().ok_or_else(Fault::syntax)?)?.max(0);
            } else {
                return Err(Fault::syntax());
            }
        }
        if options.length && options.matches {
            return Err(Fault::told("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }

    /// What is asked for of these.
    fn answer(self, a: &[u8], b: &[u8]) -> Answer {
        let table = Table::of(a, b);
        let length = Answer::count(table.length(a.len(), b.len()));
        if self.length {
            return length;
        }
        let (common, matches) = table.walk(a, b);
        if !self.matches {
            return Answer::text(common);
        }
        let long_enough = matches.into_iter().filter(|it| it.length() as i64 >= self.shortest);
        let matches = long_enough.map(|it| it.answer(self.with_lengths)).collect();
        Answer::Map(vec![Answer::text("matches"), Answer::Array(matches), Answer::text("len"), length])
    }
}

pub(crate) async fn lcs(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([first, second], options) = words.split()?;
    let keys = [first.clone(), second.clone()];
    let mut texts = Vec::with_capacity(2);
    for reply in steps.read_each(&keys, &text(RegisterOp::Get).tried(), None).await? {
        if matches!(&reply, Reply::Failed(error) if matches!(**error, OpError::WrongType { .. })) {
            return Err(Fault::told("ERR The specified keys must contain string values"));
        }
        texts.push(steps.taken::<Option<Bytes>>(reply).await?.unwrap_or_default());
    }
    let options = Options::of(options)?;
    let (a, b) = (texts[0].clone(), texts[1].clone());
    let cells = (a.len() as u64 + 1) * (b.len() as u64 + 1);
    if cells * size_of::<u32>() as u64 > TABLE_BYTES_MAX {
        return Err(Fault::told(
            "ERR Insufficient memory, transient memory for LCS in a transaction exceeds 65 MiB: ask for it alone, with keys of one slot",
        ));
    }
    let bytes = cells as usize * size_of::<u32>();
    steps.runner.take(bytes)?;
    Ok(steps.runner.aside(bytes, move || options.answer(&a, &b)).await)
}

/// What is the same in both, from and to, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

impl Match {
    fn length(self) -> usize {
        self.a.1 - self.a.0 + 1
    }

    fn answer(self, with_length: bool) -> Answer {
        let range = |(from, to)| Answer::Array(vec![Answer::count(from), Answer::count(to)]);
        let mut parts = vec![range(self.a), range(self.b)];
        parts.extend(with_length.then(|| Answer::count(self.length())));
        Answer::Array(parts)
    }
}

/// How long the longest common subsequence of each two beginnings is.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn of(a: &[u8], b: &[u8]) -> Self {
        let width = b.len() + 1;
        let mut table = Table { lengths: vec![0; (a.len() + 1) * width], width };
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table.lengths[i * width + j] = if a[i - 1] == b[j - 1] {
                    table.lengths[(i - 1) * width + j - 1] + 1
                } else {
                    table.lengths[(i - 1) * width + j].max(table.lengths[i * width + j - 1])
                };
            }
        }
        table
    }

    fn length(&self, i: usize, j: usize) -> usize {
        self.lengths[i * self.width + j] as usize
    }

    /// The subsequence, and where it is in both: from the end, as servers find it.
    fn walk(&self, a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Match>) {
        let (mut i, mut j) = (a.len(), b.len());
        let (mut common, mut matches) = (Vec::new(), Vec::new());
        let mut open: Option<Match> = None;
        while i > 0 && j > 0 {
            if a[i - 1] != b[j - 1] {
                if self.length(i - 1, j) > self.length(i, j - 1) {
                    i -= 1
                } else {
                    j -= 1
                }
                matches.extend(open.take());
                continue;
            }
            common.push(a[i - 1]);
            (i, j) = (i - 1, j - 1);
            match &mut open {
                Some(it) if it.a.0 == i + 1 && it.b.0 == j + 1 => (it.a.0, it.b.0) = (i, j),
                _ => matches.extend(open.replace(Match { a: (i, i), b: (j, j) })),
            }
        }
        matches.extend(open);
        common.reverse();
        (common, matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_servers_documentation() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        let table = Table::of(a, b);
        let (common, matches) = table.walk(a, b);
        assert_eq!(common, b"mytext");
        assert_eq!(matches, [Match { a: (4, 7), b: (5, 8) }, Match { a: (2, 3), b: (0, 1) }]);
    }
}
