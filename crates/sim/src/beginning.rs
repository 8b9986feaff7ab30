//! How a run begins: with records, processes, and what is going to happen.

use claret_core::{SessionId, ShardId, Time};

use crate::config::Config;
use crate::event::SimEvent;
use crate::network::Endpoint;
use crate::plant::Plant;
use crate::random::{Random, Stream};
use crate::seat::Stageplay;
use crate::workload::Workload;
use crate::world::World;

impl World {
    /// The world of a seed, in which everything is still to happen.
    pub(crate) fn begun(
        seed: u64,
        config: Config,
        (plant, stageplay): (Plant, Stageplay),
        in_words: bool,
    ) -> Self {
        let mut setup = Random::new(seed, Stream::Setup);
        let workload = Workload::random(seed, &config, &mut setup);
        let mut world = World::new(seed, config, (plant, stageplay, workload), in_words);
        for number in 0..world.config.shards {
            let clock = world.draws.clock(&world.config, Stream::Clock { end: u64::from(number) });
            world.host(ShardId(number)).clock = clock;
        }
        (0..world.config.shards).for_each(|number| world.tell_owners(ShardId(number)));
        match world.stageplay.scenario {
            Some(_) => world.load_scenario(),
            None => world.prepare_records(&mut setup),
        }
        for number in 0..u64::from(world.config.sessions) {
            world.add_process(SessionId(number), world.config.workers * world.config.transactions);
        }
        world.schedule_faults(&mut setup);
        world.schedule_vanishing();
        world.schedule_moves();
        world
    }

    /// Fills some records before the run.
    fn prepare_records(&mut self, random: &mut Random) {
        for key in self.workload.keys.clone() {
            let shard = self.shard_of(&key.name);
            for op in self.workload.preparation(&key, random) {
                if self.host(shard).prepare(&key.name, &op) {
                    self.ledger.note_preparation(&key.name, &op);
                }
            }
        }
    }

    fn schedule_faults(&mut self, random: &mut Random) {
        let faults = self.config.faults.clone();
        let shards = self.config.shards;
        let shard = |random: &mut Random| ShardId(random.below(u64::from(shards)) as u32);
        let sessions = u64::from(self.config.sessions);
        for _ in 0..faults.reconnects {
            let (session, shard) = (SessionId(random.below(sessions)), shard(random));
            self.schedule(Time(random.below(faults.until_us)), SimEvent::Break(session, shard));
        }
        for _ in 0..faults.outages {
            let other = match random.chance(500) {
                true => Endpoint::Shard(shard(random)),
                false => Endpoint::Session(SessionId(random.below(sessions))),
            };
            let at = random.below(faults.until_us);
            let until = Time(at + random.below(faults.span_us_max)).min(Time(faults.until_us));
            let cut = SimEvent::Cut(Endpoint::Shard(shard(random)), other, until);
            self.schedule(Time(at), cut);
        }
        for _ in 0..faults.pauses {
            let end = match random.chance(500) {
                true => Endpoint::Shard(shard(random)),
                false => Endpoint::Session(SessionId(random.below(sessions))),
            };
            let at = random.below(faults.until_us);
            let until = Time(at + random.below(faults.span_us_max)).min(Time(faults.until_us));
            self.schedule(Time(at), SimEvent::Pause(end, until));
        }
        for _ in 0..faults.restarts {
            let at = random.below(faults.until_us);
            let until = Time(at + random.below(faults.span_us_max)).min(Time(faults.until_us));
            self.schedule(Time(at), SimEvent::Restart(shard(random), until));
        }
        for _ in 0..faults.refusals {
            let at = Time(random.below(faults.until_us));
            self.schedule(at, SimEvent::Refuse(shard(random)));
        }
    }
}
