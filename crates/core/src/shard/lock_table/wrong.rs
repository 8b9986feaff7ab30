//! What a planted bug does that takes more than a line (`planted.rs`).

use claret_types::Room;

use super::{Bug, Holder, Lock, Planted};

/// The room as it will be if all that is pending makes room and nothing takes any: [`Bug::DepositsCount`].
pub(super) fn room_with_deposits(planted: Planted, lock: &Lock, room: Room) -> Room {
    if !planted.is(Bug::DepositsCount) {
        return room;
    }
    let draws = || lock.holders.values().flat_map(Holder::claims).map(|claims| claims.draw);
    let (down, up): (u64, u64) = (draws().map(|it| it.down).sum(), draws().map(|it| it.up).sum());
    Room { down: room.down.saturating_add(up), up: room.up.saturating_add(down) }
}
