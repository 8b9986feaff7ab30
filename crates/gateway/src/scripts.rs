//! Scripts: where they may run, which are known, and what a call of one says (G15 of docs/gateway.md).

use std::cell::RefCell;
use std::num::NonZeroUsize;

use bytes::Bytes as Word;
use claret_commands::{Command, Script, digest_of};
use claret_types::Bytes;
use lru::LruCache;
use tokio::sync::Semaphore;

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

/// The scripts that this gateway knows, those used last.
pub(crate) struct Scripts {
    known: RefCell<Known>,
    /// One long text is compiled at a time: that may take a thousand times its length.
    compiling: Semaphore,
}

struct Known {
    by_digest: LruCache<String, Script>,
    bytes: usize,
}

impl Default for Scripts {
    fn default() -> Self {
        let most = NonZeroUsize::new(KNOWN_MAX).unwrap_or(NonZeroUsize::MIN);
        let known = RefCell::new(Known { by_digest: LruCache::new(most), bytes: 0 });
        Scripts { known, compiling: Semaphore::new(1) }
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

    /// None is known any more.
    pub(crate) fn forget_all(&self) {
        let mut known = self.known.borrow_mut();
        known.by_digest.clear();
        known.bytes = 0;
    }
}

/// One call of a script: `EVAL text numkeys key ... arg ...`, or by its digest.
pub(crate) struct Called {
    pub(crate) by_digest: bool,
    /// The text, or its digest.
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
            by_digest: command.name.starts_with("EVALSHA"),
            named: words.swap_remove(0),
            keys,
            args,
            only_reads: command.name.ends_with("_RO"),
        })
    }
}

/// Whether the gateway can carry out such a script.
pub(crate) fn is_script(command: &Command) -> bool {
    command.name.starts_with("EVAL")
}
