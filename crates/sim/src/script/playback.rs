//! The machines of a script: shards, client processes, and the messages between them, which wait until the script says what
//! happens to them.
//!
//! Invariants of all machines are checked after every command. Other files have what a script shows (`show`), which
//! messages it means (`selector`), and the settings of the machines (`settings`).

use std::collections::BTreeMap;

use claret_core::message::{Link, Output, Request};
use claret_core::ways::ProcessWay;
use claret_core::{
    AttemptId, CallNo, Client, Event, Incarnation, Limits, SessionId, Shard, ShardId, Survives, Time,
    TxHandle, key_hash,
};
use claret_types::{Bytes, Claims, Mode, Operation};

use super::names::Names;
use super::parse::Command;
use super::selector::{Body, Message, Selector, client_name};
use super::settings::Switching;
use super::{settings, tell};

/// More deliveries or timers than that in one command are a circle.
const STEPS_MAX: u32 = 10_000;

/// Any number: it only makes the jitter of pauses.
const SEED: u64 = 7;

/// A client process.
#[derive(Debug)]
pub(super) struct ScriptClient {
    /// `None` once it is dead.
    pub(super) machine: Option<Client>,
    /// The connection to each shard.
    connections: BTreeMap<ShardId, u32>,
}

/// Where a transaction's user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Runs,
    Commits,
    /// Was told to run again.
    Restarts,
    /// Was told the end.
    Ended,
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Tx {
    pub(super) name: String,
    pub(super) session: SessionId,
    pub(super) handle: TxHandle,
    /// The attempt that its user is at.
    run: u32,
    pub(super) standing: Standing,
    /// Calls whose answers its user waits for.
    awaited: Vec<CallNo>,
    /// The last attempt that it spoke to shards as.
    pub(super) attempt: AttemptId,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Playback {
    pub(super) now: Time,
    pub(super) limits: Limits,
    pub(super) switching: Switching,
    pub(super) shards: Vec<Shard>,
    pub(super) clients: BTreeMap<SessionId, ScriptClient>,
    pub(super) txs: Vec<Tx>,
    pub(super) messages: Vec<Message>,
    pub(super) names: Names,
    places: BTreeMap<Bytes, ShardId>,
    /// What came of commands so far, and is not told.
    pub(super) lines: Vec<String>,
    /// The script has said what it leaves behind.
    pub(super) may_leave: bool,
}

impl Playback {
    /// An empty stage.
    pub(super) fn new() -> Self {
        Playback {
            now: Time(0),
            limits: Limits::default(),
            switching: Switching::default(),
            shards: Vec::new(),
            clients: BTreeMap::new(),
            txs: Vec::new(),
            messages: Vec::new(),
            names: Names::default(),
            places: BTreeMap::new(),
            lines: Vec::new(),
            may_leave: false,
        }
    }

    /// Carries out one command.
    pub(super) fn play(&mut self, command: Command) -> Result<(), String> {
        self.carry_out(command)?;
        self.shards.iter().for_each(Shard::check_invariants);
        self.clients.values().flat_map(|client| &client.machine).for_each(Client::check_invariants);
        Ok(())
    }

    /// What the commands since the last call came to, with the messages of theirs that are on their way.
    pub(super) fn tell(&mut self) -> Vec<String> {
        for message in self.messages.iter_mut().filter(|message| !message.told) {
            message.told = true;
            self.lines.push(message.line("..>", &self.names));
        }
        std::mem::take(&mut self.lines)
    }

    fn carry_out(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Limits(pairs) => {
                self.before_shards().and_then(|()| settings::limits(&mut self.limits, &pairs))
            }
            Command::Switches(pairs) => self.before_shards().and_then(|()| self.switching.set(&pairs)),
            Command::Shards(count) => self.make_shards(count),
            Command::Place(keys, at) => self.place(&keys, at),
            Command::Given(words) => self.given(&words),
            Command::ScriptClient(session, way) => self.connect(session, way),
            Command::Begin(session, names) => {
                names.into_iter().try_for_each(|name| self.begin(session, name))
            }
            Command::Execute { tx, words, for_update } => self.execute(&tx, &words, for_update),
            Command::Buffer(tx, words) => self.buffer(&tx, &words),
            Command::Commit(tx) => self.commit(&tx),
            Command::Abort(tx) => self.abort(&tx),
            Command::Restart(tx) => self.restart(&tx),
            Command::DeliverBut(but) => self.deliver_but(&but),
            Command::Deliver(which) => self.deliver(&which),
            Command::Hold(which) => self.hold(&which),
            Command::Lose(which) => self.lose(&which),
            Command::Double(which) => self.double(&which),
            Command::Reorder => {
                self.messages.reverse();
                Ok(())
            }
            Command::Time(by) => self.pass(by),
            Command::Kill(session) => self.client(session).map(|client| client.machine = None),
            Command::RestartShard(at, survives) => self.restart_shard(at, survives),
            Command::Reconnect(session, at) => self.reconnect(session, at),
            Command::Heartbeat(session, at) => self.heartbeat(session, at),
            Command::Ask(session, tx, at) => {
                self.machine(session)?;
                self.shard(at)?;
                let attempt = self.txs[self.tx(&tx)?].attempt;
                self.send(session, at, Request::Ask { attempt });
                Ok(())
            }
            Command::ForgeAbort(tx, at) => {
                self.shard(at)?;
                let Tx { session, attempt, .. } = self.txs[self.tx(&tx)?];
                self.send(session, at, Request::Abort { attempt, refused_by: None });
                Ok(())
            }
            Command::Show(what) => self.show(what),
            Command::Leaves => {
                self.may_leave = true;
                self.lines.extend(self.left());
                Ok(())
            }
        }
    }
}

/// Before the story.
impl Playback {
    fn before_shards(&self) -> Result<(), String> {
        if self.shards.is_empty() { Ok(()) } else { Err("this comes before 'shards'".into()) }
    }

    fn make_shards(&mut self, count: u32) -> Result<(), String> {
        self.before_shards()?;
        let switches = self.switching.switches(None)?;
        let make = |id| Shard::new(ShardId(id), Incarnation(1), switches, self.limits);
        self.shards = (0..count).map(make).collect();
        Ok(())
    }

    fn place(&mut self, keys: &[String], at: ShardId) -> Result<(), String> {
        self.shard(at)?;
        self.places.extend(keys.iter().map(|key| (Bytes::from(key), at)));
        Ok(())
    }

    fn given(&mut self, words: &[String]) -> Result<(), String> {
        let (at, key, op) = self.read(words)?;
        let shard = self.shard(at)?;
        match shard.instant(key_hash(&key), &key, &op) {
            Ok(Some(_)) => shard.finish_instant(),
            Ok(None) => return Err("somebody holds the record; what is given comes before the story".into()),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Reads an operation, and finds its record's shard.
    fn read(&mut self, words: &[String]) -> Result<(ShardId, Bytes, Operation), String> {
        if self.shards.is_empty() {
            return Err("there are no shards yet; begin with 'shards 1'".into());
        }
        let (only, places) = (self.shards.len() == 1, &self.places);
        let place = |key: &Bytes| if only { Some(ShardId(0)) } else { places.get(key).copied() };
        let shards = &self.shards;
        let made_by = |key: &Bytes| Some(shards[place(key)?.0 as usize].state(key)?.type_info().name);
        let (key, op) = self.names.read(words, made_by)?;
        let at = place(&key).ok_or_else(|| format!("'{key}' has no place; say 'key {key} on s0'"))?;
        Ok((at, key, op))
    }
}

/// Who is meant.
impl Playback {
    pub(super) fn shard(&mut self, at: ShardId) -> Result<&mut Shard, String> {
        let count = self.shards.len();
        let shard = self.shards.get_mut(at.0 as usize);
        shard.ok_or_else(|| format!("there is no {at}; there are {count} shards, counted from s0"))
    }

    fn client(&mut self, session: SessionId) -> Result<&mut ScriptClient, String> {
        let name = client_name(session);
        let client = self.clients.get_mut(&session);
        client.ok_or_else(|| format!("there is no {name}; say 'client {name}' first"))
    }

    pub(super) fn machine(&mut self, session: SessionId) -> Result<&mut Client, String> {
        let client = self.client(session)?;
        client.machine.as_mut().ok_or_else(|| format!("{} is dead", client_name(session)))
    }

    pub(super) fn tx(&self, name: &str) -> Result<usize, String> {
        let found = self.txs.iter().position(|tx| tx.name == name);
        found.ok_or_else(|| format!("there is no {name}; say 'c1 begin {name}' first"))
    }

    /// A transaction whose user may go on, in one of these standings.
    fn user(&mut self, name: &str, allowed: &[Standing]) -> Result<usize, String> {
        let at = self.tx(name)?;
        let Tx { session, standing, .. } = self.txs[at];
        self.machine(session)?;
        match standing {
            standing if allowed.contains(&standing) => Ok(at),
            Standing::Ended => Err(format!("{name} has ended")),
            Standing::Commits => Err(format!("{name} commits; its user can only abort")),
            Standing::Restarts => Err(format!("{name} has to restart; say '{name} restart'")),
            Standing::Runs => Err(format!("{name} runs; it is not told to restart")),
        }
    }
}

/// Clients and transactions.
impl Playback {
    fn connect(&mut self, session: SessionId, way: Option<ProcessWay>) -> Result<(), String> {
        if self.shards.is_empty() || self.clients.contains_key(&session) {
            return Err("a client is made once, after 'shards'".into());
        }
        let switches = self.switching.switches(way)?;
        let mut machine = Client::direct(session, switches, self.limits, self.shards.len() as u32);
        let now = self.now;
        self.shards.iter().for_each(|shard| machine.meet(now, shard.id(), shard.incarnation()));
        let client = ScriptClient { machine: Some(machine), connections: BTreeMap::new() };
        self.clients.insert(session, client);
        Ok(())
    }

    fn begin(&mut self, session: SessionId, name: String) -> Result<(), String> {
        if self.txs.iter().any(|tx| tx.name == name) {
            return Err(format!("{name} is taken"));
        }
        self.now = self.now.plus(1); // Who begins first is the elder.
        let now = self.now;
        let machine = self.machine(session)?;
        let handle = machine.begin(now, SEED);
        let attempt = machine.attempt(handle).expect("it runs");
        self.names.name(attempt.tx, &name);
        let (standing, awaited) = (Standing::Runs, Vec::new());
        self.txs.push(Tx { name, session, handle, run: 1, standing, awaited, attempt });
        Ok(())
    }

    fn execute(&mut self, tx: &str, words: &[String], for_update: bool) -> Result<(), String> {
        let at = self.user(tx, &[Standing::Runs])?;
        let (shard, key, op) = self.read(words)?;
        if !op.returns() {
            return Err(format!(
                "{} answers nothing; use 'buffer', or its .RETURNING variant",
                op.method().name
            ));
        }
        let reserve = for_update.then(|| Claims::record(Mode::EXCLUSIVE));
        let Tx { session, handle, run, .. } = self.txs[at];
        let now = self.now;
        let no = self.machine(session)?.execute(now, (handle, run), (slot(shard), key), op, reserve);
        // A call that ends its attempt has no number; the event tells of that.
        self.txs[at].awaited.extend(no);
        self.collect();
        Ok(())
    }

    fn buffer(&mut self, tx: &str, words: &[String]) -> Result<(), String> {
        let at = self.user(tx, &[Standing::Runs])?;
        let (shard, key, op) = self.read(words)?;
        self.call(at, |machine, now, tx| {
            // Where it ends its attempt, the event tells of that.
            let _ = machine.buffer(now, tx, (slot(shard), key), op);
        })
    }

    fn commit(&mut self, tx: &str) -> Result<(), String> {
        let at = self.user(tx, &[Standing::Runs])?;
        if let [no, ..] = self.txs[at].awaited[..] {
            return Err(format!("{tx} waits for the answer of #{}; it can only abort", no.0));
        }
        self.txs[at].standing = Standing::Commits;
        self.call(at, |machine, now, tx| {
            // Where the attempt is over, the event has told of it.
            let _ = machine.commit(now, tx);
        })
    }

    fn abort(&mut self, tx: &str) -> Result<(), String> {
        let at = self.user(tx, &[Standing::Runs, Standing::Commits, Standing::Restarts])?;
        self.call(at, |machine, now, (handle, _)| machine.abort(now, handle))
    }

    fn restart(&mut self, tx: &str) -> Result<(), String> {
        let at = self.user(tx, &[Standing::Restarts])?;
        self.txs[at].standing = Standing::Runs;
        let Tx { session, handle, run, .. } = self.txs[at];
        let now = self.now;
        let restarted = self.machine(session)?.restart(now, (handle, run));
        restarted.map_err(|closed| format!("{tx}: {closed}"))?;
        self.txs[at].run = run + 1;
        self.collect();
        Ok(())
    }

    /// One call of an application.
    fn call(
        &mut self,
        at: usize,
        call: impl FnOnce(&mut Client, Time, (TxHandle, u32)),
    ) -> Result<(), String> {
        let Tx { session, handle, run, .. } = self.txs[at];
        let now = self.now;
        call(self.machine(session)?, now, (handle, run));
        self.collect();
        Ok(())
    }
}

/// Messages.
impl Playback {
    /// The places of the messages meant; none is a mistake.
    fn choose(&self, which: &Selector) -> Result<Vec<usize>, String> {
        let chosen = which.choose(&self.messages, &self.names);
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let all = self.under_way();
        Err(match all.as_slice() {
            [] => "no message is on its way".to_owned(),
            lines => format!("no such message is on its way; these are:\n{}", lines.join("\n")),
        })
    }

    /// All messages, each in a line.
    pub(super) fn under_way(&self) -> Vec<String> {
        let arrow = |message: &Message| if message.held { "..|" } else { "..>" };
        self.messages.iter().map(|message| message.line(arrow(message), &self.names)).collect()
    }

    /// Takes out what is meant, oldest first.
    fn take(&mut self, which: &Selector) -> Result<Vec<Message>, String> {
        let chosen = self.choose(which)?;
        let mut taken: Vec<Message> = chosen.iter().rev().map(|at| self.messages.remove(*at)).collect();
        taken.reverse();
        Ok(taken)
    }

    fn deliver(&mut self, which: &Selector) -> Result<(), String> {
        for message in self.take(which)? {
            self.hand_over(message);
        }
        Ok(())
    }

    fn deliver_but(&mut self, but: &[Selector]) -> Result<(), String> {
        let stays = |message: &Message, names: &Names| {
            message.held || but.iter().any(|which| which.means(message, names))
        };
        for _ in 0..STEPS_MAX {
            let names = &self.names;
            let Some(at) = self.messages.iter().position(|message| !stays(message, names)) else {
                return Ok(());
            };
            let message = self.messages.remove(at);
            self.hand_over(message);
        }
        Err("messages without end".into())
    }

    fn hold(&mut self, which: &Selector) -> Result<(), String> {
        for at in self.choose(which)? {
            let message = &mut self.messages[at];
            (message.held, message.told) = (true, true);
            self.lines.push(message.line("..|", &self.names));
        }
        Ok(())
    }

    fn lose(&mut self, which: &Selector) -> Result<(), String> {
        for message in self.take(which)? {
            self.lines.push(message.line("--x", &self.names));
        }
        Ok(())
    }

    fn double(&mut self, which: &Selector) -> Result<(), String> {
        for at in self.choose(which)? {
            let copy = Message { held: true, told: true, ..self.messages[at].clone() };
            self.lines.push(copy.line("..|", &self.names) + " (a copy)");
            self.messages.push(copy);
        }
        Ok(())
    }

    fn hand_over(&mut self, message: Message) {
        let (now, line) = (self.now, message.line("-->", &self.names));
        match message.body {
            Body::Request { link, to, request } => {
                self.lines.push(line);
                self.shards[to.0 as usize].handle(now, link, request);
            }
            Body::Peer { to, message, .. } => {
                self.lines.push(line);
                self.shards[to.0 as usize].handle_peer(now, message);
            }
            Body::Response { from, to, response } => match self.machine(to) {
                Ok(machine) => {
                    machine.handle_response(now, from, response);
                    self.lines.push(line);
                }
                Err(_) => self.lines.push(line + " (nobody is there)"),
            },
        }
        self.collect();
    }

    fn send(&mut self, from: SessionId, to: ShardId, request: Request) {
        let link = self.link(from, to);
        self.messages.push(Message::new(Body::Request { link, to, request }));
    }

    fn link(&self, session: SessionId, to: ShardId) -> Link {
        let connection = self.clients[&session].connections.get(&to).copied().unwrap_or_default();
        Link { session, connection }
    }

    /// Takes what the machines want to send, and what users hear.
    fn collect(&mut self) {
        for shard in &mut self.shards {
            let from = shard.id();
            while let Some(output) = shard.poll_output() {
                let body = match output {
                    Output::Respond { session, response } => Body::Response { from, to: session, response },
                    Output::Tell { shard, message } => Body::Peer { from, to: shard, message },
                };
                self.messages.push(Message::new(body));
            }
        }
        let (mut sends, mut events) = (Vec::new(), Vec::new());
        for (session, client) in &mut self.clients {
            let Some(machine) = &mut client.machine else { continue };
            machine.settle(self.now);
            sends.extend(std::iter::from_fn(|| machine.poll_send()).map(|send| (*session, send)));
            events.extend(std::iter::from_fn(|| machine.poll_event()).map(|event| (*session, event)));
        }
        events.into_iter().for_each(|(session, (handle, event))| self.hear(session, handle, &event));
        self.note_attempts();
        sends.into_iter().for_each(|(from, (to, request))| self.send(from, to, request));
    }

    fn hear(&mut self, session: SessionId, handle: TxHandle, event: &Event) {
        let found = self.txs.iter_mut().find(|tx| (tx.session, tx.handle) == (session, handle));
        let tx = found.expect("everybody is begun by the script");
        match event {
            Event::Answer { no, .. } => tx.awaited.retain(|awaited| awaited != no),
            Event::Behind { .. } | Event::Seen { .. } => {}
            _ => tx.awaited.clear(),
        }
        tx.standing = match event {
            Event::Answer { .. } | Event::Behind { .. } | Event::Seen { .. } => tx.standing,
            Event::Restart { .. } => Standing::Restarts,
            Event::Committed { .. } | Event::Aborted | Event::Failed { .. } | Event::Unknown => {
                Standing::Ended
            }
        };
        let line = tell::event(&tx.name, event);
        self.lines.push(line);
    }

    /// Under which ids transactions speak now.
    fn note_attempts(&mut self) {
        for tx in &mut self.txs {
            let machine = self.clients[&tx.session].machine.as_ref();
            if let Some(attempt) = machine.and_then(|machine| machine.attempt(tx.handle)) {
                self.names.name(attempt.tx, &tx.name);
                tx.attempt = attempt;
            }
        }
    }
}

/// Time and trouble.
impl Playback {
    /// Lets time pass from one timer to the next.
    fn pass(&mut self, by: u64) -> Result<(), String> {
        let end = self.now.plus(by);
        for _ in 0..STEPS_MAX {
            let machines = self.clients.values().flat_map(|client| &client.machine);
            let of_clients = machines.filter_map(Client::poll_timeout);
            let due = self.shards.iter().filter_map(Shard::poll_timeout).chain(of_clients).min();
            let Some(due) = due.filter(|due| *due <= end) else {
                self.now = end;
                return Ok(());
            };
            self.now = self.now.max(due);
            let now = self.now;
            self.shards.iter_mut().for_each(|shard| shard.handle_timeout(now));
            let machines = self.clients.values_mut().flat_map(|client| &mut client.machine);
            machines.for_each(|machine| machine.handle_timeout(now));
            self.collect();
        }
        Err("timers without end".into())
    }

    fn restart_shard(&mut self, at: ShardId, survives: Survives) -> Result<(), String> {
        let now = self.now;
        let shard = self.shard(at)?;
        let next = Incarnation(shard.incarnation().0 + 1);
        shard.restart(now, next, survives);
        self.lines.push(format!("{}{at} is {at}@{} now", tell::INDENT, next.0));
        self.collect();
        Ok(())
    }

    fn reconnect(&mut self, session: SessionId, at: ShardId) -> Result<(), String> {
        let incarnation = self.shard(at)?.incarnation();
        let now = self.now;
        self.machine(session)?.meet(now, at, incarnation);
        *self.client(session)?.connections.entry(at).or_default() += 1;
        self.heartbeat(session, Some(at))
    }

    fn heartbeat(&mut self, session: SessionId, at: Option<ShardId>) -> Result<(), String> {
        if let Some(at) = at {
            self.shard(at)?;
        }
        let machine = self.machine(session)?;
        let (live, low_water) = (machine.live(), machine.low_water());
        let all: Vec<ShardId> = self.shards.iter().map(Shard::id).collect();
        for to in all.into_iter().filter(|shard| at.is_none_or(|at| at == *shard)) {
            self.send(session, to, Request::Heartbeat { live: live.clone(), low_water });
        }
        Ok(())
    }
}

/// Where shards are a call away, each has one.
fn slot(shard: ShardId) -> u16 {
    shard.0 as u16
}
