//! A store like that in a process, one step at a time: shards, coordinators, a log, snapshots and crashes.

use std::collections::{BTreeMap, HashMap};

use claret_core::message::{Link, Output, Response, Status};
use claret_core::{
    AttemptId, Birth, Coordinator, Discipline, Event, Incarnation, Limits, Noted, Sequence, SessionId, Shard,
    ShardId, Switches, Time, TxId, digest, key_hash, write_record,
};
use claret_log::{Gathered, LogError, Recovered, SnapshotWriter, Tail, Writer, back_up, recover};
use claret_types::{Bytes, KeyspaceOp, Moment, Operation, State, TypeInfo, Unique, builtin_types};

use crate::disk::{Copied, LyingDisk};

const SHARDS: u32 = 3;
const SEGMENT_BYTES: u64 = 2_000;
const SESSION: SessionId = SessionId(1);
const LINK: Link = Link { session: SESSION, connection: 0 };
const STORE: u64 = 0x1234_5678_9abc_def0;

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

type Ops = Vec<(Bytes, Operation)>;

/// A transaction in progress.
struct Running {
    coordinator: Coordinator,
    calls: Ops,
    /// So many of them are executed or buffered.
    done: usize,
    inbox: Vec<(ShardId, Response)>,
    /// Records that vanished after it had voted on them.
    vanished: Vec<Bytes>,
    is_over: bool,
}

struct Snapshot {
    writer: SnapshotWriter<LyingDisk>,
    shard: usize,
    place: usize,
    /// All of it is as of an earlier position than this, or this one.
    as_of: u64,
}

/// What was done, by the position of the log behind it.
type Done = (u64, Ops);

/// See the module's text.
pub(crate) struct Host {
    disk: LyingDisk,
    shards: Vec<Shard>,
    tail: Tail,
    writer: Writer<LyingDisk>,
    /// Taken from the tail and not yet written.
    group: Option<Gathered>,
    snapshot: Option<Snapshot>,
    snapshots: usize,
    running: BTreeMap<Sequence, Running>,
    history: Vec<Done>,
    now: u64,
    clock_ms: u64,
    next: u64,
}

fn switches() -> Switches {
    Switches::in_process(Discipline::AbstractPhased)
}

fn shard_of(key: &Bytes) -> ShardId {
    ShardId((key_hash(key) >> 32) as u32 % SHARDS)
}

fn parse(kind: &str, method: &str, arguments: &[Bytes]) -> Operation {
    let info: &TypeInfo = builtin_types().iter().find(|info| info.name == kind).expect("it is built in");
    (info.parse)(method, arguments).expect("it is well-formed")
}

/// Some operation on some record.
fn any_call(random: &mut Random, clock_ms: u64) -> (Bytes, Operation) {
    let number = random.below(4);
    let value = Bytes::from(random.below(5).to_string());
    match random.below(14) {
        0 | 1 => (format!("counter:{number}").into(), parse("counter", "INCRBY", &[value])),
        2 => (format!("counter:{number}").into(), parse("counter", "INCRBY.RETURNING", &[value])),
        3 => (format!("set:{number}").into(), parse("set", "SADD", &[value])),
        4 => (format!("set:{number}").into(), parse("set", "SREM", &[value])),
        5 => (format!("set:{number}").into(), parse("set", "SCARD", &[])),
        6 | 7 => (format!("list:{number}").into(), parse("list", "RPUSH", &[value])),
        8 | 9 => (format!("list:{number}").into(), parse("list", "LPOP", &[])),
        10 => (format!("list:{number}").into(), parse("list", "RPOP", &[])),
        11 => (format!("counter:{number}").into(), KeyspaceOp::Delete { returning: false }.into()),
        12 => (format!("list:{number}").into(), KeyspaceOp::Delete { returning: true }.into()),
        _ => {
            let at = Moment::At(clock_ms + random.below(40));
            (
                format!("set:{number}").into(),
                KeyspaceOp::Expire { at, only_later: false, returning: false }.into(),
            )
        }
    }
}

pub(crate) fn digest_of(read: &Recovered) -> u64 {
    digest_all(read.records.iter())
}

fn digest_all<'a>(records: impl Iterator<Item = (&'a Bytes, &'a State)>) -> u64 {
    let sorted: BTreeMap<_, _> = records.collect();
    let mut bytes = Vec::new();
    sorted.iter().for_each(|(key, state)| write_record(&mut bytes, key, Some(state)));
    digest(&bytes)
}

impl Host {
    /// Opens what is on the disk.
    pub(crate) fn open(disk: LyingDisk, random: &mut Random) -> Result<Self, String> {
        Host::open_with(disk, Vec::new(), 1_000, 1, random)
    }

    fn open_with(
        disk: LyingDisk,
        history: Vec<Done>,
        clock_ms: u64,
        next: u64,
        random: &mut Random,
    ) -> Result<Self, String> {
        let mut read = disk.clone();
        let recovered = recover(&mut read, &mut |_| {}).map_err(|error| error.to_string())?;
        let writer = match &recovered {
            Some(recovered) => Writer::go_on(disk.clone(), recovered, SEGMENT_BYTES),
            None => Writer::create(disk.clone(), STORE, SEGMENT_BYTES),
        };
        let writer = writer.map_err(|error| error.to_string())?;
        let tail = Tail::new(recovered.as_ref());
        let mut shards: Vec<Shard> = (0..SHARDS)
            .map(|id| Shard::new(ShardId(id), Incarnation(1), switches(), Limits::default()))
            .collect();
        for (key, state) in recovered.into_iter().flat_map(|recovered| recovered.records) {
            shards[shard_of(&key).0 as usize].load(key, state);
        }
        shards.iter_mut().for_each(Shard::keep_journal);
        Ok(Host {
            disk,
            shards,
            tail,
            writer,
            group: None,
            snapshot: None,
            snapshots: 0,
            running: BTreeMap::new(),
            history,
            now: 1 + random.below(10),
            clock_ms,
            next,
        })
    }

    /// The power goes; what is on the disk is opened again, and checked.
    pub(crate) fn crash(self, random: &mut Random) -> Result<Self, String> {
        self.disk.crash(random);
        self.newest_file_is_missed()?;
        self.open_again(random)
    }

    /// Whatever happened to the machine: were the newest file of the log that has entries removed or emptied now, it would be named.
    fn newest_file_is_missed(&self) -> Result<(), String> {
        let newest = self.disk.logs().pop().expect("a log has a file");
        for lose in [Copied::lose, Copied::empty] {
            let mut copy = self.disk.copy();
            if !copy.has_entries(&newest) {
                continue; // The next opening may make it anew.
            }
            lose(&mut copy, &newest);
            match recover(&mut copy, &mut |_| {}) {
                Err(LogError::Damaged { file, .. }) if file == newest => {}
                other => return Err(format!("without {newest} a store is {other:?}")),
            }
        }
        Ok(())
    }

    /// What is on the disk is opened again, and checked.
    pub(crate) fn open_again(mut self, random: &mut Random) -> Result<Self, String> {
        let (synced, snapshots) = (self.writer.synced(), self.snapshots);
        let mut history = std::mem::take(&mut self.history);
        let mut host = Host::open_with(self.disk.clone(), Vec::new(), self.clock_ms, self.next, random)?;
        let position = host.writer.position();
        if position < synced {
            return Err(format!("the log was synced up to {synced}, and ends at {position}"));
        }
        host.is_as_of(position, &mut history)?;
        (host.history, host.snapshots) = (history, snapshots);
        Ok(host)
    }

    /// A backup of what is synced, opened.
    pub(crate) fn backed_up(&self, random: &mut Random) -> Result<(), String> {
        let (mut from, to) = (self.disk.clone(), LyingDisk::default());
        let mut unfinished = || match recover(&mut to.copy(), &mut |_| {}) {
            Err(LogError::Unfinished { .. }) => true,
            other => panic!("a backup that is not whole is {other:?}"),
        };
        let synced = self.writer.synced();
        back_up(&mut from, &mut to.clone(), synced, &mut unfinished).map_err(|error| error.to_string())?;
        // It is all on the disk.
        to.crash(random);
        let host = Host::open_with(to, Vec::new(), self.clock_ms, self.next, random)?;
        let position = host.writer.position();
        if position < synced {
            return Err(format!("the log was synced up to {synced}, and a backup ends at {position}"));
        }
        host.is_as_of(position, &mut self.history.clone())
    }

    /// The records are those of the transactions up to a position, and these are what stays of the history.
    fn is_as_of(&self, position: u64, history: &mut Vec<Done>) -> Result<(), String> {
        history.retain(|(end, _)| *end <= position);
        are_as_of(&self.contents(), position, history)
    }

    /// What was read before damage is the store as of where it ends.
    pub(crate) fn is_salvaged(&self, read: &Recovered) -> Result<(), String> {
        let mut history = self.history.clone();
        history.retain(|(end, _)| *end <= read.position);
        are_as_of(&read.records, read.position, &history)
    }

    /// What was done since the store began, up to this position.
    pub(crate) fn commits_up_to(&self, position: u64) -> usize {
        self.history.iter().filter(|(end, _)| *end <= position).count()
    }

    /// Everything is written, as when a store is closed.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        self.running.clear();
        self.write()?;
        self.write()?;
        self.sync()?;
        self.writer.mark().and_then(|()| self.writer.close()).map_err(|error| error.to_string())
    }

    pub(crate) fn digest(&self) -> u64 {
        digest_all(self.contents().iter())
    }

    pub(crate) fn commits(&self) -> usize {
        self.history.len()
    }

    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots
    }

    fn contents(&self) -> HashMap<Bytes, State> {
        let contents = self.shards.iter().flat_map(Shard::contents);
        contents.map(|(key, state)| (key.clone(), state.clone())).collect()
    }

    /// Something happens.
    pub(crate) fn step(&mut self, random: &mut Random) -> Result<(), String> {
        self.now += random.below(50);
        match random.below(100) {
            0..12 if self.running.len() < 8 => self.begin(random),
            0..60 => self.go_on(random),
            60..75 => self.instant(random),
            75..83 => self.write()?,
            83..88 => self.sync()?,
            88..97 => self.snapshot(random)?,
            _ => self.expire(random),
        }
        Ok(())
    }

    fn begin(&mut self, random: &mut Random) {
        let sequence = Sequence(self.next);
        self.next += 1;
        let birth = Birth { time: Time(self.now), tx: TxId { session: SESSION, sequence } };
        let coordinator = Coordinator::new(birth, switches(), Limits::default(), random.below(1 << 40));
        let calls = (0..1 + random.below(4)).map(|_| any_call(random, self.clock_ms)).collect();
        let running =
            Running { coordinator, calls, done: 0, inbox: Vec::new(), vanished: Vec::new(), is_over: false };
        self.running.insert(sequence, running);
    }

    /// A transaction hears something, or says something, or does its next step.
    fn go_on(&mut self, random: &mut Random) {
        let Some(sequence) = self.running.keys().nth(random.below(9) as usize).copied() else { return };
        let now = Time(self.now);
        let running = self.running.get_mut(&sequence).expect("just seen");
        for (from, response) in std::mem::take(&mut running.inbox) {
            running.coordinator.handle_response(now, from, response);
        }
        if !running.is_over && random.below(200) == 0 {
            running.coordinator.abort(now);
        }
        if running.coordinator.poll_timeout().is_some_and(|at| at <= now) {
            running.coordinator.handle_timeout(now);
        }
        if let Some((to, request)) = running.coordinator.poll_send() {
            self.shards[to.0 as usize].handle(now, LINK, request);
            return self.note(to);
        }
        while let Some(event) = running.coordinator.poll_event() {
            match event {
                Event::Answer { .. } | Event::Behind { .. } | Event::Seen { .. } => {}
                Event::Restart { .. } => {
                    let ended = running.coordinator.attempt();
                    running.done = 0;
                    running.vanished.clear();
                    running.coordinator.restart(ended).expect("it was said");
                }
                Event::Committed { .. } | Event::Aborted | Event::Failed { .. } | Event::Unknown => {
                    running.is_over = true;
                }
            }
        }
        if running.is_over {
            if running.coordinator.is_over() {
                self.running.remove(&sequence);
            }
            return;
        }
        if running.coordinator.awaits_answers() || !running.coordinator.is_running() {
            return;
        }
        let attempt = running.coordinator.attempt();
        let said = match running.calls.get(running.done).cloned() {
            Some((key, op)) => {
                running.done += 1;
                let shard = shard_of(&key);
                match op.returns() {
                    true => running.coordinator.execute(now, attempt, shard, key, op, None).map(drop),
                    false => running.coordinator.buffer(attempt, shard, key, op).map(drop),
                }
            }
            None => running.coordinator.commit(now, attempt, &[ShardId(0)][..random.below(2) as usize]),
        };
        said.expect("it runs, and nothing is unanswered");
    }

    /// What a shard noted goes to the log, and what it says to whom it concerns.
    fn note(&mut self, id: ShardId) {
        let shard = &mut self.shards[id.0 as usize];
        let journal = shard.journal().expect("it is kept");
        let mut committed: Vec<AttemptId> = Vec::new();
        for (note, _) in journal.notes() {
            match note {
                Noted::Committed(attempt, _) | Noted::Applied(attempt) => committed.push(*attempt),
                Noted::Done(_) | Noted::Voted(..) | Noted::Vanished(_) | Noted::Dropped(_) => {}
            }
        }
        self.tail.note(id, journal);
        self.tail.reserve_unique(shard.unique_count());
        while let Some(output) = shard.poll_output() {
            let Output::Respond { response, .. } = output else { panic!("nothing is in doubt") };
            let attempt = response.attempt().expect("it is of a transaction");
            if let Some(running) = self.running.get_mut(&attempt.tx.sequence) {
                running.inbox.push((id, response));
            }
        }
        for attempt in committed {
            let Some(running) = self.running.get_mut(&attempt.tx.sequence) else { continue };
            // At its first sign, and once.
            let vanished = std::mem::take(&mut running.vanished);
            let mut calls = std::mem::take(&mut running.calls);
            calls.retain(|(key, _)| !vanished.contains(key));
            if !calls.is_empty() {
                self.history.push((self.tail.position(), calls));
            }
        }
    }

    /// A transaction that is done at once, or not at all.
    fn instant(&mut self, random: &mut Random) {
        let calls: Ops = (0..1 + random.below(4)).map(|_| any_call(random, self.clock_ms)).collect();
        let done = calls.iter().all(|(key, op)| {
            let shard = &mut self.shards[shard_of(key).0 as usize];
            matches!(shard.instant(key_hash(key), key, op), Ok(Some(_)))
        });
        match done {
            true => self.shards.iter_mut().for_each(Shard::finish_instant),
            false => return self.shards.iter_mut().for_each(Shard::undo_instant),
        }
        self.tail.note_together(self.shards.iter_mut().filter_map(Shard::journal));
        self.history.push((self.tail.position(), calls));
    }

    pub(crate) fn write(&mut self) -> Result<(), String> {
        let tail = &mut self.tail;
        let group = self.group.get_or_insert_with(|| {
            let mut group = Gathered::default();
            tail.take(&mut group);
            group
        });
        match self.writer.write(group) {
            Ok(()) => self.group = None,
            Err(error) if error.is_full() => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), String> {
        self.writer.sync().map_err(|error| error.to_string())
    }

    /// The next part of a snapshot. Where the disk is full it is given up.
    fn snapshot(&mut self, random: &mut Random) -> Result<(), String> {
        match self.snapshot_on(random) {
            Ok(()) => Ok(()),
            Err(error) if error.is_full() => {
                self.snapshot = None;
                self.shards.iter_mut().for_each(|shard| shard.keep_gone(false));
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn snapshot_on(&mut self, random: &mut Random) -> Result<(), LogError> {
        let Some(snapshot) = &mut self.snapshot else {
            self.shards.iter_mut().for_each(|shard| shard.keep_gone(true));
            let (base, from) = (self.tail.position(), self.tail.open_since());
            let writer = SnapshotWriter::begin(self.disk.clone(), STORE, base, from, self.tail.unique())?;
            self.snapshot = Some(Snapshot { writer, shard: 0, place: 0, as_of: base });
            return Ok(());
        };
        let Some(shard) = self.shards.get_mut(snapshot.shard) else {
            if self.writer.synced() >= snapshot.as_of {
                let from = self.snapshot.take().expect("just seen").writer.finish()?;
                self.writer.remove_before(from)?;
                self.snapshots += 1;
            }
            return Ok(());
        };
        let mut records = Vec::new();
        let places = snapshot.place..snapshot.place + 1 + random.below(4) as usize;
        let (present, next) = shard.records_at(places);
        present.for_each(|(key, state)| write_record(&mut records, key, state));
        for key in shard.take_gone() {
            write_record(&mut records, &key, shard.state(&key));
        }
        snapshot.as_of = self.tail.position();
        match next {
            Some(next) => snapshot.place = next,
            None => {
                shard.keep_gone(false);
                (snapshot.shard, snapshot.place) = (snapshot.shard + 1, 0);
            }
        }
        snapshot.writer.add(snapshot.as_of, &records)
    }

    /// Time passes, and records expire.
    fn expire(&mut self, random: &mut Random) {
        self.clock_ms += random.below(30);
        for id in 0..SHARDS {
            let shard = &mut self.shards[id as usize];
            let has_voted = |of: &Running| shard.written(of.coordinator.attempt()) == Some(Status::Prepared);
            let voted: Vec<Sequence> =
                self.running.iter().filter(|(_, of)| has_voted(of)).map(|(sequence, _)| *sequence).collect();
            let gone = shard.expire(Time(self.now), self.clock_ms);
            // What those do who had voted on it comes to nothing.
            for sequence in voted {
                let running = self.running.get_mut(&sequence).expect("nobody was removed");
                let of_it = gone.iter().filter(|key| running.calls.iter().any(|(used, _)| used == *key));
                running.vanished.extend(of_it.cloned());
            }
            let removal =
                |key: Bytes| (u64::MAX, vec![(key, KeyspaceOp::Delete { returning: false }.into())]);
            let from = self.history.len();
            self.history.extend(gone.into_iter().map(removal));
            let to = self.history.len();
            self.note(ShardId(id));
            let end = self.tail.position();
            self.history[from..to].iter_mut().for_each(|(at, _)| *at = end);
        }
    }
}

/// A number that was counted is the same as one that was written.
fn written(key: &Bytes, state: Option<&State>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_record(&mut bytes, key, state);
    bytes
}

/// Records are those after these transactions.
fn are_as_of(records: &HashMap<Bytes, State>, position: u64, history: &[Done]) -> Result<(), String> {
    let expected = carried_out(history);
    for (key, state) in &expected {
        if written(key, records.get(key)) != written(key, Some(state)) {
            return Err(format!("at {position} '{key}' is {:?} and should be {state:?}", records.get(key)));
        }
    }
    if let Some(key) = records.keys().find(|key| !expected.contains_key(*key)) {
        return Err(format!("at {position} '{key}' is there and should not be"));
    }
    Ok(())
}

/// The records after these transactions, one after another.
fn carried_out(history: &[Done]) -> HashMap<Bytes, State> {
    let mut records: HashMap<Bytes, Option<State>> = HashMap::new();
    for (key, op) in history.iter().flat_map(|(_, calls)| calls) {
        let state = records.entry(key.clone()).or_default();
        let executed = op.execute(state.as_ref(), Unique(0)).expect("it was carried out");
        if let Some(effect) = executed.effect {
            effect.apply(state);
        }
    }
    records.into_iter().filter_map(|(key, state)| Some((key, state?))).collect()
}
