//! One client, from its first command to its last.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes as Word, BytesMut};
use claret::Caller;
use claret_commands::{Answer, Command, NoKeys, Runner, Way};
use claret_redis::Forward;
use claret_types::Bytes;

use crate::connection::{Connection, Next};
use crate::fault::Fault;
use crate::memory::{Account, Charge};
use crate::metrics::{Metrics, Path};
use crate::place;
use crate::pubsub::Listening;
use crate::queue::Queue;
use crate::registry::{At, Entry};
use crate::replies::{Replies, late_at_node};
use crate::request::Request;
use crate::resp::{Floats, Form, Protocol, write};
use crate::scripts::is_script;
use crate::session::Session;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::turns::Tries;
use crate::watch::Watch;
use crate::work::{AT_ONCE_BYTES_MAX, Work};

/// Whether the client wants answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wants {
    #[default]
    All,
    None,
    /// None to this one.
    NotThis,
}

/// What a connection is, as its client made it.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) protocol: Protocol,
    pub(crate) wants: Wants,
    /// Between MULTI and EXEC.
    pub(crate) queue: Option<Queue>,
    pub(crate) watch: Watch,
    pub(crate) listening: Option<Listening>,
    pub(crate) is_closing: bool,
    pub(crate) tries: Tries,
    /// It is settled whom it is.
    pub(crate) is_known: bool,
    /// It has said who it is.
    pub(crate) has_logged_in: bool,
}

/// See the module's text.
pub(crate) struct Client {
    pub(crate) shared: Rc<Shared>,
    pub(crate) session: Option<Rc<Session>>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) state: State,
    pub(crate) replies: Arc<Replies>,
    /// For whom the store is used.
    pub(crate) caller: Caller,
    connection: Connection,
    /// What is queued and watched.
    charge: Charge,
    pub(crate) work: Work,
    /// Commands that leave for their nodes together.
    gathered: Vec<(u32, Option<u16>)>,
    /// The topology when the first command left that is not answered.
    topology: u64,
    /// Requests, and their bytes, since others had their turn.
    taken: (usize, usize),
}

/// After so many requests that were there at once others have their turn,
const TURN_REQUESTS: usize = 1_024;

/// and after so many bytes of them.
const TURN_BYTES: usize = 256 << 10;

impl Client {
    pub(crate) fn new(stream: Stream, shared: Rc<Shared>, entry: Arc<Entry>) -> Self {
        let (metrics, memory) = (&shared.metrics, &shared.memory);
        let account = Account::new(Arc::clone(&entry), Arc::clone(memory));
        let replies = Arc::new(Replies::new(Arc::clone(metrics), &account));
        let connection = Connection::new(stream, Arc::clone(&replies), Arc::clone(metrics), &account);
        let (charge, work) = (account.charge(), Work::of(&account, Arc::clone(metrics)));
        shared.waiting.borrow_mut().insert(entry.id, Arc::clone(&replies));
        let mut state = State::default();
        state.watch.mode = shared.modes.watch;
        // What answers cost is charged to the entry, which they know: so it does not own them.
        let answers = Arc::downgrade(&replies);
        entry.note_load(move || {
            answers.upgrade().map_or((0, 0), |replies| {
                let load = replies.load();
                (load.waiting, load.unread_bytes)
            })
        });
        Client {
            shared,
            session: None,
            entry,
            state,
            replies,
            caller: Caller::new(),
            connection,
            charge,
            work,
            gathered: Vec::new(),
            topology: 0,
            taken: (0, 0),
        }
    }

    /// Serves it until it goes, or has to.
    pub(crate) async fn serve(mut self) {
        loop {
            if !self.state.is_known {
                Box::pin(self.become_stranger()).await;
            }
            let next = self.next().await;
            match next {
                Next::Request(request) => {
                    self.give_way(request.raw.len()).await;
                    let command = claret_commands::named(&request.words[0]);
                    let left = self.pass_on(command, request).and_then(|it| self.queue_up(command, it));
                    if let Some(request) = left {
                        self.dispatch(command, request).await;
                        self.note_at();
                    }
                }
                Next::Pause => self.send_gathered().await,
                Next::Wrong(error) => {
                    Metrics::count(&self.shared.metrics.protocol_errors);
                    self.send_gathered().await;
                    self.replies.answer(&Answer::Error(error.0), self.state.protocol, false);
                    self.state.is_closing = true;
                }
                Next::Closed => break,
            }
            if self.state.is_closing {
                break;
            }
        }
        self.state.queue = None;
        self.state.watch.forget();
        if let Some(why) = self.entry.over() {
            // What it has not read is in the way.
            let line = format!("-ERR {why}\r\n");
            self.connection.say_last(line.as_bytes()).await;
        } else {
            self.part().await;
        }
        self.replies.leave();
        self.shared.waiting.borrow_mut().remove(&self.entry.id);
        self.become_user(None);
    }

    /// A client that sends much at once lets others go on in between.
    async fn give_way(&mut self, bytes: usize) {
        let (count, sum) = (self.taken.0 + 1, self.taken.1 + bytes);
        let is_much = count >= TURN_REQUESTS || sum >= TURN_BYTES;
        self.taken = if is_much { (0, 0) } else { (count, sum) };
        if is_much {
            Metrics::count(&self.shared.metrics.gave_way);
            tokio::task::yield_now().await;
        }
    }

    /// Commands that came before the end of what it sent are answered.
    async fn part(&mut self) {
        self.send_gathered().await;
        let end = async {
            if self.connection.drained(0).await {
                self.connection.flushed().await;
            }
            self.connection.close().await;
        };
        // Where the gateway ends, whatever runs has the time that it has.
        let time = match self.shared.draining.has_begun() {
            true => self.shared.times.parting + self.shared.times.wait,
            false => self.shared.times.parting,
        };
        let _ = tokio::time::timeout(time, end).await;
    }

    async fn next(&mut self) -> Next {
        let shared = Rc::clone(&self.shared);
        let limits = &shared.limits;
        let of_request = match self.session {
            Some(_) => limits.of_request(),
            None => crate::limits::RequestLimits::STRANGER,
        };
        let queued = self.state.queue.as_ref().map_or(0, Queue::bytes);
        self.charge.set(queued + self.state.watch.size().1);
        let has_gathered = !self.gathered.is_empty();
        let is_idle_for_ever = limits.idle.is_zero() || self.state.listening.is_some();
        let wait = if is_idle_for_ever { Duration::from_secs(365 * 86_400) } else { limits.idle };
        if self.entry.is_killed() || shared.draining.has_begun() {
            return Next::Closed;
        }
        match self.try_ready(&of_request) {
            Ok(Some(request)) => return Next::Request(request),
            Ok(None) => {}
            Err(error) => return Next::Wrong(error),
        }
        let entry = Arc::clone(&self.entry);
        tokio::select! {
            biased;
            next = self.connection.next(limits, &of_request, has_gathered) => next,
            () = entry.killed() => Next::Closed,
            () = shared.draining.ended() => Next::Closed,
            () = tokio::time::sleep(wait), if !is_idle_for_ever => Next::Closed,
        }
    }

    /// Whole requests that are there, as long as there is room for their answers.
    fn try_ready(
        &mut self,
        limits: &crate::limits::RequestLimits,
    ) -> Result<Option<Request>, crate::request::ProtocolError> {
        match self.connection.may_take(&self.shared.limits) {
            true => self.connection.ready(limits),
            false => Ok(None),
        }
    }

    /// What was gathered leaves. Where slots have moved, a later command could overtake an earlier one that is still sent after its key:
    /// then the earlier ones are waited for.
    async fn send_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let session = self.session.clone();
        let plain = session.as_ref().and_then(|session| session.nodes()?.open_plain(self.state.protocol));
        let Some(plain) = plain else {
            // It has no user any more.
            for (no, _) in std::mem::take(&mut self.gathered) {
                self.replies.receive(no, Ok(b"-NOAUTH Authentication required.\r\n"));
            }
            return;
        };
        let to: Arc<dyn Forward> = Arc::clone(&self.replies) as Arc<dyn Forward>;
        while !plain.forward_all_since(self.topology, &to, self.gathered.iter().copied()) {
            self.topology = plain.topology_version();
            if !self.connection.drained(self.gathered.len()).await {
                self.state.is_closing = true;
            }
        }
        self.gathered.clear();
    }

    /// Waits until all earlier commands are answered, so that the next one comes after them everywhere.
    pub(crate) async fn settled(&mut self) {
        self.send_gathered().await;
        if !self.connection.drained(0).await {
            self.state.is_closing = true;
        }
    }
}

/// Answers.
impl Client {
    pub(crate) fn answer(&mut self, answer: &Answer) {
        let is_muted = self.takes_no_answer();
        let floats = if self.shared.users.writes_17_digits() { Floats::Digits17 } else { Floats::Shortest };
        self.replies.answer(answer, Form { protocol: self.state.protocol, floats }, is_muted);
    }

    /// The same of one that may be large: then another thread writes it.
    async fn tell(&mut self, answer: Answer) {
        let bytes = answer.bytes_up_to(AT_ONCE_BYTES_MAX);
        if bytes < AT_ONCE_BYTES_MAX {
            return self.answer(&answer);
        }
        let protocol = self.state.protocol;
        let written = move || {
            let mut out = BytesMut::new();
            write(&answer, &mut out, protocol);
            out
        };
        let written = (&self.work as &dyn Runner).aside(bytes, written).await;
        if !self.takes_no_answer() {
            self.replies.answer_written(written);
        }
    }

    fn takes_no_answer(&mut self) -> bool {
        match self.state.wants {
            Wants::All => false,
            Wants::None => true,
            Wants::NotThis => {
                self.state.wants = Wants::All;
                true
            }
        }
    }

    /// What most commands are: one for one node, with nothing around it. It joins what leaves together. Any other is given back.
    fn pass_on(&mut self, command: Option<&'static Command>, request: Request) -> Option<Request> {
        let is_plain = self.state.queue.is_none()
            && self.state.listening.is_none()
            && self.state.watch.is_empty()
            && self.state.wants == Wants::All;
        let nodes = self.session.as_ref().and_then(|session| session.nodes());
        let is_open = nodes.is_some_and(|nodes| nodes.open_plain(self.state.protocol).is_some());
        let command = command.filter(|command| is_plain && is_open && command.takes(request.words.len()));
        let Some(command) = command else { return Some(request) };
        let is_sent = matches!(command.way, Way::Operation | Way::Steps | Way::Node) && !command.is_own;
        let Some(slot) = is_sent.then(|| command.slot(&request.words).ok()).flatten() else {
            return Some(request);
        };
        let is_later = !self.shared.arriving.before(command, &request.words, None).is_empty();
        if is_later || self.uses_hot_key(command, &request.words) || self.is_locked(command, &request.words) {
            return Some(request);
        }
        let now = Instant::now();
        self.entry.note(command.name, now);
        let no = self.replies.wait(request.raw, command.changes_nothing(), false, now);
        self.gathered.push((no, slot));
        None
    }

    /// MULTI, and what is queued behind it, where no earlier command is on its way. Any other is given back.
    fn queue_up(&mut self, command: Option<&'static Command>, request: Request) -> Option<Request> {
        let is_one = |command: &&Command| match self.state.queue {
            None => command.name == "MULTI" && self.replies.load().waiting == 0,
            Some(_) => command.way != Way::Refused && !Queue::is_for_now(command.name),
        };
        let command = command.filter(is_one).filter(|_| self.gathered.is_empty());
        let Some(command) = command.filter(|_| self.admit(command, &request).is_ok()) else {
            return Some(request);
        };
        let since = Instant::now();
        self.entry.note(command.name, since);
        if self.state.queue.is_some() {
            self.enqueue(command, request);
        } else {
            let answer = self.multi();
            self.shared.metrics.done(path_of(command), since, false);
            self.answer(&answer);
        }
        self.note_at();
        None
    }

    /// For those who list connections.
    fn note_at(&self) {
        let queue = self.state.queue.as_ref();
        self.entry.note_at(At {
            queued: queue.map(|queue| queue.all.len()),
            queued_bytes: queue.map_or(0, Queue::bytes),
            watched: self.state.watch.size().0,
        });
    }

    /// Whether somebody elsewhere may hold a key of it for long. It would wait at the node, and all behind it on the shared connection.
    fn uses_hot_key(&self, command: &Command, words: &[Word]) -> bool {
        let Some(session) = &self.session else { return false };
        let hot = session.hot.borrow();
        if hot.is_empty() {
            return false;
        }
        let now = Instant::now();
        let mut places = match command.keys.of(words) {
            Ok(places) => places.take(HOT_LOOKED_AT_MAX),
            Err(_) => return false,
        };
        places.any(|at| hot.is_of_others(&Bytes::copy_from(&words[at]), now))
    }
}

/// What a command is, and who carries it out.
impl Client {
    async fn dispatch(&mut self, command: Option<&'static Command>, request: Request) {
        let since = Instant::now();
        if request.is_of_http() {
            self.shared.log("a connection was closed that speaks HTTP");
            self.state.is_closing = true;
            return;
        }
        let command = match self.admit(command, &request) {
            Ok(command) => command,
            Err(error) => {
                if let Some(queue) = &mut self.state.queue {
                    queue.fail();
                }
                self.send_gathered().await;
                return self.answer(&Answer::Error(error));
            }
        };
        self.entry.note(command.name, since);
        if self.state.queue.is_some() && !Queue::is_for_now(command.name) {
            self.send_gathered().await;
            return self.enqueue(command, request);
        }
        self.arrive(command, &request.words).await;
        match self.slot_to_forward(command, &request) {
            Ok(Some(slot)) => {
                if command.writes {
                    self.pass_locks(command, &request.words).await;
                }
                self.forward(command, request, slot, since).await;
            }
            Ok(None) => {
                self.settled().await;
                self.work.begin(crate::queue::kept_bytes(&request));
                let answer = self.carry_out_in_time(command, &request.words).await;
                let is_error = answer.as_ref().is_some_and(Answer::is_error);
                self.shared.metrics.done(path_of(command), since, is_error);
                match answer {
                    Some(answer) => self.tell(answer).await,
                    // A command without an answer uses a skip up all the same, unless it asked for it.
                    None if command.name != "CLIENT" => drop(self.takes_no_answer()),
                    None => {}
                }
                self.work.begin(0);
            }
            Err(fault) => {
                self.settled().await;
                self.answer(&fault.into());
            }
        }
        self.entry.arrives(None);
    }

    /// What others sent before this takes effect before it. Whoever sends something later waits for this, if it has to arrive somewhere.
    async fn arrive(&mut self, command: &Command, words: &[Word]) {
        let arriving = Arc::clone(&self.shared.arriving);
        let queued = self.state.queue.as_ref().filter(|_| command.name == "EXEC").map(|queue| queue.slots);
        let earlier = arriving.before(command, words, queued);
        self.entry.arrives(arriving.enter(command, words));
        if !earlier.is_empty() {
            self.send_gathered().await;
            // Not for longer than for anything else.
            let _ = tokio::time::timeout(self.shared.times.wait, arriving.arrived(&earlier)).await;
        }
    }

    /// Carries it out, and waits for no longer than for anything at the gateway, unless it is to wait. EXEC sees to that by itself.
    async fn carry_out_in_time(&mut self, command: &'static Command, words: &[Word]) -> Option<Answer> {
        let is_bounded = !matches!(command.way, Way::Local | Way::PubSub) && !command.may_wait(words);
        let wait = self.shared.times.wait;
        let work = self.carry_out(command, words);
        if !is_bounded {
            return work.await;
        }
        match tokio::time::timeout(wait, work).await {
            Ok(answer) => answer,
            Err(_) => Some(self.shared.late(late_at_node(command.changes_nothing(), wait))),
        }
    }

    /// Carries a command out; `None` if it has no answer, or answered by itself.
    async fn carry_out(&mut self, command: &'static Command, words: &[Word]) -> Option<Answer> {
        match command.way {
            Way::Local => match command.name {
                "MULTI" => Some(self.multi()),
                "EXEC" => Some(self.exec().await),
                "DISCARD" => Some(self.discard()),
                "WATCH" => Some(Box::pin(self.watch(words)).await),
                "UNWATCH" => Some(self.unwatch()),
                _ => self.local(command, words).await,
            },
            // In boxes: they are large, and EXEC passes by them.
            Way::FanOut if command.name == "SCRIPT" => {
                match Box::pin(self.script_command(command, words)).await {
                    Some(answer) => Some(answer),
                    None => Some(Box::pin(self.fan_out(command, words)).await),
                }
            }
            Way::FanOut if command.name == "FUNCTION" => {
                match Box::pin(self.function_command(command, words)).await {
                    Some(answer) => Some(answer),
                    None => Some(Box::pin(self.fan_out(command, words)).await),
                }
            }
            Way::FanOut => Some(Box::pin(self.fan_out(command, words)).await),
            Way::PubSub => Box::pin(self.subscribe(command, words)).await,
            Way::Operation | Way::Steps | Way::Node | Way::Script | Way::Blocking => {
                let answer = Box::pin(self.one(command, words)).await;
                // Nobody hears it.
                (!self.state.is_closing).then_some(answer)
            }
            Way::Refused => Some(Answer::error("ERR it is refused")),
        }
    }

    /// The command, if it is one and the client may send it now.
    fn admit(
        &self,
        command: Option<&'static Command>,
        request: &Request,
    ) -> Result<&'static Command, String> {
        let Some(command) = command else { return Err(unknown(&request.words)) };
        let shown = || command.name.to_ascii_lowercase();
        if !command.takes(request.words.len()) {
            return Err(format!("ERR wrong number of arguments for '{}' command", shown()));
        }
        if self.session.is_none() && !matches!(command.name, "AUTH" | "HELLO" | "QUIT" | "RESET") {
            return Err("NOAUTH Authentication required.".to_owned());
        }
        let is_old = self.state.protocol == Protocol::Resp2;
        if is_old && self.state.listening.is_some() && !Listening::allows(command) {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                shown()
            ));
        }
        if command.way == Way::Refused {
            if self.shared.metrics.refuse(command.name) {
                self.shared.log(&format!("{} is refused: {}", shown(), command.note));
            }
            return Err(format!("ERR '{}' is not for the gateway: {}", shown(), command.note));
        }
        let is_here = self.session.as_ref().is_some_and(|session| session.nodes().is_none());
        let needs_node = matches!(command.way, Way::Node | Way::Blocking | Way::PubSub | Way::Script);
        if is_here && needs_node && !is_done_here(command) {
            return Err(format!(
                "ERR '{}' needs a server, and this gateway keeps its records in its own process: start it with \
                 --store redis://HOST:PORT",
                shown()
            ));
        }
        Ok(command)
    }

    /// The slot to whose node a command is sent as it is; `Some(None)`: any node. `None`: it is carried out otherwise.
    fn slot_to_forward(&self, command: &Command, request: &Request) -> Result<Option<Option<u16>>, Fault> {
        let is_sent = match command.way {
            Way::Node => true,
            Way::Operation | Way::Steps => !command.is_own,
            _ => false,
        };
        let is_at_nodes = self.session.as_ref().is_some_and(|session| session.nodes().is_some());
        let words = &request.words;
        if !is_sent
            || !is_at_nodes
            || self.state.watch.concerns(command, words)
            || self.uses_hot_key(command, words)
        {
            return Ok(None);
        }
        match command.slot(&request.words) {
            Ok(slot) => Ok(Some(slot)),
            // The node says what is wrong.
            Err(NoKeys::Malformed) => Ok(Some(None)),
            Err(NoKeys::SeveralSlots) if command.way.is_transactional() => Ok(None),
            Err(NoKeys::SeveralSlots) => Err(crosses_slots(command)),
        }
    }

    /// Sends a command to its node. The answer goes to the client by itself.
    async fn forward(&mut self, command: &Command, request: Request, slot: Option<u16>, since: Instant) {
        let session = self.session.clone().expect("it was admitted");
        let nodes = session.nodes().expect("it is forwarded");
        let protocol = self.state.protocol;
        if nodes.open_plain(protocol).is_none()
            && let Err(error) = self.shared.connected(nodes.plain(protocol)).await
        {
            return self.answer(&Answer::Error(error));
        }
        let is_muted = self.takes_no_answer();
        let no = self.replies.wait(request.raw, command.changes_nothing(), is_muted, since);
        self.gathered.push((no, slot));
    }

    fn enqueue(&mut self, command: &'static Command, request: Request) {
        let queue = self.state.queue.as_mut().expect("it is open");
        let is_at_nodes = self.session.as_ref().is_some_and(|session| session.nodes().is_some());
        let is_watching = self.state.watch.size().0 > 0;
        let answer = match queue.add(command, request, &self.shared.limits, is_at_nodes, is_watching) {
            Ok(()) => Answer::Simple("QUEUED"),
            Err(fault) => {
                queue.fail();
                fault.into()
            }
        };
        self.answer(&answer);
    }
}

/// Waiting for locks.
impl Client {
    /// Whether another connection has locks on a key that a command writes.
    fn is_locked(&self, command: &'static Command, words: &[Word]) -> bool {
        let Some(session) = &self.session else { return false };
        command.writes && session.turns.borrow().locked(self.entry.id, command.keys_in(words)).is_some()
    }

    /// Waits for the end of such locks: at the node it would wait, too, and hold up what is behind it.
    async fn pass_locks(&mut self, command: &'static Command, words: &[Word]) {
        if !self.is_locked(command, words) {
            return;
        }
        self.send_gathered().await;
        let Some(session) = self.session.clone() else { return };
        let keys = || command.keys_in(words);
        // Who has gone is not looked for here: what it sent is on its way to a node, as on one server.
        let _ = place::pass(&session.turns, (self.entry.id, &self.caller), keys, self.shared.times.passing())
            .await;
    }

    /// Carries something out for a client that may go meanwhile. Then what waits ends without effect ([`Caller`]).
    pub(crate) async fn until_gone<T>(&mut self, work: impl Future<Output = T>) -> T {
        let entry = Arc::clone(&self.entry);
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.connection.gone() => {}
            () = entry.killed() => {}
        }
        self.caller.leave();
        let done = work.await;
        // Whoever sends so much behind it that it is not waited for may be there still.
        self.caller = Caller::new();
        done
    }

    /// Waits for something that may take long; `None` if the client goes meanwhile.
    pub(crate) async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let entry = Arc::clone(&self.entry);
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.shared.draining.ended() => {
                self.state.is_closing = true;
                None
            }
            () = self.connection.gone() => {
                self.state.is_closing = true;
                None
            }
            () = entry.killed() => {
                self.state.is_closing = true;
                None
            }
        }
    }
}

/// Whether a command of nodes is done where the records are in this process.
fn is_done_here(command: &Command) -> bool {
    command.is_waiting_pop()
        || is_script(command)
        || command.group == "pubsub"
        || claret_types::is_done_in_memory(command.name.as_bytes())
}

fn path_of(command: &Command) -> Path {
    match command.way {
        Way::Operation | Way::Steps => Path::Transaction,
        Way::Node | Way::Script => Path::Forwarded,
        Way::Blocking | Way::PubSub => Path::OwnConnection,
        Way::FanOut => Path::FanOut,
        Way::Local if command.name == "EXEC" => Path::Exec,
        Way::Local if command.name == "WATCH" => Path::Watch,
        Way::Local | Way::Refused => Path::Local,
    }
}

/// Keys of one command that are looked for among those that are hot.
const HOT_LOOKED_AT_MAX: usize = 16;

/// Still true: what a node does at once has to be on it.
pub(crate) fn crosses_slots(command: &Command) -> Fault {
    let shown = command.name.to_ascii_lowercase();
    Fault::told(format!(
        "CROSSSLOT '{shown}' is done by one node, and its keys are in several slots: give them a common {{tag}}"
    ))
}

/// As servers say it, with the beginning of the arguments.
fn unknown(words: &[Word]) -> String {
    let shown = |word: &Word| word[..word.len().min(128)].escape_ascii().to_string();
    let mut args = String::new();
    for word in words.iter().skip(1) {
        if args.len() > 128 {
            break;
        }
        args.push_str(&format!("'{}' ", shown(word)));
    }
    format!("ERR unknown command '{}', with args beginning with: {args}", shown(&words[0]))
}
