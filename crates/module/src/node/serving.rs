//! Whether transactions are served here, and why not: what `INFO claret` and `CLARET.TOP` tell operators.

use claret_planted::{Bug, is_planted};

use super::{Node, settings};
use crate::ffi::{Ctx, Flag};
use crate::parts::error::Error;

/// What is said where transactions are served.
pub(crate) const SERVED: &str = "ok";

impl Node {
    /// Why no transactions are served here, for people, in one line; `None`: they are.
    ///
    /// Some of it was seen at the last check, at most `claret.topology-ms` ago.
    pub(crate) fn not_served(&self) -> Option<String> {
        let because = self
            .why_no_shard()
            .or_else(|| self.why_refused().filter(|_| !is_planted(Bug::RefusesInSilence)))?;
        // In one line without zeros, whatever the server said.
        let because = because.replace(char::is_control, " ");
        Some(format!("no transactions are served here, because {because}"))
    }

    /// At each check, and when somebody looks; but for a pause of clients, which is no fault and is over soon.
    pub(crate) fn see_whether_it_writes(&mut self, ctx: Ctx) {
        if !Ctx::must_not_write() {
            self.serving.no_writes = match self.keyspace.may_write(ctx) {
                Err(Error::NoWrites(said)) => Some(said),
                _ => too_few_replicas(ctx),
            };
        }
    }

    fn why_no_shard(&self) -> Option<String> {
        if self.shard.is_some() {
            return None;
        }
        let why = match () {
            () if self.server.detached.is(Flag::Loading) => "the server reads its files",
            () if self.server.detached.is(Flag::Replica) => "this node is a replica",
            () if self.keyspace.view(|view| view.serves_some()) != Some(true) => {
                "this node serves no slots as a primary"
            }
            () if self.serving.is_namesake => {
                "the id of another node begins as that of this one: CLUSTER RESET HARD"
            }
            () if self.strict.following.said.is_empty() => "its shard has not begun yet",
            () => self.strict.following.said.trim_start_matches("no transactions are served: "),
        };
        Some(why.to_owned())
    }

    fn why_refused(&self) -> Option<String> {
        if let Err(Error::NoReplicas { there, configured }) = self.are_replicas_there() {
            // Who took over has none yet that follows it.
            let all = (self.strict.telling.told.seen().acked.len() as u64).max(configured);
            if there as u64 >= all {
                return Some(
                    "its replicas are connected, and not all acknowledge in time: one of them, or the network, is slow"
                        .to_owned(),
                );
            }
            let leave = replicas_may_leave(self.server.detached)
                .map_or_else(String::new, |leave| format!("; {leave}"));
            return Some(format!(
                "{there} of its {all} replicas are connected and acknowledge (claret.replicas is {configured}): start the node that is \
                 down, or have another one follow this one{leave}"
            ));
        }
        if settings::DRAIN.get() == 1 {
            return Some("it is drained: CONFIG SET claret.drain 0 ends that".to_owned());
        }
        self.serving.no_writes.as_ref().map(|error| format!("the server takes no writes now: {error}"))
    }
}

/// That the server refuses clients' writes, and every command that may write, since too few replicas follow it. What is decided is carried
/// out all the same.
fn too_few_replicas(ctx: Ctx) -> Option<String> {
    let set_to = |name| ctx.config(name)?.as_str()?.parse::<u64>().ok();
    let wanted = set_to("min-replicas-to-write").filter(|wanted| *wanted > 0)?;
    // Without a largest lag none of them counts, and nothing is refused.
    let there: u64 = ctx.info("replication", "min_slaves_good_slaves")?.parse().ok()?;
    (there < wanted)
        .then(|| format!("min-replicas-to-write is {wanted}, and {there} replicas follow closely"))
}

/// That the server lets replicas go to a shard that has none, though this one serves no transactions without them.
pub(super) fn replicas_may_leave(ctx: Ctx) -> Option<String> {
    let needed = settings::is_strict().then(|| settings::REPLICAS.get()).filter(|needed| *needed > 0)?;
    let stay: u64 = ctx.config("cluster-migration-barrier")?.as_str()?.parse().ok()?;
    let may_go = ctx.config("cluster-allow-replica-migration")?.as_str() == Some("yes");
    (may_go && stay < needed).then(|| {
        format!(
            "replicas leave by themselves for a shard that has none: set cluster-migration-barrier to {needed} on all nodes (it is {stay})"
        )
    })
}
