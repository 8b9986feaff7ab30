//! A command at a node, whose answer the gateway itself looks at.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use claret_redis::{Cluster, CommandError, Forward};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::replies::of_plain;
use crate::request;

/// One command and whoever waits for its answer.
struct Asked {
    command: Bytes,
    to: Mutex<Option<oneshot::Sender<Result<Bytes, CommandError>>>>,
}

impl Forward for Asked {
    fn encode(&self, _no: u32, out: &mut BytesMut) {
        out.extend_from_slice(&self.command);
    }

    fn receive(&self, _no: u32, reply: Result<&[u8], CommandError>) {
        if let Some(to) = self.to.lock().take() {
            let _ = to.send(reply.map(Bytes::copy_from_slice));
        }
    }
}

fn asked<W: AsRef<[u8]>>(words: &[W]) -> (Arc<dyn Forward>, oneshot::Receiver<Result<Bytes, CommandError>>) {
    let mut command = BytesMut::new();
    request::write(&mut command, words);
    let (to, answered) = oneshot::channel();
    (Arc::new(Asked { command: command.freeze(), to: Mutex::new(Some(to)) }), answered)
}

async fn reply(
    answered: oneshot::Receiver<Result<Bytes, CommandError>>,
    is_read: bool,
) -> Result<Bytes, Fault> {
    match answered.await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(Fault::told(of_plain(&error, is_read))),
        Err(_) => Err(Fault::told("ERR the gateway is closing")),
    }
}

/// The answer of the node of a slot, as it came.
pub(crate) async fn at_slot<W: AsRef<[u8]>>(
    plain: &Cluster,
    slot: Option<u16>,
    words: &[W],
    is_read: bool,
) -> Result<Bytes, Fault> {
    let (to, answered) = asked(words);
    plain.forward(to, 0, slot);
    reply(answered, is_read).await
}

/// The answer of a node, as it came.
pub(crate) async fn at<W: AsRef<[u8]>>(
    plain: &Cluster,
    node: &str,
    words: &[W],
    is_read: bool,
) -> Result<Bytes, Fault> {
    let (to, answered) = asked(words);
    if !plain.forward_to(node, to, 0) {
        return Err(Fault::told(format!("CLUSTERDOWN {node} has left")));
    }
    reply(answered, is_read).await
}
