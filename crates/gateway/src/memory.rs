//! What connections have the gateway keep, in bytes: requests that are not whole, commands that wait, transactions, answers that are
//! not read. It is bounded for each connection and in sum over all (G10): one that is over its bound is closed, and over the sum the
//! largest, as a server does for `client-output-buffer-limit` and `maxmemory-clients`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use claret_planted::{Bug, is_planted};

use crate::limits::GatewayLimits;
use crate::metrics::Metrics;
use crate::registry::{Entry, Registry};

/// So many bytes more or less are not noted: small commands cost nothing here. That of all connections is the slack of the sum.
const GRAIN_BYTES: usize = 4 << 10;

/// See the module's text.
pub(crate) struct Memory {
    client_bytes_max: usize,
    total_bytes_max: usize,
    registry: Arc<Registry>,
    /// Has the sum.
    metrics: Arc<Metrics>,
    logger: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Memory {
    pub(crate) fn new(
        limits: &GatewayLimits,
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
        logger: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let (client_bytes_max, total_bytes_max) = (limits.client_bytes_max, limits.total_bytes_max);
        Memory { client_bytes_max, total_bytes_max, registry, metrics, logger }
    }

    /// Closes the largest until the sum of the others is within the bound.
    fn keep_to_the_sum(&self) {
        while self.sum() > self.total_bytes_max && !is_planted(Bug::SumUnbounded) {
            // What those keep that are closed already is as good as gone.
            let (leaving, largest) = self.registry.largest();
            let Some(largest) = largest.filter(|_| self.sum().saturating_sub(leaving) > self.total_bytes_max)
            else {
                return;
            };
            let why = format!(
                "all connections together keep over {} bytes in the gateway, and this one most: read answers sooner, or raise \
                 --total-bytes",
                self.total_bytes_max
            );
            self.close(&largest, why);
        }
    }

    fn sum(&self) -> usize {
        self.metrics.kept_bytes.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// A connection keeps too much: it is closed, and hears why if it can.
    pub(crate) fn close(&self, entry: &Entry, why: String) {
        let text = format!("connection {} of {} is closed: {why}", entry.id, entry.address);
        if entry.close_over(why) {
            Metrics::count(&self.metrics.closed_for_bytes);
            (self.logger)(&text);
        }
    }
}

/// A connection, as what it keeps is charged to it.
#[derive(Clone)]
pub(crate) struct Account {
    entry: Arc<Entry>,
    memory: Arc<Memory>,
}

impl Account {
    pub(crate) fn new(entry: Arc<Entry>, memory: Arc<Memory>) -> Self {
        Account { entry, memory }
    }

    /// A part of what the connection keeps; nothing so far.
    pub(crate) fn charge(&self) -> Charge {
        Charge { account: self.clone(), bytes: 0 }
    }
}

/// A part of what a connection keeps. Dropping it lets it go.
pub(crate) struct Charge {
    account: Account,
    /// As it was noted.
    bytes: usize,
}

impl Charge {
    /// So many bytes are kept now. If that is too much, a connection is closed.
    pub(crate) fn set(&mut self, bytes: usize) {
        if !self.note(bytes) {
            return;
        }
        let Account { entry, memory } = &self.account;
        if entry.kept() > memory.client_bytes_max && !is_planted(Bug::ConnectionUnbounded) {
            let why = format!(
                "it has the gateway keep over {} bytes: read answers sooner, or raise --client-bytes",
                memory.client_bytes_max
            );
            memory.close(entry, why);
        }
        memory.keep_to_the_sum();
    }

    /// The same, where it can be done without.
    ///
    /// # Errors
    /// It would be over a bound of the connection, or the connection is closed: why. Nothing was noted.
    pub(crate) fn try_set(&mut self, bytes: usize) -> Result<(), String> {
        let Account { entry, memory } = &self.account;
        let client_max = memory.client_bytes_max;
        if entry.kept() + bytes.saturating_sub(self.bytes) > client_max {
            return Err(format!("over {client_max} bytes for one connection"));
        }
        self.set(bytes);
        match self.account.entry.over() {
            Some(why) => Err(why.to_owned()),
            None => Ok(()),
        }
    }

    pub(crate) fn client_bytes_max(&self) -> usize {
        self.account.memory.client_bytes_max
    }

    /// Notes it: whether there is more now.
    fn note(&mut self, bytes: usize) -> bool {
        let is_slight = bytes.abs_diff(self.bytes) < GRAIN_BYTES && bytes != 0;
        if is_slight || bytes == self.bytes {
            return false;
        }
        let Account { entry, memory } = &self.account;
        let is_more = bytes > self.bytes;
        let by = bytes.abs_diff(self.bytes);
        match is_more {
            true => memory.metrics.kept_bytes.fetch_add(by as u64, Ordering::Relaxed),
            false => memory.metrics.kept_bytes.fetch_sub(by as u64, Ordering::Relaxed),
        };
        entry.keeps(by, is_more);
        self.bytes = bytes;
        is_more
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.note(if is_planted(Bug::GoneStillCharged) { self.bytes } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Ends;

    fn memory(client_bytes_max: usize, total_bytes_max: usize) -> (Arc<Memory>, Arc<Registry>) {
        let limits = GatewayLimits { client_bytes_max, total_bytes_max, ..GatewayLimits::default() };
        let registry = Arc::<Registry>::default();
        let memory = Memory::new(&limits, Arc::clone(&registry), Arc::default(), Arc::new(|_| {}));
        (Arc::new(memory), registry)
    }

    #[test]
    fn over_the_sum_the_largest_is_closed_and_no_more_than_have_to_be() {
        let (memory, registry) = memory(1 << 30, 100_000);
        let entries: Vec<_> = (0..4).map(|no| registry.enter(Ends::in_memory(&format!("a:{no}")))).collect();
        let mut charges: Vec<_> = entries
            .iter()
            .map(|entry| Account::new(Arc::clone(entry), Arc::clone(&memory)).charge())
            .collect();
        for (charge, bytes) in charges.iter_mut().zip([20_000, 40_000, 30_000]) {
            charge.set(bytes);
        }
        assert!(entries.iter().all(|entry| !entry.is_killed()));
        // One more is over: the largest goes, and that is enough, though it has not let go yet.
        charges[3].set(20_000);
        charges[0].set(25_000);
        assert_eq!(
            entries.iter().map(|entry| entry.is_killed()).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        assert!(entries[1].over().expect("it knows why").contains("--total-bytes"));
        assert_eq!(memory.sum(), 115_000);
        charges.clear();
        assert_eq!((memory.sum(), memory.metrics.closed_for_bytes.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn over_its_own_bound_a_connection_is_closed_or_told_before() {
        let (memory, registry) = memory(50_000, 1 << 30);
        let entry = registry.enter(Ends::in_memory("a:1"));
        let account = Account::new(Arc::clone(&entry), Arc::clone(&memory));
        let (mut one, mut other) = (account.charge(), account.charge());
        one.set(30_000);
        assert!(other.try_set(30_000).is_err() && !entry.is_killed(), "it can be done without");
        assert_eq!((entry.kept(), other.try_set(10_000)), (30_000, Ok(())));
        other.set(30_000);
        assert!(entry.is_killed() && entry.over().is_some_and(|why| why.contains("--client-bytes")));
        drop((one, other));
        assert_eq!(memory.sum(), 0);
    }
}
