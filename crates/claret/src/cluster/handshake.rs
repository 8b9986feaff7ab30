//! The handshake of a new connection: a channel for grants, and `CLARET.HELLO`, which proves that the connection
//! speaks for the session of this process.

use claret_core::{Incarnation, ShardId, wire};
use claret_identity::{Challenge, Identity, Statement};
use claret_planted::{Bug, is_planted};
use claret_redis::connection::{Connection, Received, refusal, unreachable_at};
use claret_redis::resp::shown;
use claret_redis::topology::Topology;
use claret_redis::{Address, ConnectError, Secret, ServerError};
use claret_types::{Reply, SchemaDigest};

use super::channel::channel_at;
use super::settings::Grants;

/// The shortest lease that a node may give, in microseconds, as `claret.lease-ms` allows. Heartbeats leave three
/// times in a lease, so a shorter one would only cost work.
const LEASE_US_MIN: u64 = 50_000;

/// The longest lease that a node may give, in microseconds.
const LEASE_US_MAX: u64 = 3_600_000_000;

/// Of a field so much is kept, in bytes.
const FIELD_BYTES_MAX: usize = 100;

/// There is always a later one than that which a server tells.
const INCARNATION_MAX: u64 = i64::MAX as u64;

/// Who this process is, and whom it expects at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake<'a> {
    pub(super) identity: &'a Identity,
    /// Whose channels its channels are.
    pub(super) user: &'a str,
    /// What else is in their names.
    pub(super) secret: Secret<u64>,
    pub(super) connection: u32,
    /// The shard that is to be at the other end, as far as it is known. A proof for another one is not signed: its node
    /// could be the one that asked for it.
    pub(super) expected: Option<ShardId>,
}

/// What a node promises of a failover that nobody planned (`claret.durability`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// What was reported last may be lost.
    Async,
    /// Nothing that was reported is lost.
    Strict,
}

impl Durability {
    pub(super) fn name(self) -> &'static str {
        match self {
            Durability::Async => "async",
            Durability::Strict => "strict",
        }
    }
}

/// What a node answered to the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The name of the node.
    pub(super) name: ShardId,
    /// The shard that it bears: in the durability `strict` that of a node whose place it took.
    pub(super) shard: ShardId,
    pub(super) durability: Durability,
    pub(super) schema: SchemaDigest,
    pub(super) incarnation: Incarnation,
    pub(super) lease_us: u64,
    /// Whether grants come on this connection.
    pub(super) pushes: bool,
}

/// Subscribes to a channel of the node's, where that is wanted and allowed, and says hello.
pub(super) async fn exchange(
    connection: &mut Connection,
    topology: &Topology,
    grants: Grants,
    handshake: Handshake<'_>,
) -> Result<Hello, ConnectError> {
    let channel = match grants {
        Grants::Push => channel_at(topology, connection.node(), handshake.user, *handshake.secret),
        Grants::Poll => None,
    };
    let channel = match channel {
        Some(channel) => subscribe(connection, channel).await?,
        None => None,
    };
    let way = match &channel {
        Some(channel) => vec!["PUSH", channel],
        None => vec!["POLL"],
    };
    prove(connection, handshake, &way).await
}

/// On a connection that waits for grants, and does nothing else.
pub(super) async fn listen(
    connection: &mut Connection,
    handshake: Handshake<'_>,
) -> Result<(), ConnectError> {
    prove(connection, handshake, &["LISTEN"]).await.map(|_| ())
}

/// Asks for a challenge and signs it.
async fn prove(
    connection: &mut Connection,
    handshake: Handshake<'_>,
    way: &[&str],
) -> Result<Hello, ConnectError> {
    let (identity, number) = (handshake.identity, handshake.connection);
    let mut words = vec!["CLARET.HELLO".to_owned(), wire::VERSION.to_string()];
    words.extend([identity.public().to_string(), number.to_string()]);
    words.extend(way.iter().map(|word| (*word).to_owned()));
    let reply = connection.ask(&words).await?.map_err(|error| hello_error(error, connection.node()))?;
    let (shard, challenge) = read_challenge(&reply, connection.node())?;
    if let Some(expected) =
        handshake.expected.filter(|_| !is_planted(Bug::SignsForOthers)).filter(|expected| *expected != shard)
    {
        // The node may have another id since the topology was asked for: it is asked for again then.
        let reason =
            format!("it speaks for shard {}, and the cluster has shard {} there", shard.0, expected.0);
        return Err(unreachable_at(connection.node(), reason));
    }
    let way: Vec<&[u8]> = way.iter().map(|word| word.as_bytes()).collect();
    let (version, session) = (wire::VERSION, identity.session());
    let statement = Statement { version, shard, challenge, session, connection: number, way: &way };
    words.extend(["PROOF".to_owned(), identity.sign(&statement).to_string()]);
    let reply = connection.ask(&words).await?.map_err(|error| hello_error(error, connection.node()))?;
    let hello = read(&reply, connection.node())?;
    if hello.name != shard {
        let reason = format!("CLARET.HELLO speaks of shard {} and of shard {}", shard.0, hello.name.0);
        return Err(ConnectError::NotUnderstood { node: connection.node().to_string(), reason });
    }
    Ok(hello)
}

/// The channel, if the server lets the user subscribe to it.
async fn subscribe(connection: &mut Connection, channel: String) -> Result<Option<String>, ConnectError> {
    connection.send(&["SSUBSCRIBE", &channel]).await?;
    loop {
        match connection.receive().await? {
            Received::Push(words) if words.first() == Some(&Reply::Bytes("ssubscribe".into())) => {
                return Ok(Some(channel));
            }
            Received::Push(_) => connection.note_push()?,
            Received::Reply(Err(error)) if error.code() == "MOVED" => {
                return Err(unreachable_at(connection.node(), "its slots are moving".into()));
            }
            Received::Reply(_) => return Ok(None),
        }
    }
}

fn hello_error(error: ServerError, node: &Address) -> ConnectError {
    let text = error.to_string();
    match error.code() {
        "WIREVERSION" => {
            let theirs =
                text.split(' ').find(|word| word.parse::<u16>().is_ok()).unwrap_or("another").to_owned();
            let module = "a module of another version".to_owned();
            ConnectError::OtherVersion { node: node.to_string(), module, theirs, ours: wire::VERSION }
        }
        _ if text.contains("unknown command") => ConnectError::NoModule { node: node.to_string() },
        _ => refusal(node, error),
    }
}

/// What a node answers: names and values in turn.
struct Fields<'a> {
    reply: &'a Reply,
    node: &'a Address,
}

impl Fields<'_> {
    fn field(&self, name: &str) -> Option<String> {
        let Reply::Array(items) = self.reply else { return None };
        let mut pairs = items.chunks_exact(2);
        let value = pairs.find(|pair| matches!(&pair[0], Reply::Bytes(it) if it.as_str() == Some(name)))?;
        match &value[1] {
            Reply::Bytes(text) => text.as_str().map(|text| shown(text.as_bytes(), FIELD_BYTES_MAX)),
            Reply::Int(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn lacks(&self, what: &str) -> ConnectError {
        let reason = format!("CLARET.HELLO without {what}");
        ConnectError::NotUnderstood { node: self.node.to_string(), reason }
    }

    fn number(&self, name: &str, least: u64, most: u64) -> Result<u64, ConnectError> {
        let number = self.field(name).and_then(|text| text.parse::<u64>().ok());
        let within =
            number.filter(|number| (least..=most).contains(number) || is_planted(Bug::NumbersUnchecked));
        within.ok_or_else(|| self.lacks(&format!("a number '{name}' from {least} to {most}")))
    }

    /// The largest number stands for slots that nobody serves.
    fn shard(&self, field: &str) -> Result<ShardId, ConnectError> {
        Ok(ShardId(self.number(field, 0, u64::from(u32::MAX - 1))? as u32))
    }

    fn durability(&self) -> Result<Durability, ConnectError> {
        match self.field("durability").as_deref() {
            Some("async") => Ok(Durability::Async),
            Some("strict") => Ok(Durability::Strict),
            Some(_) | None => Err(self.lacks("'durability', which is 'async' or 'strict'")),
        }
    }

    /// Modules before schemas have none.
    fn schema(&self) -> Result<SchemaDigest, ConnectError> {
        let Some(text) = self.field("schema") else { return Ok(SchemaDigest::default()) };
        SchemaDigest::parse(&text)
            .ok_or_else(|| self.lacks("'schema', which is 'none' or 16 hexadecimal digits"))
    }

    fn is_of_this_version(&self) -> Result<(), ConnectError> {
        let theirs = self.field("wire").unwrap_or_default();
        if theirs == wire::VERSION.to_string() || is_planted(Bug::VersionUnchecked) {
            return Ok(());
        }
        let module = format!("the module {}", self.field("module").as_deref().unwrap_or("unknown"));
        Err(ConnectError::OtherVersion { node: self.node.to_string(), module, theirs, ours: wire::VERSION })
    }
}

/// Reads what is to be signed.
fn read_challenge(reply: &Reply, node: &Address) -> Result<(ShardId, Challenge), ConnectError> {
    let answer = Fields { reply, node };
    answer.is_of_this_version()?;
    let challenge = answer.field("challenge").and_then(|digits| Challenge::parse(digits.as_bytes()));
    Ok((answer.shard("shard")?, challenge.ok_or_else(|| answer.lacks("a challenge"))?))
}

/// Reads the welcome.
fn read(reply: &Reply, node: &Address) -> Result<Hello, ConnectError> {
    let answer = Fields { reply, node };
    answer.is_of_this_version()?;
    let name = answer.shard("shard")?;
    let incarnation = Incarnation(answer.number("incarnation", 0, INCARNATION_MAX)?);
    let durability = answer.durability()?;
    let shard = match durability {
        Durability::Async => name,
        Durability::Strict => answer.shard("bears")?,
    };
    Ok(Hello {
        name,
        shard,
        durability,
        schema: answer.schema()?,
        incarnation,
        lease_us: answer.number("lease_us", LEASE_US_MIN, LEASE_US_MAX)?,
        pushes: answer.number("push", 0, 1)? == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Address {
        Address::new("h", 7001)
    }

    fn answer(fields: &[(&str, Reply)]) -> Reply {
        Reply::Array(
            fields.iter().flat_map(|(name, value)| [Reply::Bytes((*name).into()), value.clone()]).collect(),
        )
    }

    fn whole(wire: i64) -> Vec<(&'static str, Reply)> {
        vec![
            ("server", Reply::Bytes("redis".into())),
            ("module", Reply::Bytes("0.1.0".into())),
            ("wire", Reply::Int(wire)),
            ("shard", Reply::Int(4096)),
            ("incarnation", Reply::Bytes("1700000000000000".into())),
            ("lease_us", Reply::Int(10_000_000)),
            ("push", Reply::Int(1)),
            ("bears", Reply::Int(4097)),
            ("durability", Reply::Bytes("async".into())),
        ]
    }

    #[test]
    fn the_answer_to_hello_is_read() {
        let hello = read(&answer(&whole(wire::VERSION.into())), &node()).unwrap();
        let incarnation = Incarnation(1_700_000_000_000_000);
        let (name, durability) = (ShardId(4096), Durability::Async);
        let expected = Hello {
            name,
            shard: name,
            durability,
            schema: SchemaDigest(0),
            incarnation,
            lease_us: 10_000_000,
            pushes: true,
        };
        assert_eq!(hello, expected);
        let mut with_schema = whole(wire::VERSION.into());
        with_schema.push(("schema", Reply::Bytes("00000000000000ff".into())));
        let hello = read(&answer(&with_schema), &node()).unwrap();
        assert_eq!(hello, Hello { schema: SchemaDigest(255), ..expected });
        with_schema[9].1 = Reply::Bytes("ff".into());
        let error = read(&answer(&with_schema), &node()).unwrap_err().to_string();
        assert!(error.contains("'schema'") && error.contains("h:7001"), "{error}");
        let mut strict = whole(wire::VERSION.into());
        strict[8].1 = Reply::Bytes("strict".into());
        let hello = read(&answer(&strict), &node()).unwrap();
        assert_eq!(hello, Hello { shard: ShardId(4097), durability: Durability::Strict, ..expected });
        strict[8].1 = Reply::Bytes("perhaps".into());
        let error = read(&answer(&strict), &node()).unwrap_err().to_string();
        assert!(error.contains("durability") && error.contains("h:7001"), "{error}");
    }

    #[test]
    fn a_challenge_is_read() {
        let digits = "0f".repeat(32);
        let challenge = |digits: &str, shard| {
            let fields = [
                ("wire", Reply::Int(wire::VERSION.into())),
                ("shard", shard),
                ("challenge", Reply::Bytes(digits.into())),
            ];
            read_challenge(&answer(&fields), &node())
        };
        assert_eq!(challenge(&digits, Reply::Int(7)), Ok((ShardId(7), Challenge([15; 32]))));
        for (digits, shard) in [("", 7), (&*"0g".repeat(32), 7), (&digits, -1), (&digits, 1 << 32)] {
            let error = challenge(digits, Reply::Int(shard)).unwrap_err();
            assert!(matches!(error, ConnectError::NotUnderstood { .. }), "{error}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for (at, number) in
            [(3, -1), (3, i64::MAX), (3, i64::from(u32::MAX)), (5, 0), (5, 1), (5, i64::MAX), (6, 2), (4, -1)]
        {
            let mut fields = whole(wire::VERSION.into());
            fields[at].1 = Reply::Int(number);
            let error = read(&answer(&fields), &node()).unwrap_err().to_string();
            assert!(error.contains(fields[at].0) && error.contains("h:7001"), "{error}");
        }
        let mut fields = whole(wire::VERSION.into());
        fields[4].1 = Reply::Bytes("18446744073709551615".into());
        assert!(read(&answer(&fields), &node()).is_err());
    }

    #[test]
    fn another_version_and_no_module_are_told_apart() {
        let error = read(&answer(&whole(99)), &node()).unwrap_err().to_string();
        assert!(error.contains("h:7001") && error.contains("99") && error.contains("0.1.0"), "{error}");
        let error = hello_error(ServerError::new(b"ERR unknown command 'CLARET.HELLO', with"), &node());
        assert_eq!(error, ConnectError::NoModule { node: "h:7001".into() });
        let error = read(&answer(&whole(wire::VERSION.into())[..4]), &node()).unwrap_err().to_string();
        assert!(error.contains("incarnation"), "{error}");
    }
}
