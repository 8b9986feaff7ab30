//! What a new connection begins with: a channel for grants, and `CLARET.HELLO`.

use claret_core::{Incarnation, SessionId, ShardId, wire};
use claret_types::Reply;

use super::connection::{Connection, Heard, refusal, unreachable_at};
use super::error::ConnectError;
use super::options::{Address, Grants};
use super::resp::ServerError;
use super::topology::{Topology, channel_at};

/// Who greets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Greeting<'a> {
    pub(super) session: SessionId,
    /// Whose channels its channels are.
    pub(super) user: &'a str,
    /// What else is in their names.
    pub(super) secret: u64,
    pub(super) connection: u32,
}

/// What a node answered to the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) shard: ShardId,
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
    greeting: Greeting<'_>,
) -> Result<Hello, ConnectError> {
    let channel = match grants {
        Grants::Push => channel_at(topology, &connection.node, greeting.user, greeting.secret),
        Grants::Poll => None,
    };
    let channel = match channel {
        Some(channel) => subscribe(connection, channel).await?,
        None => None,
    };
    let mut words = vec!["CLARET.HELLO".to_owned(), wire::VERSION.to_string()];
    words.extend([greeting.session.0.to_string(), greeting.connection.to_string()]);
    match channel {
        Some(channel) => words.extend(["PUSH".to_owned(), channel]),
        None => words.push("POLL".to_owned()),
    }
    match connection.ask(&words).await? {
        Ok(reply) => read(&reply, &connection.node),
        Err(error) => Err(not_greeted(error, &connection.node)),
    }
}

/// The channel, if the server lets the user subscribe to it.
async fn subscribe(connection: &mut Connection, channel: String) -> Result<Option<String>, ConnectError> {
    connection.say(&["SSUBSCRIBE", &channel]).await?;
    loop {
        match connection.hear().await? {
            Heard::Push(words) if words.first() == Some(&Reply::Bytes("ssubscribe".into())) => {
                return Ok(Some(channel));
            }
            Heard::Push(_) => {}
            Heard::Reply(Err(error)) if error.code() == "MOVED" => {
                return Err(unreachable_at(&connection.node, "its slots are moving".into()));
            }
            Heard::Reply(_) => return Ok(None),
        }
    }
}

fn not_greeted(error: ServerError, node: &Address) -> ConnectError {
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

/// Reads the answer: names and values in turn.
fn read(reply: &Reply, node: &Address) -> Result<Hello, ConnectError> {
    let field = |name: &str| {
        let Reply::Array(items) = reply else { return None };
        let mut pairs = items.chunks_exact(2);
        let value = pairs.find(|pair| matches!(&pair[0], Reply::Bytes(it) if it.as_str() == Some(name)))?;
        match &value[1] {
            Reply::Bytes(text) => text.as_str().map(str::to_owned),
            Reply::Int(number) => Some(number.to_string()),
            _ => None,
        }
    };
    let number = |name: &str| {
        let wrong = || ConnectError::NotUnderstood {
            node: node.to_string(),
            reason: format!("CLARET.HELLO without a number '{name}'"),
        };
        field(name).and_then(|text| text.parse::<u64>().ok()).ok_or_else(wrong)
    };
    let theirs = field("wire").unwrap_or_default();
    if theirs != wire::VERSION.to_string() {
        let module = format!("the module {}", field("module").as_deref().unwrap_or("unknown"));
        return Err(ConnectError::OtherVersion {
            node: node.to_string(),
            module,
            theirs,
            ours: wire::VERSION,
        });
    }
    Ok(Hello {
        shard: ShardId(number("shard")? as u32),
        incarnation: Incarnation(number("incarnation")?),
        lease_us: number("lease_us")?,
        pushes: number("push")? == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Address {
        Address { host: "h".into(), port: 7001 }
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
        ]
    }

    #[test]
    fn a_greeting_is_read() {
        let hello = read(&answer(&whole(wire::VERSION.into())), &node()).unwrap();
        let incarnation = Incarnation(1_700_000_000_000_000);
        assert_eq!(hello, Hello { shard: ShardId(4096), incarnation, lease_us: 10_000_000, pushes: true });
    }

    #[test]
    fn another_version_and_no_module_are_told_apart() {
        let error = read(&answer(&whole(99)), &node()).unwrap_err().to_string();
        assert!(error.contains("h:7001") && error.contains("99") && error.contains("0.1.0"), "{error}");
        let error = not_greeted(ServerError("ERR unknown command 'CLARET.HELLO', with".into()), &node());
        assert_eq!(error, ConnectError::NoModule { node: "h:7001".into() });
        let error = read(&answer(&whole(wire::VERSION.into())[..4]), &node()).unwrap_err().to_string();
        assert!(error.contains("incarnation"), "{error}");
    }
}
