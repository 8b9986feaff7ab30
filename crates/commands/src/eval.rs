//! Scripts for programs in Rust, on any store.

use std::sync::atomic::{AtomicUsize, Ordering};

use claret::Store;
use claret_types::Bytes;

use crate::answer::Answer;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::runner::{Later, Made, Runner, Unbounded};
use crate::script::{Evaluation, Script};

/// Where scripts run: a store, each as a transaction of its own.
///
/// ```
/// use claret_commands::{Answer, Eval, Script};
///
/// # async fn shown() -> Result<(), claret_commands::Fault> {
/// let store = claret::Store::in_memory();
/// let add = Script::compile(b"return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2")?;
/// assert_eq!(store.eval(&add, ["sum"], ["21"]).await?, Answer::Int(42));
/// # Ok(()) }
/// # pollster::block_on(shown()).unwrap();
/// ```
pub trait Eval {
    /// Runs a script with its `KEYS` and `ARGV` (A1 to A33 of `docs/scripts.md`).
    ///
    /// # Errors
    /// Why nothing was done: the script failed, or the store says so.
    fn eval<K: Into<Bytes>, A: Into<Bytes>>(
        &self,
        script: &Script,
        keys: impl IntoIterator<Item = K>,
        args: impl IntoIterator<Item = A>,
    ) -> impl Future<Output = Result<Answer, Fault>>;
}

impl Eval for Store {
    async fn eval<K: Into<Bytes>, A: Into<Bytes>>(
        &self,
        script: &Script,
        keys: impl IntoIterator<Item = K>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Answer, Fault> {
        let plan = plan(script, keys, args);
        Ok(plan.commit(self, &Finding::on(self)).await?.pop().unwrap_or(Answer::Nil))
    }
}

fn plan<K: Into<Bytes>, A: Into<Bytes>>(
    script: &Script,
    keys: impl IntoIterator<Item = K>,
    args: impl IntoIterator<Item = A>,
) -> Plan {
    let keys = keys.into_iter().map(Into::into).collect();
    let args = args.into_iter().map(Into::into).collect();
    let mut plan = Plan::new(Vec::new(), 1);
    plan.script(Evaluation::new(script.clone(), keys, args, false));
    plan
}

/// Keys that one search finds at most.
const KEYS_MAX: usize = 1 << 20;

/// Finds the keys of a store, and bounds nothing else.
struct Finding {
    store: Store,
    /// Where the next `RANDOMKEY` begins to look.
    random: AtomicUsize,
}

impl Finding {
    fn on(store: &Store) -> Self {
        Finding { store: store.clone(), random: AtomicUsize::new(rand::random_range(0..KEYS_MAX)) }
    }

    async fn keys(&self, pattern: &[u8]) -> Result<Vec<Answer>, Fault> {
        let mut all = Vec::new();
        let mut pages = self.store.keys(Bytes::copy_from(pattern));
        while let Some(page) = pages.next_page().await? {
            all.extend(page.into_iter().map(Answer::Bulk));
            if all.len() > KEYS_MAX {
                return Err(Fault::told(format!("ERR over {KEYS_MAX} keys: give a narrower pattern")));
            }
        }
        Ok(all)
    }

    async fn found(&self, name: &str, words: &[Bytes]) -> Result<Answer, Fault> {
        match (name, words) {
            ("KEYS", [pattern]) => Ok(Answer::Array(self.keys(pattern).await?)),
            ("DBSIZE", []) => Ok(Answer::count(self.keys(b"*").await?.len())),
            ("RANDOMKEY", []) => {
                let mut all = self.keys(b"*").await?;
                let first = self.random.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
                all.rotate_left(first);
                Ok(Answer::Array(all))
            }
            // All keys are one page.
            ("SCAN", [cursor]) if &cursor[..] == b"0" => self.page(b"*").await,
            ("SCAN", [cursor, option, pattern])
                if &cursor[..] == b"0" && option.eq_ignore_ascii_case(b"MATCH") =>
            {
                self.page(pattern).await
            }
            ("SCAN", _) => Err(Fault::told(
                "ERR a script of a program in Rust says SCAN 0 [MATCH pattern]: all keys are one page",
            )),
            _ => Err(Fault::syntax()),
        }
    }

    async fn page(&self, pattern: &[u8]) -> Result<Answer, Fault> {
        Ok(Answer::Array(vec![Answer::text("0"), Answer::Array(self.keys(pattern).await?)]))
    }
}

impl Runner for Finding {
    fn begin_attempt(&self, _: u32) {}

    fn go_on(&self, _: u32) {}

    fn take(&self, _: usize) -> Result<(), Fault> {
        Ok(())
    }

    fn is_long(&self, bytes: usize) -> bool {
        Unbounded.is_long(bytes)
    }

    fn elsewhere(&self, work: Box<dyn FnOnce() -> Made + Send>) -> Later<'_, Made> {
        Box::pin(std::future::ready(work()))
    }

    fn find(&self, name: &'static str, words: Vec<Bytes>) -> Later<'_, Result<Answer, Fault>> {
        Box::pin(async move { self.found(name, &words).await })
    }

    fn rest(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
