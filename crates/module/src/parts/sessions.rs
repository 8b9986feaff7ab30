//! Client processes: which connections speak for a session, as which user, and how the session hears later responses.
//!
//! A session is a key pair of the process. Each connection proves that it speaks for the session, by signing a
//! challenge that is drawn here for it alone. The session belongs to the ACL user that first said hello with it, and
//! its connections are numbered upwards (P29). Responses that arise while it is not asking wait in its **outbox**
//! until they are pushed, polled, or taken along by its next frame. An outbox is bounded: of more the oldest go, and
//! the protocol asks for them again.

use claret_core::message::{Link, Response};
use claret_core::{SessionId, ShardId, Time, wire};
use claret_identity::{Challenge, PublicKey, Signature, Statement};
use claret_planted::{Bug, is_planted};
use hashbrown::HashMap;

use crate::ffi::Blocked;
use crate::parts::error::{Error, Outcome};
use crate::parts::outbox::Outbox;
use crate::parts::owner::{Name, Owner};

/// How a session hears what arises later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With its next frame.
    Waits,
    /// By a message on this shard channel, to which it is subscribed.
    Push(Vec<u8>),
    /// By asking for it with `CLARET.POLL`.
    Poll,
    /// By letter: it is a helper of this node (docs/errands.md). So many frames came over its newest connection, and of so many it
    /// was told that they were answered.
    Letter { home: String, heard: u32, told: u32 },
}

/// One client process.
pub(crate) struct ClientProcess {
    /// Whose signatures count. A number is short enough that, with much effort, another key may be found for it. `None`: it is a helper,
    /// for which its home's seal counts.
    key: Option<PublicKey>,
    /// Whose it is.
    user: Name,
    /// Its newest connection.
    connection: u32,
    /// The server's number of that.
    client: u64,
    way: Way,
    outbox: Outbox,
    /// It is among those with something new.
    is_fresh: bool,
    /// A client that waits for the outbox.
    poller: Option<Blocked>,
    /// How long it waits.
    polls_until: Time,
    /// Connections of it that are open.
    bound: usize,
    /// Since when none is.
    alone_since: Time,
}

/// All sessions, and the connections that speak for them.
#[derive(Default)]
pub(crate) struct Sessions {
    known: HashMap<SessionId, ClientProcess, foldhash::fast::FixedState>,
    /// How many of them each user has.
    users: HashMap<Name, u64, foldhash::fast::FixedState>,
    /// Bytes in all outboxes.
    outbox_bytes: usize,
    /// By the server's number of the client.
    clients: HashMap<u64, Progress, foldhash::fast::FixedState>,
    /// Sessions with something new in their outbox.
    fresh: Vec<SessionId>,
    /// No poller's time is over before this; `None` when nobody polls.
    next_late: Option<Time>,
    /// Responses that were dropped from full outboxes.
    pub(crate) dropped: u64,
    /// Those whose last connection closed, and of which the shard does not know that yet.
    deserted: Vec<SessionId>,
}

/// What a connection proved.
#[derive(Clone, Copy, Debug)]
struct Bound {
    link: Link,
    /// It waits for what arises later, and sends no frames.
    listens: bool,
}

/// How far a connection is with its hello. To look at a proof costs the server more than to send one costs the client,
/// and a session costs memory: each connection has one proof, and never another challenge.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// It is to sign this.
    Asked(Challenge),
    /// Its proof was wrong, or its session was not let in.
    Refused,
    Bound(Bound),
}

/// Who says hello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake<'a> {
    /// The server's number of the connection.
    pub(crate) client: u64,
    pub(crate) user: &'a Name,
    pub(crate) key: PublicKey,
    /// The connection's number within its session.
    pub(crate) connection: u32,
    /// The words that say how it hears of what arises later.
    pub(crate) words: &'a [&'a [u8]],
}

impl Handshake<'_> {
    fn link(&self) -> Link {
        Link { session: self.key.session(), connection: self.connection }
    }
}

/// How many there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionBounds {
    pub(crate) sessions_max: u64,
    pub(crate) user_sessions_max: u64,
}

/// What may wait for sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboxBounds {
    /// Responses for one.
    pub(crate) count_max: u64,
    /// Bytes for one.
    pub(crate) bytes_max: u64,
    /// Bytes for all: of more, each has the same share.
    pub(crate) all_bytes_max: u64,
}

/// What there is to deliver.
pub(crate) enum Delivery {
    /// Publish these, and keep them if nobody listens.
    Push(Vec<u8>, Vec<Response>),
    /// Let a waiting client go: it takes the outbox.
    Wake(Blocked),
    /// Write to a home, over this connection, that so many frames are answered, and these.
    Letter { home: String, link: Link, answered: u32, responses: Vec<Response> },
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Responses that wait in outboxes.
    pub(crate) fn waiting(&self) -> usize {
        self.known.values().map(|session| session.outbox.len()).sum()
    }

    /// Asks a connection to sign something that was never signed before.
    pub(crate) fn ask(&mut self, client: u64, challenge: Challenge) -> Outcome {
        self.challenge(client)?;
        self.clients.insert(client, Progress::Asked(challenge));
        Ok(())
    }

    /// What a connection is to sign. It may have been asked for nothing yet.
    fn challenge(&self, client: u64) -> Result<Option<Challenge>, Error> {
        match self.clients.get(&client) {
            None => Ok(None),
            Some(Progress::Asked(challenge)) => Ok(Some(*challenge)),
            Some(Progress::Refused) => Err(Error::HelloFailed),
            Some(Progress::Bound(_)) => Err(Error::HelloTwice),
        }
    }

    /// Holds a proof against what was asked.
    pub(crate) fn prove(&mut self, handshake: &Handshake<'_>, shard: ShardId, proof: &Signature) -> Outcome {
        let challenge = self.challenge(handshake.client)?.ok_or(Error::NothingToProve)?;
        // Until it is let in, whatever is wrong.
        let meanwhile =
            if is_planted(Bug::ProvesAgain) { Progress::Asked(challenge) } else { Progress::Refused };
        self.clients.insert(handshake.client, meanwhile);
        let Link { session, connection } = handshake.link();
        let version = wire::VERSION;
        let statement = Statement { version, shard, challenge, session, connection, way: handshake.words };
        match handshake.key.verify(&statement, proof) || is_planted(Bug::ProofUnchecked) {
            true => Ok(()),
            false => Err(Error::HelloFailed),
        }
    }

    /// Bytes of them.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.outbox_bytes
    }

    /// Binds a connection that just proved its session, and that listens if no way is given for the session.
    pub(crate) fn hello(
        &mut self,
        handshake: &Handshake<'_>,
        way: Option<Way>,
        bounds: SessionBounds,
    ) -> Outcome {
        let bound = match way {
            Some(way) => self.speak(handshake, way, bounds)?,
            None => self.listen(handshake)?,
        };
        self.clients.insert(handshake.client, Progress::Bound(bound));
        Ok(())
    }

    fn speak(&mut self, handshake: &Handshake<'_>, way: Way, bounds: SessionBounds) -> Result<Bound, Error> {
        let (link, user) = (handshake.link(), handshake.user);
        if let Some(known) = self.known.get(&link.session) {
            known.is_of(handshake)?;
        }
        let session = self.let_in(link, user, way, bounds)?;
        (session.key, session.client) = (Some(handshake.key), handshake.client);
        session.bound += 1;
        Ok(Bound { link, listens: false })
    }

    /// A session of this user speaks over this connection from now on.
    fn let_in(
        &mut self,
        link: Link,
        user: &Name,
        way: Way,
        bounds: SessionBounds,
    ) -> Result<&mut ClientProcess, Error> {
        if !self.known.contains_key(&link.session) {
            if self.known.len() as u64 >= bounds.sessions_max && !is_planted(Bug::SessionsUnbounded) {
                return Err(Error::TooManySessions(bounds.sessions_max));
            }
            let limit = bounds.user_sessions_max;
            let of_user = self.users.entry(user.clone()).or_default();
            if *of_user >= limit && !is_planted(Bug::UserSessionsUnbounded) {
                return Err(Error::TooManySessionsOfUser(limit));
            }
            *of_user += 1;
            let fresh = ClientProcess {
                key: None,
                user: user.clone(),
                connection: link.connection,
                client: 0,
                way: Way::Waits,
                outbox: Outbox::default(),
                is_fresh: false,
                poller: None,
                polls_until: Time(0),
                bound: 0,
                alone_since: Time(0),
            };
            self.known.insert(link.session, fresh);
        }
        let session = self.known.get_mut(&link.session).expect("just put there");
        if link.connection < session.connection && !is_planted(Bug::OldConnectionLetIn) {
            return Err(Error::OldConnection { newer: session.connection });
        }
        (session.connection, session.way) = (link.connection, way);
        Ok(session)
    }

    fn listen(&self, handshake: &Handshake<'_>) -> Result<Bound, Error> {
        let link = handshake.link();
        self.known.get(&link.session).ok_or(Error::NoSession)?.is_of(handshake)?;
        Ok(Bound { link, listens: true })
    }

    fn bound(&self, client: u64) -> Option<Bound> {
        match self.clients.get(&client)? {
            Progress::Bound(bound) => Some(*bound),
            Progress::Asked(_) | Progress::Refused => None,
        }
    }

    /// The link that a client's frames come over.
    pub(crate) fn link(&self, client: u64, user: &Name) -> Result<Link, Error> {
        let bound = self.bound(client).filter(|bound| !bound.listens).ok_or(Error::NoSession)?;
        self.known.get(&bound.link.session).ok_or(Error::NoSession)?.belongs_to(user)?;
        Ok(bound.link)
    }

    /// Whose a session is.
    pub(crate) fn owner_of(&self, session: SessionId) -> Option<Owner> {
        let session = self.known.get(&session)?;
        let has_client = session.bound > 0 && session.key.is_some();
        Some(Owner { user: session.user.clone(), client: has_client.then_some(session.client) })
    }

    /// A client's connection is closed: the session that has none left.
    pub(crate) fn closed(&mut self, now: Time, client: u64) -> Option<SessionId> {
        let bound = self.bound(client);
        self.clients.remove(&client);
        let Bound { link, listens } = bound?;
        ((!listens || is_planted(Bug::ListenerEndsSession)) && self.unbind(link.session, now))
            .then_some(link.session)
    }

    /// The shard is to hear that the last connection of one closed.
    pub(crate) fn note_deserted(&mut self, session: SessionId) {
        self.deserted.push(session);
    }

    /// Takes those of which it is to hear so, unless they have a connection again.
    pub(crate) fn take_deserted(&mut self) -> Vec<SessionId> {
        let mut deserted = std::mem::take(&mut self.deserted);
        deserted.retain(|session| !self.is_bound(*session));
        deserted
    }

    /// Whether it said hello, and is not forgotten.
    pub(crate) fn is_known(&self, session: SessionId) -> bool {
        self.known.contains_key(&session)
    }

    /// Whether a session has a connection.
    pub(crate) fn is_bound(&self, session: SessionId) -> bool {
        self.known.get(&session).is_some_and(|session| session.bound > 0)
    }

    /// Whether that was its last connection.
    fn unbind(&mut self, session: SessionId, now: Time) -> bool {
        let Some(session) = self.known.get_mut(&session) else { return false };
        session.bound = session.bound.saturating_sub(1);
        session.alone_since = now;
        session.bound == 0
    }

    /// Forgets sessions that have had no connection for so long, and returns them.
    pub(crate) fn forget(&mut self, now: Time, after_us: u64) -> Vec<SessionId> {
        let is_gone = |session: &ClientProcess| {
            session.bound == 0 && session.poller.is_none() && now.since(session.alone_since) >= after_us
        };
        let gone: Vec<(SessionId, ClientProcess)> =
            self.known.extract_if(|_, session| is_gone(session)).collect();
        for (_, session) in &gone {
            self.outbox_bytes -= session.outbox.bytes();
            if let Some(count) = self.users.get_mut(&session.user) {
                *count -= u64::from(!is_planted(Bug::ForgottenStayCounted));
                if *count == 0 {
                    self.users.remove(&session.user);
                }
            }
        }
        gone.into_iter().map(|(id, _)| id).collect()
    }

    /// Forgets all, so that everybody says hello again: the shard is another one now. Who waited is returned.
    pub(crate) fn clear(&mut self) -> Vec<Blocked> {
        self.clients.clear();
        self.fresh.clear();
        self.users.clear();
        self.outbox_bytes = 0;
        self.known.drain().filter_map(|(_, mut session)| session.poller.take()).collect()
    }
}

/// Outboxes.
impl Sessions {
    /// Keeps a response for a session.
    pub(crate) fn put(&mut self, session: SessionId, response: Response, bounds: OutboxBounds) {
        let sessions = self.known.len() as u64;
        let Some(known) = self.known.get_mut(&session) else { return };
        if !std::mem::replace(&mut known.is_fresh, true) {
            self.fresh.push(session);
        }
        let before = known.outbox.bytes();
        known.outbox.push(response);
        let bytes_max =
            match self.outbox_bytes as u64 > bounds.all_bytes_max && !is_planted(Bug::ShareIgnored) {
                true => bounds.bytes_max.min(bounds.all_bytes_max / sessions.max(1)),
                false => bounds.bytes_max,
            };
        self.dropped += known.outbox.keep_within(bounds.count_max, bytes_max);
        self.outbox_bytes = self.outbox_bytes + known.outbox.bytes() - before;
    }

    /// Puts back, in front, what nobody took.
    pub(crate) fn put_back(&mut self, session: SessionId, responses: Vec<Response>) {
        let Some(known) = self.known.get_mut(&session) else { return };
        let before = known.outbox.bytes();
        known.outbox.put_back(responses);
        self.outbox_bytes = self.outbox_bytes + known.outbox.bytes() - before;
    }

    /// All that waits for a session.
    pub(crate) fn take(&mut self, session: SessionId) -> Vec<Response> {
        let Some(known) = self.known.get_mut(&session) else { return Vec::new() };
        self.outbox_bytes -= if is_planted(Bug::TakenStayCounted) { 0 } else { known.outbox.bytes() };
        known.outbox.take()
    }

    /// The next session that has something new and can be reached now.
    pub(crate) fn next_delivery(&mut self) -> Option<(SessionId, Delivery)> {
        while let Some(id) = self.fresh.pop() {
            let Some(session) = self.known.get_mut(&id) else { continue };
            session.is_fresh = false;
            if let Way::Letter { home, heard, told } = &mut session.way {
                let is_any = !session.outbox.is_empty() || heard != told;
                if !is_any || session.bound == 0 {
                    continue;
                }
                *told = *heard;
                let (home, answered) = (home.clone(), *heard);
                let link = Link { session: id, connection: session.connection };
                self.outbox_bytes -= session.outbox.bytes();
                return Some((
                    id,
                    Delivery::Letter { home, link, answered, responses: session.outbox.take() },
                ));
            }
            if session.outbox.is_empty() {
                continue;
            }
            match (&session.way, session.poller) {
                (_, Some(poller)) => {
                    session.poller = None;
                    return Some((id, Delivery::Wake(poller)));
                }
                (Way::Push(channel), None) if session.bound > 0 => {
                    self.outbox_bytes -= session.outbox.bytes();
                    return Some((id, Delivery::Push(channel.clone(), session.outbox.take())));
                }
                (Way::Push(_) | Way::Waits | Way::Poll | Way::Letter { .. }, None) => {}
            }
        }
        None
    }
}

/// Helpers (docs/errands.md).
impl Sessions {
    /// The helper of a home speaks over this connection from now on.
    ///
    /// # Errors
    /// It is somebody else's session, or there are too many.
    pub(crate) fn hello_by_letter(
        &mut self,
        now: Time,
        home: &str,
        link: Link,
        user: &Name,
        bounds: SessionBounds,
    ) -> Outcome {
        if let Some(known) = self.known.get(&link.session) {
            let is_its = matches!(&known.way, Way::Letter { home: of, .. } if of == home)
                || is_planted(Bug::HelperIsAnybody);
            known.belongs_to(user)?;
            if !is_its {
                return Err(Error::OtherKey);
            }
        }
        let way = Way::Letter { home: home.to_owned(), heard: 0, told: 0 };
        let session = self.let_in(link, user, way, bounds)?;
        (session.bound, session.alone_since) = (1, now);
        Ok(())
    }

    /// The frame of this number came by letter from a home. Whose it is; `None`: there is no such connection, or a frame before it was
    /// lost.
    pub(crate) fn hear_letter(&mut self, now: Time, from: &str, link: Link, number: u32) -> Option<Name> {
        let session = self.known.get_mut(&link.session)?;
        let Way::Letter { home, heard, .. } = &mut session.way else { return None };
        let is_gap = number != *heard + 1 && !is_planted(Bug::LetterGapUnseen);
        let is_others = home != from && !is_planted(Bug::AnyHomeHeard);
        if is_others || session.connection != link.connection || is_gap || session.bound == 0 {
            return None;
        }
        (*heard, session.alone_since) = (number, now);
        if !std::mem::replace(&mut session.is_fresh, true) {
            self.fresh.push(link.session);
        }
        Some(session.user.clone())
    }

    /// The frame of this number, which was heard, is refused: it is answered so, and not by what waits for the session.
    pub(crate) fn refuse_letter(&mut self, link: Link, number: u32) {
        if let Some(Way::Letter { told, .. }) = self.known.get_mut(&link.session).map(|it| &mut it.way) {
            *told = number;
        }
    }

    /// Helpers of which nothing was heard for so long are over: they say something three times in each lease.
    pub(crate) fn end_silent_helpers(&mut self, now: Time, after_us: u64) {
        // In any order: each by itself.
        for (id, session) in &mut self.known {
            let is_helper = matches!(session.way, Way::Letter { .. }) && session.bound > 0;
            if is_helper && now.since(session.alone_since) >= after_us {
                session.bound = 0;
                self.deserted.push(*id);
            }
        }
    }

    /// The helpers of a home are over, or one of them.
    pub(crate) fn end_helpers(&mut self, now: Time, from: &str, only: Option<SessionId>) {
        let is_its =
            |session: &ClientProcess| matches!(&session.way, Way::Letter { home, .. } if home == from);
        // In any order: each by itself.
        for (id, session) in &mut self.known {
            let is_its = is_its(session) && !is_planted(Bug::HelpersOutlive);
            if is_its && session.bound > 0 && only.is_none_or(|only| only == *id) {
                (session.bound, session.alone_since) = (0, now);
                self.deserted.push(*id);
            }
        }
    }
}

/// Polling.
impl Sessions {
    /// Whether a session may be polled on this connection: only where it was proved.
    pub(crate) fn may_poll(&self, client: u64, id: SessionId, user: &Name) -> Outcome {
        self.bound(client).filter(|bound| bound.link.session == id).ok_or(Error::NoSession)?;
        self.known.get(&id).ok_or(Error::NoSession)?.belongs_to(user)
    }

    /// Waits for the outbox; whoever waited before is returned, and hears nothing.
    pub(crate) fn wait(&mut self, id: SessionId, poller: Blocked, until: Time) -> Option<Blocked> {
        let session = self.known.get_mut(&id)?;
        session.polls_until = until;
        self.next_late = Some(self.next_late.map_or(until, |next| next.min(until)));
        session.poller.replace(poller).filter(|_| !is_planted(Bug::EarlierPollForgotten))
    }

    /// Takes those whose time is over.
    pub(crate) fn late(&mut self, now: Time) -> Vec<(SessionId, Blocked)> {
        if self.next_late.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let (mut late, mut next) = (Vec::new(), None::<Time>);
        // In any order: each is looked at by itself.
        for (id, session) in &mut self.known {
            if session.polls_until <= now && !is_planted(Bug::PollsForEver) {
                late.extend(session.poller.take().map(|poller| (*id, poller)));
            } else if session.poller.is_some() {
                next = Some(next.map_or(session.polls_until, |next| next.min(session.polls_until)));
            }
        }
        self.next_late = next;
        late
    }

    /// Whether anybody polls, as far as is known.
    pub(crate) fn is_polled(&self) -> bool {
        self.next_late.is_some()
    }

    /// A waiting client is gone, or its time is over. Whether it still waited: it may have been let go already.
    pub(crate) fn stop_waiting(&mut self, poller: Blocked) -> bool {
        let mut waits = self.known.values_mut().filter(|session| session.poller == Some(poller));
        waits.next().is_some_and(|session| session.poller.take().is_some()) && !is_planted(Bug::DeadPollKept)
    }
}

impl ClientProcess {
    fn belongs_to(&self, user: &Name) -> Outcome {
        if self.user == *user || is_planted(Bug::AnybodysSession) { Ok(()) } else { Err(Error::OtherUser) }
    }

    fn is_of(&self, handshake: &Handshake<'_>) -> Outcome {
        if self.key != Some(handshake.key) {
            return Err(Error::OtherKey);
        }
        self.belongs_to(handshake.user)
    }
}

#[cfg(test)]
mod tests;
