//! An EXEC that is done at most once for an id, and is answered as the first time (G13 of docs/gateway.md).

use bytes::BytesMut;
use claret::Store;
use claret_commands::{Answer, Plan};

use crate::fault::{Ended, Fault};
use crate::resp::{Protocol, write};
use crate::work::Work;

/// Carries a plan out at most once for an id, and answers as the first time. What is watched counts the first time alone: afterwards it
/// has changed, by that very plan.
pub(crate) async fn once(store: &Store, id: &[u8], plan: &Plan, protocol: Protocol, work: &Work) -> Ended {
    let id = String::from_utf8_lossy(id);
    let done = store.tx().once(&id).try_run(|tx| async move {
        let answer = Answer::Array(plan.again().run_now(&tx, work).await?);
        Ok::<_, Fault>(claret_types::Bytes::from(kept(&answer)))
    });
    let kept = Box::pin(done).await?.into_value();
    Err(Fault::Done(Box::new(Answer::Raw(of_kept(&kept, protocol)?))))
}

/// An answer as it is kept: in both protocols, because who asks again may speak another one.
fn kept(answer: &Answer) -> Vec<u8> {
    let (mut old, mut new) = (BytesMut::new(), BytesMut::new());
    write(answer, &mut old, Protocol::Resp2);
    write(answer, &mut new, Protocol::Resp3);
    let mut all = (old.len() as u32).to_be_bytes().to_vec();
    all.extend_from_slice(&old);
    all.extend_from_slice(&new);
    all
}

fn of_kept(kept: &[u8], protocol: Protocol) -> Result<bytes::Bytes, Fault> {
    let strange = || Fault::told("ERR what is kept for this id was written by something else than a gateway");
    let (length, rest) = kept.split_first_chunk::<4>().ok_or_else(strange)?;
    let (old, new) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(strange)?;
    let answer = if protocol == Protocol::Resp2 { old } else { new };
    if answer.first() == Some(&b'*') { Ok(bytes::Bytes::copy_from_slice(answer)) } else { Err(strange()) }
}
