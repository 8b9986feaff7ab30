//! Two shards as one: one has its records in memory, the other one those of a host. Both get every input, and all
//! that they say and hold must be the same.

use claret_core::message::Output;
use claret_core::{Incarnation, Limits, Shard, ShardId, Stats, Switches};
use claret_types::{Bytes, Operation};

use super::store::Store;

pub(crate) struct Twins {
    memory: Shard,
    over: Shard,
    store: &'static Store,
    /// Keys and operations on them, to compare what is in the way of whom.
    pub(crate) probes: Vec<(Bytes, Operation)>,
}

impl Twins {
    /// Incarnation 0 of both counts unique numbers from one beginning, as long as they are shard 0.
    pub(crate) fn new(id: u32, switches: Switches, limits: Limits) -> Self {
        let store = Store::leaked();
        Twins {
            memory: Shard::new(ShardId(id), Incarnation(0), switches, limits),
            over: Shard::over(store, ShardId(id), Incarnation(0), switches, limits),
            store,
            probes: Vec::new(),
        }
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.memory.incarnation()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.memory.stats()
    }

    /// The host loses a record, before it tells the shard.
    pub(crate) fn lose(&mut self, key: &Bytes) {
        self.store.states().remove(key);
    }

    /// Hands one input to both; what they say.
    pub(crate) fn both(&mut self, input: impl Fn(&mut Shard)) -> Vec<Output> {
        let outputs = [&mut self.memory, &mut self.over].map(|shard| {
            input(shard);
            shard.check_invariants();
            std::iter::from_fn(|| shard.poll_output()).collect::<Vec<Output>>()
        });
        let [said, also_said] = outputs;
        assert_eq!(format!("{said:#?}"), format!("{also_said:#?}"));
        // A partial state may be good for fewer calls than the record in memory.
        let counted = [&self.memory, &self.over].map(|shard| Stats { replays: 0, ..shard.stats() });
        assert_eq!(counted[0], counted[1]);
        for (key, op) in &self.probes {
            assert_eq!(self.memory.is_held(key), self.over.is_held(key), "{key}");
            let (here, there) = (self.memory.conflicts(key, op), self.over.conflicts(key, op));
            assert_eq!(here, there, "{op:?} on {key}");
        }
        said
    }

    /// Both have the same records.
    pub(crate) fn compare(&self) {
        let mut contents: Vec<_> = self.memory.contents().collect();
        contents.sort_unstable_by_key(|(key, _)| *key);
        let states = self.store.states();
        assert_eq!(contents, states.iter().collect::<Vec<_>>());
        assert_eq!(self.over.contents().count(), 0, "nothing is kept");
    }

    pub(crate) fn assert_quiet(&self) {
        for shard in [&self.memory, &self.over] {
            assert_eq!((shard.open_attempts(), shard.locked_records()), (0, 0));
        }
    }
}
