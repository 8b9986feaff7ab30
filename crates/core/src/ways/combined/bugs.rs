//! Bugs that tests plant in combining (`planted.rs`).

/// Adds them to a list.
macro_rules! bugs {
    ($add:ident $others:tt $($bugs:tt)*) => {
        $add! {
            $others
            $($bugs)*
            /// The client forgets an id while participants do not know its end.
            BuriesEarly "buries-early" "P28, C14";
            /// A group takes what may empty a record for what leaves it there, though the record may expire.
            GroupForgetsExpiry "group-forgets-expiry" "P71, C4";
            /// Members need not commute.
            MembersUnchecked "members-unchecked" "C3";
            /// A member that has written a record shares a read there.
            OwnWriterShares "own-writer-shares" "C4";
            /// A group is open until it is over.
            GroupStaysOpen "group-stays-open" "C5";
            /// What a joiner has buffered does not move with it.
            JoinerLosesBuffered "joiner-loses-buffered" "C2";
            /// A leader that left goes on under the id of the group.
            LeaderKeepsId "leader-keeps-id" "C14";
            /// The prepare names the eldest member alone.
            MatesLeftBehind "mates-left-behind" "C9";
        }
    };
}

pub(crate) use bugs;
