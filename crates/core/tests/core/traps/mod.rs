//! The traps of the protocol, each sprung by hand, message by message.
//!
//! A test opens with the bug, its consequence and the mend; it fails when the mend is taken out. `docs/traps.md` lists them by their
//! numbers. One file a topic: `commit` (writing yes and no), `last` (who is asked last), `closed` (users who go on with an attempt
//! that is over), `put_off` (who has more calls than are executed at once), `held_off` (plain commands over many keys), `restart`
//! (incarnations, connections), `recovery`, `deadlock` (giving way, phases, upgrades), `effects` (escrow, deferred update), `release`
//! (what must go when an attempt ends), `ordered` (timestamps, and who is told when), `lasting` (ordered calls that can fail), `clocks` (of shards that lost or forgot them, and
//! of others), `promoted` (replicas that go on where calls are ordered), `simulated` (what the simulator found), `sleeping` (calls that wait until there is something for them), `strangers` (shards that were not asked), `told` (callers who hear of ordered
//! calls too soon).

mod clocks;
mod closed;
mod commands;
mod commit;
mod deadlock;
mod effects;
mod held_off;
mod last;
mod lasting;
mod ordered;
mod promoted;
mod put_off;
mod recovery;
mod release;
mod restart;
mod simulated;
mod sleeping;
mod strangers;
mod told;
