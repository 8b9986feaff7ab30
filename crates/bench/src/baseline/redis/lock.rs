//! `redis-lock`: a lock for each key, made by hand, across the shards of a cluster.
//!
//! The lock of a key is another key in the same slot that holds the holder's number: `SET lock token NX PX`. A client asks
//! for all locks of a stage at once. If some are refused, it keeps those before the first refused one, in order of their
//! names, gives back those after it, and waits for that one. All clients follow one order, so they never wait in a circle. A
//! later stage may need a lock out of that order; then the client waits only briefly, gives everything back and begins the
//! transaction again.
//!
//! The commands of the last stage leave together with the release of the locks: all locks are held by then, so transactions
//! have an order, and each lock is released behind the command that it protects. Void operations of earlier stages leave
//! with them. The release compares the token, for a lock that lived too long may be another client's.
//!
//! Locks are exclusive, for readers, too: nobody makes reader/writer locks by hand in one command.

use std::sync::atomic::Ordering;
use std::time::Instant;

use claret::types::{End, List, ListOp};
use claret::{Bytes, Operation, Reply};
use claret_redis::Command;

use super::{DEADLINE, Failed, RedisRunner, commands, shape};
use crate::pace::{Pace, think, think_between};
use crate::workload::{Call, Stage};

/// Gives a lock back, if it is ours still.
pub(super) const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// How long a lock lives whose holder is gone: longer than any transaction here.
const LIVES_MS: &str = "30000";

/// How often a lock is tried that is needed out of order.
const TRIES_OUT_OF_ORDER: u32 = 8;

/// Locks of one transaction.
struct Held {
    token: Bytes,
    keys: Vec<Bytes>,
    until: Instant,
}

/// What came of asking for locks.
#[derive(PartialEq, Eq)]
enum Asked {
    Granted,
    /// Everything must be given back.
    InTheWay,
}

fn lock_of(key: &Bytes) -> Bytes {
    let mut name = Bytes::from("lock:{");
    name.extend(key);
    name.extend(b"}");
    name
}

/// What reads the answer of a pop beforehand: the lock keeps it true until the pop leaves, with the others.
fn look(call: &Call) -> Option<Call> {
    let index = match call.op.downcast::<List>() {
        Some(ListOp::Pop(End::Front)) => 0,
        Some(ListOp::Pop(End::Back)) => -1,
        _ => return None,
    };
    Some(Call::new(&call.key, Operation::new::<List>(ListOp::Index(index))))
}

impl RedisRunner {
    pub(super) async fn locked(&mut self, pace: Pace) -> Result<Vec<Reply>, Failed> {
        let token = Bytes::from(format!("{:x}", self.backoff.token()));
        let mut held = Held { token, keys: Vec::new(), until: Instant::now() + DEADLINE };
        loop {
            match self.attempt_locked(pace, &mut held).await {
                Ok(Some(replies)) => return Ok(replies),
                Ok(None) => {
                    self.release(&mut held).await?;
                    if Instant::now() > held.until {
                        return Err(Failed::GaveUp);
                    }
                    let pause = self.backoff.after(TRIES_OUT_OF_ORDER);
                    tokio::time::sleep(pause).await;
                    self.begin_again();
                }
                Err(failed) => {
                    self.release(&mut held).await?;
                    return Err(failed);
                }
            }
        }
    }

    /// The replies of the last stage; `None` when another's lock was in the way of one that is needed out of order.
    async fn attempt_locked(&mut self, pace: Pace, held: &mut Held) -> Result<Option<Vec<Reply>>, Failed> {
        let (mut replies, mut later) = (Vec::new(), Vec::new());
        loop {
            let (stage, drawn) = self.stage(&replies).await?;
            let is_last = stage == Stage::Commit;
            if is_last && self.client.rolls_back() {
                // What waits for the end is forgotten.
                return Err(Failed::RolledBack);
            }
            if self.acquire(held).await? == Asked::InTheWay {
                return Ok(None);
            }
            let calls = std::mem::take(&mut self.calls);
            let found = match pace {
                Pace::Together if is_last => self.finish_locked(held, &later, &calls).await?,
                Pace::Together => self.answers(&calls, &mut later).await?,
                Pace::Pause(time) => {
                    let found = self.answers(&calls, &mut later).await?;
                    think(time).await;
                    found
                }
                Pace::Interactive(time) => {
                    let mut found = Vec::with_capacity(calls.len());
                    for (at, call) in calls.iter().enumerate() {
                        if at > 0 {
                            think(time).await;
                        }
                        found.extend(self.answers(std::slice::from_ref(call), &mut later).await?);
                    }
                    found
                }
            };
            self.calls = calls;
            replies = drawn.among(found);
            if is_last {
                if pace != Pace::Together {
                    self.finish_locked(held, &later, &[]).await?;
                }
                return Ok(Some(replies));
            }
            if let Pace::Interactive(time) = pace {
                think(time).await;
            }
            think_between(self.client.thinks()).await;
        }
    }

    /// Runs what answers, and keeps what does not for the end. What waits there for a key that is read goes first.
    async fn answers(&mut self, calls: &[Call], later: &mut Vec<Call>) -> Result<Vec<Reply>, Failed> {
        let mut now = Vec::new();
        for call in calls {
            if let Some(looks) = look(call) {
                now.push(looks);
                later.push(call.clone());
            } else if call.op.returns() {
                let (same, others) = later.drain(..).partition(|it: &Call| it.key == call.key);
                *later = others;
                now.extend(same);
                now.push(call.clone());
            } else {
                later.push(call.clone());
            }
        }
        let found =
            self.baseline.plain.run(commands(&now)?).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let found = now.iter().zip(shape(&now, found)?).filter(|(call, _)| call.op.returns());
        let mut found = found.map(|(_, reply)| reply);
        let reply = |call: &Call| if call.op.returns() { found.next() } else { Some(Reply::Ok) };
        Ok(calls.iter().filter_map(reply).collect())
    }

    /// Runs what was kept, then these calls, and gives the locks back.
    async fn finish_locked(
        &mut self,
        held: &mut Held,
        later: &[Call],
        calls: &[Call],
    ) -> Result<Vec<Reply>, Failed> {
        let mut all = commands(later)?;
        all.extend(commands(calls)?);
        all.extend(self.releases(&held.token, &held.keys));
        held.keys.clear();
        let answers = self.baseline.plain.run(all).await;
        let found = answers.into_iter().skip(later.len()).take(calls.len()).collect::<Result<Vec<_>, _>>()?;
        shape(calls, found)
    }

    /// Takes the locks of this stage's calls that are not held yet.
    async fn acquire(&mut self, held: &mut Held) -> Result<Asked, Failed> {
        let mut keys: Vec<Bytes> =
            self.calls.iter().map(|call| call.key.clone()).filter(|key| !held.keys.contains(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let is_in_order = held.keys.iter().max() < keys.first();
        let (mut next, mut tries) = (0, 0);
        while next < keys.len() {
            // Who waits for one lock asks for the others once it has that.
            let end = if tries == 0 { keys.len() } else { next + 1 };
            let granted = self.ask_for(&held.token, &keys[next..end]).await?;
            let in_order = granted.iter().take_while(|&&is_ours| is_ours).count();
            held.keys.extend_from_slice(&keys[next..next + in_order]);
            if next + in_order == end {
                (next, tries) = (end, 0);
                continue;
            }
            let granted = keys[next..end].iter().zip(granted).skip(in_order);
            let useless: Vec<Bytes> =
                granted.filter(|(_, is_ours)| *is_ours).map(|(key, _)| key.clone()).collect();
            next += in_order;
            tries = if in_order > 0 { 1 } else { tries + 1 };
            let back = self.baseline.plain.run(self.releases(&held.token, &useless));
            if (!is_in_order && tries > TRIES_OUT_OF_ORDER) || Instant::now() > held.until {
                back.await;
                return Ok(Asked::InTheWay);
            }
            let pause = self.backoff.after(tries);
            tokio::join!(back, tokio::time::sleep(pause));
        }
        Ok(Asked::Granted)
    }

    /// Which of the locks are ours now.
    async fn ask_for(&mut self, token: &Bytes, keys: &[Bytes]) -> Result<Vec<bool>, Failed> {
        let ask = |key: &Bytes| {
            let set = Command::new("SET").key(lock_of(key)).arg(token.clone());
            set.arg("NX").arg("PX").arg(LIVES_MS)
        };
        let replies = self.baseline.plain.run(keys.iter().map(ask).collect()).await;
        let replies = replies.into_iter().collect::<Result<Vec<_>, _>>()?;
        let granted: Vec<bool> = replies.iter().map(|reply| *reply == Reply::Ok).collect();
        let refused = granted.iter().filter(|is_ours| !**is_ours).count();
        self.baseline.refused.fetch_add(refused as u64, Ordering::Relaxed);
        Ok(granted)
    }

    fn releases(&self, token: &Bytes, keys: &[Bytes]) -> Vec<Command> {
        let release = |key: &Bytes| {
            let run = Command::new("EVALSHA").arg(self.baseline.scripts.release.as_str()).arg("1");
            run.key(lock_of(key)).arg(token.clone())
        };
        keys.iter().map(release).collect()
    }

    async fn release(&mut self, held: &mut Held) -> Result<(), Failed> {
        let keys = std::mem::take(&mut held.keys);
        self.baseline.plain.run(self.releases(&held.token, &keys)).await;
        Ok(())
    }
}
