//! Messages that leave when a transaction has committed: once or never (A18, A29 of docs/scripts.md).

use std::time::{Duration, Instant};

use bytes::Bytes as Word;
use claret_commands::{Answer, named};
use claret_types::Bytes;

use crate::passthrough::away;
use crate::query::at_slot;
use crate::resp::Protocol;
use crate::session::Session;
use crate::shared::Shared;

/// The messages of what is done have so long to leave, all together, beyond the time that a client waits for anything.
const PUBLISH_MIN: Duration = Duration::from_millis(500);

/// Sends a message: `PUBLISH channel text`, or of a slot. The answer is the node's.
pub(crate) async fn publish<W: AsRef<[u8]>>(
    shared: &Shared,
    session: &Session,
    protocol: Protocol,
    words: &[W],
    began: Instant,
) -> Answer {
    let Some(nodes) = session.nodes() else {
        let [name, channel, text] = [0, 1, 2].map(|at| Word::copy_from_slice(words[at].as_ref()));
        return Answer::Int(shared.here.channels.publish(
            name.eq_ignore_ascii_case(b"SPUBLISH"),
            &channel,
            &text,
        ));
    };
    let slot = named(words[0].as_ref()).and_then(|command| command.slot(words).unwrap_or_default());
    let sent = async {
        let plain = nodes.plain(protocol).await.map_err(away)?;
        at_slot(plain, slot, words, false).await
    };
    let most = shared.times.wait + PUBLISH_MIN;
    let left = most.saturating_sub(began.elapsed());
    match tokio::time::timeout(left, sent).await {
        Ok(Ok(told)) => Answer::Raw(told),
        Ok(Err(fault)) => Answer::from(fault),
        Err(_) => Answer::error("UNKNOWN the node has been silent; the message may have been sent"),
    }
}

/// Sends the messages of scripts, in their order. What goes wrong with one is in the gateway's log: the script has had its answer.
pub(crate) async fn publish_all(
    shared: &Shared,
    session: &Session,
    protocol: Protocol,
    messages: Vec<Vec<Bytes>>,
) {
    let began = Instant::now();
    for message in messages {
        let words: Vec<Word> = message.iter().map(|word| Word::copy_from_slice(word)).collect();
        let told = publish(shared, session, protocol, &words, began).await;
        if told.is_error() {
            shared.log(&format!("a message of a script was not sent: {told:?}"));
        }
    }
}
