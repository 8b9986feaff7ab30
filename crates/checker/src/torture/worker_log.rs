//! Files of histories, one for each generation: what clients tell is written there as it comes, and read again at the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::answers;
use crate::history::Entry;
use crate::journal::read_journal;

/// So many files are open at a time; transactions of earlier generations are rare.
const OPEN_MAX: usize = 4;

/// What a client tells of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Begun,
    Committed,
    Void,
    Unknown,
}

impl Told {
    pub(super) const ALL: [Told; 4] = [Told::Begun, Told::Committed, Told::Void, Told::Unknown];

    /// The word before its line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Told::Begun => "begun",
            Told::Committed => "committed",
            Told::Void => "void",
            Told::Unknown => "unknown",
        }
    }
}

/// How many transactions there were.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) begun: u64,
    pub(super) committed: u64,
    pub(super) unknown: u64,
    pub(super) void: u64,
    /// Answers to those who asked for an outcome.
    pub(super) told_committed: u64,
    pub(super) told_aborted: u64,
    /// By what the error said.
    pub(super) void_because: BTreeMap<String, u64>,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct WorkerLog {
    folder: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    open: BTreeMap<u64, BufWriter<File>>,
    /// Every generation that has a file.
    all: Vec<u64>,
    counts: Counts,
    /// By generation.
    told: BTreeMap<u64, Vec<answers::Told>>,
    failed: Option<String>,
}

impl WorkerLog {
    /// In this folder, which is made.
    pub(super) fn new(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("making '{}': {error}", folder.display()))?;
        Ok(WorkerLog { folder: folder.to_owned(), inner: Mutex::default() })
    }

    fn path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("generation-{generation:04}.jsonl"))
    }

    /// A transaction of a generation, as a client wrote it.
    pub(super) fn add(&self, told: Told, generation: u64, line: &str) {
        let mut inner = self.inner.lock().expect("nobody panics with it");
        let counts = &mut inner.counts;
        *match told {
            Told::Begun => &mut counts.begun,
            Told::Committed => &mut counts.committed,
            Told::Void => &mut counts.void,
            Told::Unknown => &mut counts.unknown,
        } += 1;
        if let Err(error) = self.write(&mut inner, generation, line) {
            inner.failed.get_or_insert(error);
        }
    }

    fn write(&self, inner: &mut Inner, generation: u64, line: &str) -> Result<(), String> {
        let path = self.path(generation);
        let failed = |error: std::io::Error| format!("writing '{}': {error}", path.display());
        let is_new = !inner.open.contains_key(&generation);
        if is_new
            && inner.open.len() >= OPEN_MAX
            && let Some((_, mut eldest)) = inner.open.pop_first()
        {
            eldest.flush().map_err(failed)?;
        }
        if is_new && !inner.all.contains(&generation) {
            inner.all.push(generation);
        }
        let file = match inner.open.entry(generation) {
            Slot::Occupied(open) => open.into_mut(),
            Slot::Vacant(free) => {
                let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
                free.insert(BufWriter::new(file))
            }
        };
        file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)
    }

    /// Why a transaction was not done.
    pub(super) fn note_void(&self, why: &str) {
        let mut inner = self.inner.lock().expect("nobody panics with it");
        *inner.counts.void_because.entry(why.to_owned()).or_default() += 1;
    }

    /// What a client was told of an outcome that it had asked for, as it wrote it.
    pub(super) fn note_told(&self, generation: u64, line: &str) {
        let mut inner = self.inner.lock().expect("nobody panics with it");
        match serde_json::from_str::<answers::Told>(line) {
            Ok(told) => {
                inner.counts.told_committed += u64::from(told.committed);
                inner.counts.told_aborted += u64::from(!told.committed);
                inner.told.entry(generation).or_default().push(told);
            }
            Err(error) => drop(inner.failed.get_or_insert(format!("'{line}': {error}"))),
        }
    }

    /// What clients were told of the outcomes in a generation.
    pub(super) fn told(&self, generation: u64) -> Vec<answers::Told> {
        self.inner.lock().expect("nobody panics with it").told.get(&generation).cloned().unwrap_or_default()
    }

    pub(super) fn counts(&self) -> Counts {
        self.inner.lock().expect("nobody panics with it").counts.clone()
    }

    /// All generations, once nobody writes any more.
    ///
    /// # Errors
    /// Something was not written.
    pub(super) fn end(&self) -> Result<Vec<u64>, String> {
        let mut inner = self.inner.lock().expect("nobody panics with it");
        for (generation, mut file) in std::mem::take(&mut inner.open) {
            file.flush().map_err(|error| format!("writing generation {generation}: {error}"))?;
        }
        let mut all = inner.all.clone();
        all.sort_unstable();
        inner.failed.take().map_or(Ok(all), Err)
    }

    /// What clients saw in a generation. One that was killed told of what it had begun.
    pub(super) fn read(&self, generation: u64) -> Result<Vec<Entry>, String> {
        let path = self.path(generation);
        let read = read_journal(&path).map_err(|error| format!("reading '{}': {error}", path.display()));
        read.map(|history| history.entries)
    }

    /// Writes something beside them, a JSON document.
    pub(super) fn keep(&self, name: &str, what: &impl serde::Serialize) -> Result<(), String> {
        let path = self.folder.join(name);
        let failed = |error: String| format!("writing '{}': {error}", path.display());
        let text = serde_json::to_vec(what).map_err(|error| failed(error.to_string()))?;
        fs::write(&path, text).map_err(|error| failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Outcome;

    #[test]
    fn nothing_is_left_out_when_many_generations_are_written_in_turn() {
        let folder = claret_rig::TestFolder::new();
        let worker_log = WorkerLog::new(folder.path()).expect("a folder");
        let entry = |client| Entry {
            client,
            began: 1,
            ended: 2,
            outcome: Outcome::Committed,
            plain: false,
            steps: Vec::new(),
        };
        for client in 0..3 {
            for generation in (0..9).rev() {
                let line = serde_json::to_string(&entry(client)).expect("numbers");
                worker_log.add(Told::Committed, generation, &line);
            }
        }
        assert_eq!(worker_log.end(), Ok((0..9).collect()));
        for generation in 0..9 {
            assert_eq!(worker_log.read(generation), Ok((0..3).map(entry).collect()), "{generation}");
        }
        assert_eq!(worker_log.counts().committed, 27);
    }
}
