//! The thread that writes the log of a store in this process: a group, a sync, and those wake whose transactions are in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use claret_log::{Disk, Gathered, LogError, Writer};
use claret_planted::{Bug, is_planted};

use super::durable::{Shared, WAITING_BYTES_MAX};
use super::trouble::Trouble;
use crate::durability::SyncPolicy;
use crate::error::Reason;

/// How long there is nothing to write before the log says that all of it is synced.
const MARK_AFTER: Duration = Duration::from_secs(1);

/// While there is no room on the disk: how often it is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// The log ends, and those hear of it who wait.
struct EndOfLog {
    shared: Arc<Shared>,
    why: Trouble,
}

impl Drop for EndOfLog {
    fn drop(&mut self) {
        self.shared.set_trouble(Some(self.why.clone()));
    }
}

/// The writer's thread.
pub(super) struct Writing<D> {
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Writer<D>,
    pub(super) group: Gathered,
}

impl<D: Disk> Writing<D> {
    pub(super) fn run(mut self) {
        // However it ends, nobody waits for it from then on.
        let mut end = EndOfLog {
            shared: Arc::clone(&self.shared),
            why: Trouble::Stopped(Reason::new("the thread that writes it panicked")),
        };
        end.why = match self.write_on() {
            Ok(()) => Trouble::Closed,
            Err(error) => Trouble::Stopped(Reason::new(error)),
        };
    }

    fn write_on(&mut self) -> Result<(), LogError> {
        let mut synced_at = Instant::now();
        let mut is_marked = true;
        loop {
            let has_some = self.take(is_marked, synced_at);
            if has_some {
                self.write()?;
                is_marked = false;
            }
            if is_planted(Bug::ReportedBeforeSync) {
                self.shared.synced_up_to(self.writer.position());
            }
            let is_closing = self.shared.is_closing();
            let unsynced = self.writer.position() - self.writer.synced();
            let is_due = match self.shared.sync {
                SyncPolicy::EachGroup => true,
                // Well before those who commit have to wait.
                SyncPolicy::Every(_) if unsynced >= WAITING_BYTES_MAX as u64 / 2 => {
                    !is_planted(Bug::BacklogUnsynced)
                }
                SyncPolicy::Every(time) => is_closing || self.is_wanted() || synced_at.elapsed() >= time,
            };
            if is_due && self.writer.synced() < self.writer.position() {
                self.writer.sync()?;
                synced_at = Instant::now();
                self.shared.synced_up_to(self.writer.synced());
                self.remove_what_is_not_needed();
            }
            let is_all = self.writer.synced() == self.writer.position();
            if !has_some && is_all && !is_marked && (is_closing || synced_at.elapsed() >= MARK_AFTER) {
                match self.writer.mark() {
                    Err(error) if !error.is_full() || is_planted(Bug::MarkStops) => return Err(error),
                    // Where there is no room the log goes on without it.
                    Ok(()) | Err(_) => is_marked = true,
                }
            }
            if is_closing && !has_some {
                return self.writer.close();
            }
        }
    }

    /// Files that a snapshot has made superfluous. That they cannot be removed harms nobody.
    fn remove_what_is_not_needed(&mut self) {
        if let Some(needed_from) = self.shared.growth.has_grown_to(self.writer.synced())
            && let Err(error) = self.writer.remove_before(needed_from)
        {
            self.shared.growth.keeps_files(&error);
        }
    }

    /// Whether somebody waits for more than is synced.
    fn is_wanted(&self) -> bool {
        self.shared.wanted.load(Ordering::Acquire) > self.writer.synced()
    }

    /// Waits until something has gathered, and takes it. Without any it comes back when something else is to be done.
    fn take(&mut self, is_marked: bool, synced_at: Instant) -> bool {
        let mut tail = self.shared.tail.lock();
        if tail.waiting() == 0 && !self.shared.is_closing() && !self.is_wanted() {
            self.shared.writer_waits.store(true, Ordering::Release);
            let until = match self.shared.sync {
                SyncPolicy::Every(time) if self.writer.synced() < self.writer.position() => {
                    synced_at.checked_add(time)
                }
                _ if !is_marked => Some(synced_at + MARK_AFTER),
                _ => None,
            };
            match until {
                Some(until) => drop(self.shared.gathered.wait_until(&mut tail, until)),
                None => self.shared.gathered.wait(&mut tail),
            }
            self.shared.writer_waits.store(false, Ordering::Release);
        }
        tail.take(&mut self.group);
        !self.group.bytes.is_empty()
    }

    /// Writes the group, and waits for room if there is none.
    fn write(&mut self) -> Result<(), LogError> {
        loop {
            match self.writer.write(&self.group) {
                Ok(()) => break,
                Err(error) if error.is_full() && !self.shared.is_closing() => {
                    self.shared.set_trouble(Some(Trouble::Full(Reason::new(error))));
                    self.writer.sync()?;
                    self.shared.synced_up_to(self.writer.synced());
                    self.remove_what_is_not_needed();
                    thread::sleep(FULL_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        if self.shared.trouble.is_some() {
            self.shared.set_trouble(None);
        }
        Ok(())
    }
}
