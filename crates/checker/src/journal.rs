//! A file in which a process records its transactions, so that its part of the history survives its death.
//!
//! Each transaction is written twice: before it begins, with what it is going to write, and again when its outcome is
//! known. One that has only its first entry may or may not have happened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use crate::history::{Entry, History};

/// A file of entries, one a line.
#[derive(Debug)]
pub(crate) struct Journal(Mutex<(File, Option<io::Error>)>);

impl Journal {
    /// Begins an empty one.
    ///
    /// # Errors
    /// The file's.
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        Ok(Journal(Mutex::new((File::create(path)?, None))))
    }

    /// Adds a line, in one piece.
    pub(super) fn write(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).expect("numbers and names");
        line.push(b'\n');
        let mut inner = self.0.lock().expect("nobody panics with it");
        let (file, failed) = &mut *inner;
        if let Err(error) = file.write_all(&line) {
            failed.get_or_insert(error);
        }
    }

    /// Whether everything is in it.
    ///
    /// # Errors
    /// The file's.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.0.lock().expect("nobody panics with it").1.take().map_or(Ok(()), Err)
    }
}

/// Reads what a process wrote. A last line that was cut off with its process says nothing: what it would have ended is
/// there as begun.
///
/// # Errors
/// The file's, and lines that are none.
pub(crate) fn read_journal(path: &Path) -> io::Result<History> {
    let text = fs::read_to_string(path)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut entries: BTreeMap<(u64, u64), Entry> = BTreeMap::new();
    for line in whole.lines() {
        let entry: Entry = serde_json::from_str(line)?;
        entries.insert((entry.client, entry.began), entry);
    }
    Ok(History { entries: entries.into_values().collect(), ..History::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Outcome, Step};

    #[test]
    fn what_was_begun_and_has_no_end_may_have_happened() {
        let path = std::env::temp_dir().join(format!("claret-journal-{}", std::process::id()));
        let journal = Journal::begin(&path).expect("a file");
        let entry = |client, ended, outcome| {
            let steps = vec![Step::Add("x".into(), client)];
            Entry { client, began: 1, ended, outcome, plain: false, steps }
        };
        let begun = [1, 2].map(|client| entry(client, u64::MAX, Outcome::Unknown));
        let done = entry(2, 9, Outcome::Committed);
        begun.iter().chain([&done]).for_each(|entry| journal.write(entry));
        journal.end().expect("written");
        let mut text = fs::read(&path).expect("there");
        text.extend(b"{\"client\":1,\"be");
        fs::write(&path, text).expect("written");
        let history = read_journal(&path);
        fs::remove_file(&path).expect("there");
        assert_eq!(history.expect("read").entries, [begun[0].clone(), done]);
    }
}
