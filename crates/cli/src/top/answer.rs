//! What a node answers to `CLARET.TOP`. Names that are not known are passed over, so that a later module may say more; what is
//! missing counts as nothing. Every list and text has a bound, and texts are escaped: they go to a terminal.

use claret::Reply;

/// Of a node so many keys are taken, of each so many operations, modes and waits.
const KEYS_MAX: usize = 256;
const LIST_MAX: usize = 64;
/// Of a text so many bytes. A key is longer at most by what is escaped.
const TEXT_BYTES_MAX: usize = 1024;

/// What a node says of itself that serves transactions.
const SERVED: &str = "ok";

/// What a node counts since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) transactions: u64,
    pub(crate) commits: u64,
    pub(crate) aborts: u64,
    pub(crate) operations: u64,
    pub(crate) frames: u64,
    pub(crate) grants: u64,
    pub(crate) waits: u64,
}

/// Waits for a key by one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) method: String,
    pub(crate) recent: u64,
    pub(crate) total: u64,
}

/// Who waits for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) waiter: Attempt,
    pub(crate) method: String,
    pub(crate) holder: Option<Attempt>,
}

/// An attempt as `CLARET.LOCKS` shows it. A dash stands for what is not known.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Attempt {
    pub(crate) attempt: String,
    pub(crate) has_voted: bool,
    pub(crate) user: String,
    pub(crate) client: String,
    pub(crate) address: String,
}

/// A key for which somebody had to wait, or waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) key: String,
    pub(crate) kind: Option<String>,
    pub(crate) waits: Vec<Waited>,
    pub(crate) held: Vec<(String, u64)>,
    pub(crate) wanted: Vec<(String, u64)>,
    pub(crate) holders: u64,
    pub(crate) waiters: u64,
    pub(crate) joined: u64,
    pub(crate) waited_us: u64,
    pub(crate) in_line: u64,
    pub(crate) behind: Vec<Behind>,
}

/// What a node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Why it serves no transactions; `None`: it does.
    pub(crate) not_served: Option<String>,
    pub(crate) shard: u64,
    pub(crate) incarnation: u64,
    pub(crate) now_us: u64,
    pub(crate) counters: Counters,
    pub(crate) open_attempts: u64,
    pub(crate) held_keys: u64,
    pub(crate) looked_at: u64,
    pub(crate) hidden: u64,
    pub(crate) keys: Vec<Key>,
}

impl Answer {
    /// Reads a reply. `None`: it is not what `CLARET.TOP` answers.
    pub(crate) fn read(reply: &Reply) -> Option<Answer> {
        let fields = Fields::of(reply)?;
        let (counters, gauges) = (Fields::of(fields.get("counters")?)?, Fields::of(fields.get("gauges")?)?);
        let counters = Counters {
            transactions: counters.number("transactions"),
            commits: counters.number("commits"),
            aborts: counters.number("aborts"),
            operations: counters.number("operations"),
            frames: counters.number("frames"),
            grants: counters.number("grants"),
            waits: counters.number("waits"),
        };
        let Reply::Array(keys) = fields.get("keys")? else { return None };
        Some(Answer {
            not_served: fields.get("state").and_then(text).filter(|state| state != SERVED),
            shard: fields.number("shard"),
            incarnation: fields.number("incarnation"),
            now_us: fields.number("now_us"),
            counters,
            open_attempts: gauges.number("open_attempts"),
            held_keys: fields.number("held_keys"),
            looked_at: fields.number("looked_at"),
            hidden: fields.number("hidden"),
            keys: keys.iter().take(KEYS_MAX).map(key).collect::<Option<_>>()?,
        })
    }
}

/// Names and values in turn.
struct Fields<'a>(&'a [Reply]);

impl<'a> Fields<'a> {
    fn of(reply: &'a Reply) -> Option<Self> {
        let Reply::Array(items) = reply else { return None };
        Some(Fields(items))
    }

    fn get(&self, name: &str) -> Option<&'a Reply> {
        let mut pairs = self.0.chunks_exact(2);
        let is_it = |it: &Reply| matches!(it, Reply::Bytes(bytes) if **bytes == *name.as_bytes());
        pairs.find(|pair| is_it(&pair[0])).map(|pair| &pair[1])
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name).map_or(0, number)
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &'a [Reply]> + use<'a> {
        let items: &[Reply] = match self.get(name) {
            Some(Reply::Array(items)) => items,
            _ => &[],
        };
        items.iter().take(LIST_MAX).filter_map(|item| match item {
            Reply::Array(parts) => Some(&parts[..]),
            _ => None,
        })
    }

    fn counts(&self, name: &str) -> Vec<(String, u64)> {
        let count = |parts: &[Reply]| match parts {
            [mode, claims] => Some((text(mode)?, number(claims))),
            _ => None,
        };
        self.list(name).filter_map(count).collect()
    }
}

fn number(reply: &Reply) -> u64 {
    match reply {
        Reply::Int(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

/// Bytes as text: what is not printable ASCII stands escaped.
fn text(reply: &Reply) -> Option<String> {
    let Reply::Bytes(bytes) = reply else { return None };
    Some(bytes[..bytes.len().min(TEXT_BYTES_MAX)].escape_ascii().to_string())
}

fn key(reply: &Reply) -> Option<Key> {
    let fields = Fields::of(reply)?;
    let waited = |parts: &[Reply]| match parts {
        [method, recent, total] => {
            Some(Waited { method: text(method)?, recent: number(recent), total: number(total) })
        }
        _ => None,
    };
    let behind = |parts: &[Reply]| match parts {
        [waiter, method, holder] => {
            Some(Behind { waiter: attempt(waiter)?, method: text(method)?, holder: attempt(holder) })
        }
        _ => None,
    };
    Some(Key {
        key: text(fields.get("key")?)?,
        kind: fields.get("type").and_then(text),
        waits: fields.list("waits").filter_map(waited).collect(),
        held: fields.counts("held"),
        wanted: fields.counts("wanted"),
        holders: fields.number("holders"),
        waiters: fields.number("waiters"),
        joined: fields.number("joined"),
        waited_us: fields.number("waited_us"),
        in_line: fields.number("in_line"),
        behind: fields.list("behind").filter_map(behind).collect(),
    })
}

/// `session.sequence/attempt open|voted user=NAME client=ID addr=HOST:PORT`
fn attempt(reply: &Reply) -> Option<Attempt> {
    let text = text(reply)?;
    let mut words = text.split(' ');
    let (attempt, stage) = (words.next()?.to_owned(), words.next()?);
    let named = |name: &str| {
        let found = text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or("-").to_owned()
    };
    let has_voted = stage == "voted";
    Some(Attempt { attempt, has_voted, user: named("user"), client: named("client"), address: named("addr") })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().into())
    }

    pub(crate) fn fields(pairs: &[(&str, Reply)]) -> Reply {
        Reply::Array(pairs.iter().flat_map(|(name, value)| [bytes(name), value.clone()]).collect())
    }

    fn whole(keys: Vec<Reply>) -> Reply {
        fields(&[
            ("state", bytes("ok")),
            ("shard", Reply::Int(7)),
            ("later", Reply::Array(vec![Reply::Nil])),
            ("counters", fields(&[("commits", Reply::Int(5)), ("frames", Reply::Int(-1))])),
            ("gauges", fields(&[("open_attempts", Reply::Int(2))])),
            ("keys", Reply::Array(keys)),
        ])
    }

    #[test]
    fn an_answer_is_read() {
        let waits = Reply::Array(vec![bytes("INCR"), Reply::Int(3), Reply::Int(4)]);
        let holder = bytes("9.2/1 voted user=shop client=12 addr=10.0.0.1:99");
        let behind =
            |holder| Reply::Array(vec![bytes("5.1/2 open user=- client=- addr=-"), bytes("GET"), holder]);
        let key = fields(&[
            ("key", Reply::Bytes(b"a\x1b[2J".into())),
            ("type", Reply::Nil),
            ("waits", Reply::Array(vec![waits])),
            ("held", Reply::Array(vec![Reply::Array(vec![bytes("add"), Reply::Int(2)])])),
            ("waiters", Reply::Int(1)),
            ("behind", Reply::Array(vec![behind(holder), behind(Reply::Nil)])),
        ]);
        let answer = Answer::read(&whole(vec![key])).expect("an answer");
        assert_eq!((answer.shard, answer.counters.commits, answer.counters.frames), (7, 5, 0));
        assert_eq!(answer.not_served, None);
        assert_eq!((answer.open_attempts, answer.held_keys), (2, 0));
        let [key] = &answer.keys[..] else { panic!("one key") };
        assert_eq!((&*key.key, &key.kind, key.waiters), ("a\\x1b[2J", &None, 1));
        assert_eq!(key.waits, [Waited { method: "INCR".into(), recent: 3, total: 4 }]);
        assert_eq!(key.held, [("add".to_owned(), 2)]);
        let [first, second] = &key.behind[..] else { panic!("two who wait") };
        let holder = first.holder.as_ref().expect("a holder");
        assert_eq!(
            (&*holder.attempt, holder.has_voted, &*holder.user, &*holder.address),
            ("9.2/1", true, "shop", "10.0.0.1:99")
        );
        assert!(second.holder.is_none() && second.waiter.user == "-" && !second.waiter.has_voted);
    }

    #[test]
    fn what_is_no_answer_is_refused_and_what_is_long_is_cut() {
        for wrong in [
            Reply::Nil,
            Reply::Array(vec![]),
            fields(&[("keys", Reply::Array(vec![]))]),
            whole(vec![Reply::Int(1)]),
            whole(vec![fields(&[("key", Reply::Int(1))])]),
        ] {
            assert_eq!(Answer::read(&wrong), None, "{wrong:?}");
        }
        let pair = Reply::Array(vec![bytes(&"m".repeat(TEXT_BYTES_MAX + 1)), Reply::Int(1)]);
        let broken = [Reply::Nil, Reply::Array(vec![]), Reply::Array(vec![Reply::Int(1), Reply::Int(1)])];
        let counts = broken.into_iter().chain(vec![pair; LIST_MAX]).collect();
        let key = fields(&[("key", bytes("k")), ("held", Reply::Array(counts))]);
        let answer = Answer::read(&whole(vec![key; KEYS_MAX + 1])).expect("an answer");
        assert_eq!(answer.keys.len(), KEYS_MAX);
        assert!(answer.keys[0].held.len() < LIST_MAX && answer.keys[0].held[0].0.len() == TEXT_BYTES_MAX);
    }
}
