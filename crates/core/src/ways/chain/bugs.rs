//! Bugs that tests plant in chains (`planted.rs`).

/// Adds them to a list.
macro_rules! bugs {
    ($add:ident $others:tt $($bugs:tt)*) => {
        $add! {
            $others
            $($bugs)*
            /// A participant locks and votes though the token is not there.
            LocksWithoutToken "locks-without-token" "K3, K6";
            /// A token counts whoever it comes from.
            AnyTokenCounts "any-token-counts" "K10";
            /// The token goes on once, and never again.
            TokenSentOnce "token-sent-once" "K8";
            /// Once the last one has decided, answers of others are taken to be none.
            LastAnswersForAll "last-answers-for-all" "K6";
            /// What has no answer is sent again to those alone who have not voted.
            ResentToUnvoted "resent-to-unvoted" "K8";
            /// Who has voted is followed, wherever its token goes next.
            FollowsAnyVoted "follows-any-voted" "K16";
            /// A token does not say whom its attempt follows.
            FollowedUnnamed "followed-unnamed" "K17";
            /// Of those whom it follows an attempt awaits one.
            FollowsOne "follows-one" "K17";
            /// What follows others is carried out before them, if it hears of its own end first.
            FollowerFirst "follower-first" "K18";
            /// A change of a record's type or of its end is followed like others.
            FollowsAnyChange "follows-any-change" "K16";
            /// Who is followed and waits for a lock hears of no elder that follows it.
            FollowersUnheard "followers-unheard" "K18";
            /// What a follower does is decided by what is there.
            FollowerLooks "follower-looks" "K16";
            /// Who heard that a shard takes no chains tries again.
            UnchainedAgain "unchained-again" "K9";
        }
    };
}

pub(crate) use bugs;
