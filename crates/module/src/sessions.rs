//! Client processes: which connections speak for a session, as whom, and how it hears what arises later.
//!
//! A session belongs to the ACL user that said hello with it first, and its connections are numbered upwards (P29).
//! Responses that arise while it is not asking wait in its **outbox** until they are pushed, polled, or taken along by
//! its next frame. An outbox is bounded: of more the oldest go, and the protocol asks for them again.

use std::collections::VecDeque;

use claret_core::message::{Link, Response};
use claret_core::{SessionId, Time};
use hashbrown::HashMap;

use crate::config;
use crate::ffi::Blocked;

/// How a session hears what arises later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With its next frame.
    Waits,
    /// By a message on this shard channel, to which it is subscribed.
    Push(Vec<u8>),
    /// By asking for it with `CLARET.POLL`.
    Poll,
}

/// One client process.
pub(crate) struct Session {
    /// Whose it is.
    user: String,
    /// Its newest connection.
    connection: u32,
    way: Way,
    outbox: VecDeque<Response>,
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
    known: HashMap<SessionId, Session, foldhash::fast::FixedState>,
    /// By the server's number of the client.
    clients: HashMap<u64, Link, foldhash::fast::FixedState>,
    /// Sessions with something new in their outbox.
    fresh: Vec<SessionId>,
    /// No poller's time is over before this; `None` when nobody polls.
    next_late: Option<Time>,
    /// Responses that were dropped from full outboxes.
    pub(crate) dropped: u64,
}

/// What there is to deliver.
pub(crate) enum Delivery {
    /// Publish these, and keep them if nobody listens.
    Push(Vec<u8>, Vec<Response>),
    /// Let a waiting client go: it takes the outbox.
    Wake(Blocked),
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Responses that wait in outboxes.
    pub(crate) fn waiting(&self) -> usize {
        self.known.values().map(|session| session.outbox.len()).sum()
    }

    /// Binds a client's connection to a session.
    pub(crate) fn hello(
        &mut self,
        client: u64,
        link: Link,
        user: &str,
        way: Option<Way>,
    ) -> Result<(), String> {
        if !self.known.contains_key(&link.session) {
            if self.known.len() as u64 >= config::SESSIONS_MAX.get() {
                return Err(
                    "ERR too many sessions; raise claret.sessions-max, or end client processes".to_owned()
                );
            }
            let fresh = Session {
                user: user.to_owned(),
                connection: link.connection,
                way: Way::Waits,
                outbox: VecDeque::new(),
                is_fresh: false,
                poller: None,
                polls_until: Time(0),
                bound: 0,
                alone_since: Time(0),
            };
            self.known.insert(link.session, fresh);
        }
        let session = self.known.get_mut(&link.session).expect("just put there");
        if session.user != user {
            return Err("NOPERM the session belongs to another user".to_owned());
        }
        if link.connection < session.connection {
            let newer = session.connection;
            return Err(format!(
                "NOSESSION connection {newer} of the session is newer; say hello with a higher one"
            ));
        }
        session.connection = link.connection;
        if let Some(way) = way {
            session.way = way;
        }
        session.bound += 1;
        if let Some(before) = self.clients.insert(client, link) {
            self.unbind(before.session, Time(0));
        }
        Ok(())
    }

    /// The link that a client's frames come over.
    pub(crate) fn link(&self, client: u64, user: &str) -> Result<Link, String> {
        let no_session = || "NOSESSION say CLARET.HELLO on this connection first".to_owned();
        let link = self.clients.get(&client).ok_or_else(no_session)?;
        let session = self.known.get(&link.session).ok_or_else(no_session)?;
        if session.user == user {
            Ok(*link)
        } else {
            Err("NOPERM the session belongs to another user".to_owned())
        }
    }

    /// A client's connection is closed: the session that has none left.
    pub(crate) fn closed(&mut self, now: Time, client: u64) -> Option<SessionId> {
        let link = self.clients.remove(&client)?;
        self.unbind(link.session, now).then_some(link.session)
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

    /// Forgets sessions that have had no connection for so long.
    pub(crate) fn forget(&mut self, now: Time, after_us: u64) {
        self.known.retain(|_, session| {
            session.bound > 0 || session.poller.is_some() || now.since(session.alone_since) < after_us
        });
    }

    /// Forgets all, so that everybody says hello again: the shard is another one now. Who waited is returned.
    pub(crate) fn clear(&mut self) -> Vec<Blocked> {
        self.clients.clear();
        self.fresh.clear();
        self.known.drain().filter_map(|(_, mut session)| session.poller.take()).collect()
    }

    // --- outboxes ---

    /// Keeps a response for a session.
    pub(crate) fn put(&mut self, session: SessionId, response: Response) {
        let Some(known) = self.known.get_mut(&session) else { return };
        if !std::mem::replace(&mut known.is_fresh, true) {
            self.fresh.push(session);
        }
        known.outbox.push_back(response);
        if known.outbox.len() as u64 > config::OUTBOX_MAX.get() {
            known.outbox.pop_front();
            self.dropped += 1;
        }
    }

    /// Puts back, in front, what nobody took.
    pub(crate) fn put_back(&mut self, session: SessionId, responses: Vec<Response>) {
        let Some(known) = self.known.get_mut(&session) else { return };
        for response in responses.into_iter().rev() {
            known.outbox.push_front(response);
        }
    }

    /// All that waits for a session.
    pub(crate) fn take(&mut self, session: SessionId) -> Vec<Response> {
        self.known.get_mut(&session).map_or_else(Vec::new, |known| known.outbox.drain(..).collect())
    }

    /// The next session that has something new and can be reached now.
    pub(crate) fn next_delivery(&mut self) -> Option<(SessionId, Delivery)> {
        while let Some(id) = self.fresh.pop() {
            let Some(session) = self.known.get_mut(&id) else { continue };
            session.is_fresh = false;
            if session.outbox.is_empty() {
                continue;
            }
            match (&session.way, session.poller) {
                (_, Some(poller)) => {
                    session.poller = None;
                    return Some((id, Delivery::Wake(poller)));
                }
                (Way::Push(channel), None) if session.bound > 0 => {
                    return Some((id, Delivery::Push(channel.clone(), session.outbox.drain(..).collect())));
                }
                (Way::Push(_) | Way::Waits | Way::Poll, None) => {}
            }
        }
        None
    }

    // --- polling ---

    /// Whether a session may be polled by this user.
    pub(crate) fn may_poll(&self, id: SessionId, user: &str) -> Result<(), String> {
        match self.known.get(&id) {
            Some(session) if session.user == user => Ok(()),
            Some(_) => Err("NOPERM the session belongs to another user".to_owned()),
            None => Err("NOSESSION nobody said CLARET.HELLO with this session".to_owned()),
        }
    }

    /// Waits for the outbox; whoever waited before is returned, and hears nothing.
    pub(crate) fn wait(&mut self, id: SessionId, poller: Blocked, until: Time) -> Option<Blocked> {
        let session = self.known.get_mut(&id)?;
        session.polls_until = until;
        self.next_late = Some(self.next_late.map_or(until, |next| next.min(until)));
        session.poller.replace(poller)
    }

    /// Takes those whose time is over.
    pub(crate) fn late(&mut self, now: Time) -> Vec<(SessionId, Blocked)> {
        if self.next_late.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let (mut late, mut next) = (Vec::new(), None::<Time>);
        // In any order: each is looked at by itself.
        for (id, session) in &mut self.known {
            if session.polls_until <= now {
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
        waits.next().is_some_and(|session| session.poller.take().is_some())
    }
}
