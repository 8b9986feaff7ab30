//! Scripts: where they may run, which are known, and what a call of one says (G15 of docs/gateway.md).

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use bytes::Bytes as Word;
use claret_commands::{Command, Library, Script, digest_of};
use claret_types::Bytes;
use lru::LruCache;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::fault::Fault;
use crate::request::arguments;

/// Where scripts run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptsMode {
    /// At the node of their keys, by its own Lua: all keys have to be declared and in one slot.
    Node,
    /// There if all keys are in one slot and are sure to be those that are declared, otherwise as a transaction in the gateway.
    #[default]
    Several,
    /// As a transaction in the gateway.
    All,
}

/// Scripts that are kept compiled take so many bytes at most, with their texts.
const KNOWN_BYTES_MAX: usize = 16 << 20;

/// Texts of so many bytes are compiled by another thread.
const COMPILED_AT_ONCE: usize = 2 << 10;

/// So many.
const KNOWN_MAX: usize = 10_000;

/// The libraries that there are count for so long; then it is asked again.
const LIBRARIES_KNOWN: Duration = Duration::from_millis(500);

/// The scripts that this gateway knows, those used last.
pub(crate) struct Scripts {
    known: RefCell<Known>,
    /// One long text is compiled at a time: that may take a thousand times its length.
    compiling: Semaphore,
    /// One asks at a time which libraries there are.
    listing: Semaphore,
}

struct Known {
    by_digest: LruCache<String, Script>,
    bytes: usize,
}

impl Default for Scripts {
    fn default() -> Self {
        let most = NonZeroUsize::new(KNOWN_MAX).unwrap_or(NonZeroUsize::MIN);
        let known = RefCell::new(Known { by_digest: LruCache::new(most), bytes: 0 });
        Scripts { known, compiling: Semaphore::new(1), listing: Semaphore::new(1) }
    }
}

impl Scripts {
    /// The one with this digest, if it is known.
    pub(crate) fn get(&self, digest: &str) -> Option<Script> {
        self.known.borrow_mut().by_digest.get(digest).cloned()
    }

    /// Compiles a text, unless it is known: a long one on another thread.
    pub(crate) async fn compiled(&self, text: &Bytes) -> Result<Script, Fault> {
        let digest = digest_of(text);
        if let Some(known) = self.get(&digest) {
            return Ok(known);
        }
        let script = match text.len() {
            0..COMPILED_AT_ONCE => Script::compile(text)?,
            _ => {
                let _turn = self.compiling.acquire().await;
                // Many may have come with it.
                if let Some(known) = self.get(&digest) {
                    return Ok(known);
                }
                let text = text.clone();
                let compiled = tokio::task::spawn_blocking(move || Script::compile(&text)).await;
                compiled.map_err(|_| Fault::told("ERR the script could not be compiled"))??
            }
        };
        let mut known = self.known.borrow_mut();
        known.bytes += script.bytes();
        if let Some((_, old)) = known.by_digest.push(digest, script.clone()) {
            known.bytes -= old.bytes();
        }
        while known.bytes > KNOWN_BYTES_MAX
            && let Some((_, old)) = known.by_digest.pop_lru()
        {
            known.bytes -= old.bytes();
        }
        Ok(script)
    }

    /// Whoever has this compiles alone.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.compiling.acquire().await.ok()
    }

    /// Whoever has this asks alone which libraries there are.
    pub(crate) async fn turn_to_list(&self) -> Option<SemaphorePermit<'_>> {
        self.listing.acquire().await.ok()
    }

    /// None is known any more.
    pub(crate) fn forget_all(&self) {
        let mut known = self.known.borrow_mut();
        known.by_digest.clear();
        known.bytes = 0;
    }
}

/// The libraries that this gateway knows.
#[derive(Default)]
pub(crate) struct Functions {
    /// When it was asked which there are.
    since: Option<Instant>,
    /// By the digests of their texts; `None`: it does not compile here.
    libraries: HashMap<String, Option<Library>>,
    /// How often they may have changed.
    changes: u64,
}

impl Functions {
    /// These were there when they had changed so often.
    pub(crate) fn know(&mut self, libraries: HashMap<String, Option<Library>>, changes: u64) {
        self.libraries = libraries;
        self.since = (self.changes == changes).then(Instant::now);
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn by_digest(&self) -> &HashMap<String, Option<Library>> {
        &self.libraries
    }

    /// Those that compile here.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.libraries.values().flatten()
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < LIBRARIES_KNOWN)
    }

    /// Whether it was asked since then, and none of them has changed since.
    pub(crate) fn is_known_since(&self, then: Instant) -> bool {
        self.since.is_some_and(|since| since >= then)
    }

    /// The function of this name, if there is one: upper and lower case are one.
    pub(crate) fn find(&self, name: &Bytes) -> Option<Script> {
        let is_it = |it: &&Script| it.digest().as_bytes().eq_ignore_ascii_case(name);
        self.libraries().flat_map(Library::functions).find(is_it).cloned()
    }

    /// It is asked before the next call which there are.
    pub(crate) fn may_have_changed(&mut self) {
        self.since = None;
        self.changes += 1;
    }
}

/// What a call of a script names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Text,
    Digest,
    Function,
}

impl Names {
    pub(crate) fn of(command: &Command) -> Self {
        match command.name {
            "EVALSHA" | "EVALSHA_RO" => Names::Digest,
            "FCALL" | "FCALL_RO" => Names::Function,
            _ => Names::Text,
        }
    }
}

/// One call of a script: `EVAL text numkeys key ... arg ...`, or by its digest; or of a function.
pub(crate) struct Called {
    pub(crate) names: Names,
    /// The text, its digest, or the function's name.
    pub(crate) named: Bytes,
    pub(crate) keys: Vec<Bytes>,
    pub(crate) args: Vec<Bytes>,
    pub(crate) only_reads: bool,
}

impl Called {
    /// What the words behind the command's name say.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn of(command: &Command, words: &[Word]) -> Result<Called, Fault> {
        let mut words = arguments(words);
        let count = std::str::from_utf8(&words[1]).ok().and_then(|count| count.parse::<i64>().ok());
        let count = count.ok_or_else(|| Fault::from(claret_commands::Fault::not_an_integer()))?;
        let count =
            usize::try_from(count).map_err(|_| Fault::told("ERR Number of keys can't be negative"))?;
        if count > words.len() - 2 {
            return Err(Fault::told("ERR Number of keys can't be greater than number of args"));
        }
        let args = words.split_off(2 + count);
        let keys = words.split_off(2);
        Ok(Called {
            names: Names::of(command),
            named: words.swap_remove(0),
            keys,
            args,
            only_reads: command.name.ends_with("_RO"),
        })
    }
}

/// Whether the gateway can carry out such a script.
pub(crate) fn is_script(command: &Command) -> bool {
    command.name.starts_with("EVAL") || command.name.starts_with("FCALL")
}
