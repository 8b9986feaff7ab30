//! The catalogue: what is wrong with each bug, and which tests can see it, those that take least first. It was written before
//! the tests; a bug that no test sees says why, with `survives`.

use crate::room::Room;

/// Defines [`Bug`], room by room.
macro_rules! bugs {
    ($($room:ident { $($(#[doc = $doc:literal])+ $bug:ident $(survives $why:literal)? $([$($test:literal),+ $(,)?])?;)+ })+) => {
        /// A bug that an implementer of a host could make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Bug {
            $($($(#[doc = $doc])+ $bug,)+)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$($(Bug::$bug),+),+];

            /// What is wrong.
            pub fn what(self) -> &'static str {
                match self {
                    $($(Bug::$bug => concat!($($doc),+).trim(),)+)+
                }
            }

            /// Where it is.
            pub fn room(self) -> Room {
                match self {
                    $($(Bug::$bug)|+ => Room::$room,)+
                }
            }

            /// Why no test sees it, if none does.
            pub fn survives(self) -> Option<&'static str> {
                match self {
                    $($($(Bug::$bug => Some($why),)?)+)+
                    _ => None,
                }
            }

            /// The lines that [`Bug::tests`] reads.
            pub(crate) fn seen_by(self) -> &'static [&'static str] {
                match self {
                    $($($(Bug::$bug => &[$($test),+],)?)+)+
                    #[allow(unreachable_patterns, reason = "where every bug is seen")]
                    _ => &[],
                }
            }
        }
    };
}

bugs! {
    Client {
        /// Of two who wait for a lock, the one whose caller has tried for longest is not served first.
        AgeOfCallerForgotten ["claret/lib who_has_tried_for_longest_is_served_first"];
        /// A transaction that waits goes on though its caller has left.
        GoneCallersServed ["gateway/waiting an_exec_that_waits_when_its_client_goes_is_not_done"];
        /// Of transactions that combine, those that wait do not hear what is due sooner.
        SoonerUntold ["claret/ways who_waits_hears_of_what_is_due_sooner"];
        /// Nodes may differ in what a failover loses.
        DurabilitiesMixed ["claret/hostile nodes_that_differ_in_durability_are_refused"];
        /// A program takes nodes with another schema than its own.
        SchemasDiffer ["claret/cluster a_node_with_another_schema_is_refused_by_name"];
        /// A listing of keys ends with the first node.
        FirstNodeListed ["claret/cluster records_come_expire_and_go_on_a_cluster"];
        /// A record that moves to another key does not expire any more.
        ExpiryLeftBehind ["claret/transactions records_come_expire_and_go_in_the_process"];
        /// A command that ASK redirects is sent there without ASKING.
        AskUnannounced [
            "redis/lib to_ask_is_announced_before_it_is_asked",
            "redis/redirects what_is_asked_for_elsewhere_is_announced_there"
        ];
        /// A redirected command (MOVED, ASK) is not sent again, and its caller hangs.
        MovedLost ["redis/lib what_moved_or_is_to_come_again_is_kept"];
        /// The new place of a moved slot is not kept: each command goes to the old node first.
        MovedForgotten ["redis/lib where_a_slot_moved_to_is_kept"];
        /// After MOVED nobody asks for the topology.
        MovedUndoubted ["redis/lib what_moved_is_a_reason_to_ask_who_serves_what"];
        /// A command that is redirected in circles is sent for ever.
        CirclesForEver ["redis/lib a_command_is_sent_elsewhere_so_often"];
        /// A command that pauses after TRYAGAIN is dropped, and its caller hangs.
        RestingForgotten ["redis/lib what_moved_or_is_to_come_again_is_kept"];
        /// Commands that wait for a node that left are dropped, and their callers hang.
        QueueGoesWithNode ["redis/lib what_waits_for_a_node_that_left_goes_to_those_who_have_its_slots"];
        /// A node that is gone keeps its queue: what is sent to it waits for ever.
        GoneKeepsQueue ["redis/lib nothing_is_sent_to_a_node_that_left_whoever_says_so"];
        /// Commands that wait for a node that is away never hear of that.
        AwayUntold ["redis/lib what_waits_for_a_node_that_is_away_hears_why"];
        /// A reply goes to the command that was sent last.
        LastAskedAnswered [
            "redis/lib replies_go_to_commands_in_their_order",
            "redis/commands commands_go_to_their_keys_and_replies_come_in_order"
        ];
        /// A redirection (MOVED, ASK) is handed over as the reply to a command that is passed on.
        RedirectionHandedOver ["redis/lib what_is_passed_on_is_sent_again_where_it_moved_to"];
        /// What may put a command before an earlier one is not counted: a pipeline is carried out in another order.
        OvertakingUncounted ["redis/lib whatever_may_overtake_is_counted"];
        /// A command whose connection broke before its reply came is sent again, and carried out twice.
        LostSentAgain ["redis/lib what_had_no_reply_when_its_connection_broke_is_not_sent_again"];
        /// The response timeout is ignored: the client waits for a silent server for ever.
        SilenceIgnored ["redis/hostile a_server_that_never_answers_is_given_up_after_the_time_that_was_set"];
        /// The response timeout that was set is ignored, and the default is used.
        ResponseTimeUnset ["redis/hostile a_server_that_never_answers_is_given_up_after_the_time_that_was_set"];
        /// The nesting of a reply is not bounded.
        DepthUnbounded ["redis/lib nested_arrays_are_refused_before_they_cost_stack"];
        /// The length of a reply is not bounded.
        BytesUnbounded ["redis/lib what_announces_too_much_is_refused_before_it_comes"];
        /// The number of values in a reply is not bounded.
        ElementsUnbounded ["redis/lib what_announces_too_much_is_refused_before_it_comes"];
        /// Pushes that nobody asked for are not counted.
        PushesUncounted ["redis/lib pushes_that_nobody_asked_for_are_counted_from_reply_to_reply"];
        /// Control characters in a server's error reach the terminal.
        ControlsShown ["redis/lib errors_of_servers_neither_command_a_terminal_nor_fill_it"];
        /// An error about a URL shows the password in it.
        PasswordShown ["redis/lib what_is_wrong_with_a_url_is_said_without_the_password"];
        /// Pauses between tries do not grow.
        PausesStayShort ["redis/lib pauses_grow_to_a_bound_and_differ"];
        /// Pauses stay long after a try that worked.
        PausesStayLong ["redis/lib pauses_grow_to_a_bound_and_differ"];
        /// A tick of the coarse timer wakes nobody: deadlines pass unnoticed.
        TickWakesNobody ["claret/lib whoever_joined_is_woken_at_the_next_tick"];
        /// A topology in which two nodes serve one slot is accepted.
        TwoServeOneSlot ["redis/lib a_slot_that_two_serve_is_believed_of_neither"];
        /// The number of nodes in a topology is not bounded.
        NodesUnbounded ["redis/lib nodes_are_bounded"];
        /// Missing slots at the end are not seen.
        LastSlotsUnmissed ["redis/lib missing_slots_are_named"];
        /// A topology with holes is accepted.
        HolesBelieved ["redis/redirects a_topology_with_holes_is_not_believed"];
        /// Hash tags are ignored: the whole key is hashed.
        TagsIgnored ["redis/lib slots_are_those_of_redis"];
        /// The channel of grants is in any slot, not in one of the node's.
        ChannelElsewhere ["claret/lib a_channel_is_its_users_and_in_a_slot_of_its_node_whatever_the_name"];
        /// A user's name is not escaped in the names of its channels.
        UserUnescaped ["claret/lib a_channel_is_its_users_and_in_a_slot_of_its_node_whatever_the_name"];
        /// Of several seeds only the first is asked.
        OtherSeedsUnasked ["redis/hostile a_dead_seed_does_not_matter"];
        /// What a node of another cluster says of slots is believed.
        AnotherClusterBelieved ["claret/cluster nodes_of_two_clusters_are_told_apart"];
        /// The challenge of any shard that a node names is signed.
        SignsForOthers ["claret/hostile a_challenge_of_another_node_is_not_signed"];
        /// The client speaks to a module of another version.
        VersionUnchecked ["claret/lib another_version_and_no_module_are_told_apart"];
        /// A lease, a shard or an incarnation may be any number.
        NumbersUnchecked ["claret/lib numbers_that_cannot_be_are_refused"];
        /// Grants that are pushed are not read.
        PushUnread ["claret/lib what_is_pushed_is_read", "claret/cluster many_tasks_count_on_one_key_in_every_mode"];
        /// The client does not notice that the slot of its channel of grants moved: no grants come any more.
        ChannelMovedUnheard ["claret/lib a_connection_whose_channel_moved_is_made_anew"];
        /// A refused frame breaks its connection, again and again.
        RefusedFrameBreaks [
            "claret/lib a_frame_that_is_refused_breaks_no_connection",
            "claret/cluster a_request_that_a_server_does_not_take_fails_alone"
        ];
        /// A decision leaves before whoever was told of it can say more.
        DecisionsLeaveAlone [
            "claret/lib decisions_let_those_speak_first_who_are_told_of_them",
            "claret/cluster a_decision_leaves_with_what_is_said_next"
        ];
        /// The lease that a node gives is ignored: heartbeats come too late.
        LeaseUnheard ["claret/lib heartbeats_go_by_the_lease_of_the_node"];
        /// The timer does not hear that something is due sooner: no heartbeats, and no deadlines.
        TimerUntold ["claret/lib the_timer_hears_what_is_due_sooner"];
        /// The default user logs in, whatever user the URL names.
        UserUnsent ["redis/hostile the_user_of_the_url_logs_in"];
        /// The name that certificates must have (`tls-name`) is ignored.
        CertificateNameIgnored ["claret/cluster tls_is_spoken_with_servers_whose_certificate_is_trusted"];
        /// The client's certificate is not shown.
        CertificateUnsent ["claret/cluster tls_with_a_server_that_asks_for_certificates_takes_those_that_its_authority_signed"];
        /// The next attempt also applies what an attempt has buffered: a void call happens twice.
        BufferedCallsStay ["claret/attempts what_an_attempt_buffered_is_not_applied_by_the_next_one"];
        /// Each attempt of a transaction has the whole deadline.
        DeadlineOfEachAttempt ["claret/attempts the_deadline_is_of_all_attempts_together"];
        /// The blocking mirror swallows the error of an operation that returns nothing.
        VoidErrorSwallowed ["claret/attempts the_blocking_mirror_tells_the_errors_of_void_operations"];
        /// What the socket does not take at once is never written.
        RestUnwritten ["redis/hostile a_large_command_is_written_whole"];
        /// A broken connection is not made again.
        NeverConnectedAgain ["redis/hostile a_connection_that_broke_is_made_anew"];
        /// The certificates to trust (`tls-ca`) are ignored: the system's are used.
        AuthorityIgnored ["claret/cluster tls_is_spoken_with_servers_whose_certificate_is_trusted"];
    }
    Guard {
        /// Commands that EXEC runs are judged again, by their own types.
        JudgedAgainInExec [
            "module/lib filter_and_command_give_the_same_verdict",
            "module/multi exec_runs_whole_or_not_at_all_whatever_type_a_transaction_holds_a_key_with"
        ];
        /// Within EXEC a slot leaves while it is in use.
        SlotLeavesInExec ["module/lib a_slot_is_taken_within_exec_too"];
        /// A command with too few words waits.
        ArityUnchecked ["module/lib filter_and_command_give_the_same_verdict"];
        /// A user without the right to a command waits, and learns what is held.
        ForbiddenWaits ["module/lib filter_and_command_give_the_same_verdict"];
        /// A client that cannot wait is made to wait.
        AlwaysWaits ["module/lib filter_and_command_give_the_same_verdict"];
        /// `CLARET.READ` runs commands that write.
        WritesBehindRead ["module/lib what_the_module_may_not_run_is_refused_before_anything_is_looked_at"];
        /// A script runs what scripts may not.
        ScriptRunsForbidden ["module/lib what_the_module_may_not_run_is_refused_before_anything_is_looked_at"];
        /// Keys that are reserved for a command's next try block it.
        ReservedInTheWay ["module/lib what_is_kept_for_a_next_try_is_in_nobodys_way"];
        /// A plain command tells of what was ordered and is not settled.
        UnsettledTold ["module/clocks trap_32_a_plain_command_tells_of_what_is_not_settled"];
        /// A commuting command brings something to a pop that sleeps on a held key.
        BlockedClientGetsHeld ["module/lib what_would_reach_a_blocked_client_waits_whatever_it_is"];
        /// A command that is no operation of the holder's type passes.
        OtherTypesPass ["module/lib a_command_that_is_an_operation_is_compared_by_its_types_table"];
        /// A plain read of a whole record waits for readers.
        ReadsExclude ["module/lib readers_share_and_writers_do_not"];
        /// Only the first held key of a command is judged.
        FirstHeldKeyAlone ["module/multi every_held_key_is_judged_and_not_the_first_alone"];
        /// `SMOVE`, `LMOVE` and `RPOPLPUSH` guard their source only.
        SourceAlone [
            "module/multi a_command_waits_for_each_of_its_keys",
            "module/multi exec_is_refused_for_each_key_of_what_was_queued"
        ];
        /// Only the first key of a command with many keys is seen.
        LastKeysUnseen ["module/lib places_of_keys_count_from_both_ends"];
        /// Commands of other databases wait for keys of the first.
        OtherDatabasesWait ["module/guard other_databases_are_other_keys"];
        /// Keys that the server has to be asked for (`SORT`, `EVAL`) are not noted for EXEC.
        AskedKeysUnnoted ["module/multi exec_is_refused_for_each_key_of_what_was_queued"];
        /// Keys of `UNLINK` are not noted for EXEC.
        UnlinkUnnoted ["module/multi exec_is_refused_for_each_key_of_what_was_queued"];
        /// Keys are noted without a check of rights: a user reserves keys of others.
        NotedWhoeverAsks ["module/multi@valkey who_may_not_use_a_key_reserves_nothing_and_learns_nothing"];
        /// An EXEC is refused for keys that its user may not use.
        KeysOfOthersRefuse ["module/multi who_may_not_use_a_key_reserves_nothing_and_learns_nothing"];
        /// Pops get the module's command put before them when they are queued in a MULTI.
        QueuedPopsJudged ["module/pops@valkey a_multi_with_a_pop_that_cannot_run_does_nothing"];
        /// A refused EXEC keeps its keys for the next one.
        RefusedExecKeepsKeys ["module/multi@valkey a_refused_exec_leaves_no_keys_behind"];
        /// The MULTI of a closed connection stays open.
        ClosedMultiStays ["module/multi@valkey a_multi_goes_with_its_connection"];
        /// A key that is read and then written in one MULTI counts as read.
        ReadThenWrittenIsRead ["module/lib a_key_that_is_written_once_is_written"];
        /// A MULTI that is older than the shard is trusted.
        OlderMultiUnseen [
            "module/lib who_began_before_anybody_looked_may_use_anything_until_it_is_done",
            "module/plain exec_of_a_multi_that_is_older_than_the_shard_breaks_no_transaction"
        ];
        /// In a MULTI with more keys than can be noted the others do not count.
        OverfullForgotten ["module/lib of_a_multi_with_too_many_keys_any_counts"];
        /// A key that is reserved twice is free at the first end.
        FreeAtFirstEnd ["module/lib a_key_that_is_reserved_twice_is_free_when_both_are_over"];
        /// A command over many keys does not look at the rest again: others come in between.
        RestUnasked ["module/lib many_keys_are_asked_for_as_they_are_held_and_nobody_comes_in_before_the_command"];
        /// A command that does not run after all still holds others off.
        LeaverHoldsOff ["module/lib who_does_not_run_after_all_lets_the_others_on"];
        /// Reservations count from the request, not from the grant.
        KeptFromTheAsking ["module/lib a_reservation_counts_from_its_grant_and_for_so_long"];
        /// Reservations that are over still count, until no more are allowed.
        ReservationsStayCounted ["module/lib so_many_reservations_may_be_at_a_time"];
        /// A plain command waits on when its time is over.
        WaitsForEver ["module/lib a_client_whose_time_is_over_is_let_go_once", "module/plain a_wait_is_bounded_and_leaves_nothing"];
        /// A command whose record vanished does not ask again, and waits for ever.
        VanishedUnasked ["module/lib a_record_that_vanishes_under_it_is_asked_for_again"];
        /// A command that reads and writes one key only asks to read it.
        ReadAndWrittenAskedAsRead ["module/lib a_key_that_is_read_and_written_is_asked_for_once_and_to_write"];
        /// Two transactions meet at a key on which a pop sleeps in the server, and it takes from both.
        SecondComerLetBe ["module/lib a_second_one_at_a_held_key_wakes_all"];
        /// A transaction comes to a key to which a blocked client would move something.
        TargetsLetBe ["module/lib who_comes_to_where_a_blocked_client_would_move_something_wakes_all"];
        /// A key of another type wakes a pop, which answers WRONGTYPE; in Redis it sleeps on.
        AnyKindWakesPop ["module/pops pops_answer_byte_by_byte_as_without_the_module"];
        /// A slot leaves while its keys are held.
        SlotLeavesInUse ["module/plain a_slot_does_not_leave_while_its_keys_are_held"];
        /// A slot leaves while nobody knows what was written in it.
        SlotLeavesUnknown ["claret/cluster a_slot_stays_while_nobody_knows_what_was_written_in_it"];
        /// A slot leaves before the replicas have what was written in it.
        SlotLeavesUnconfirmed ["module/lib a_slot_leaves_when_the_replicas_have_what_was_written"];
        /// Who takes the place of a node that died serves a slot of which some keys have gone.
        StrandedServed ["claret/cluster a_slot_on_its_way_is_served_by_nobody_after_its_giver_died"];
        /// Replicas are not told which slots are on their way.
        SlotOnItsWayUntold ["claret/cluster a_slot_on_its_way_is_served_by_nobody_after_its_giver_died"];
        /// A client that was let go and is gone leaves its slot closed.
        GoneLeavesSlotClosed ["module/lib who_is_gone_leaves_no_slot_closed_whether_it_was_let_go_or_not"];
        /// Keys of a slot on its way to another node are served.
        SlotOnItsWayServed ["module/lib a_slot_on_its_way_is_nobodys_and_without_a_cluster_all_are_here"];
        /// A command that was let go runs while clients are paused, and its write ends the server.
        GrantedInPause ["module/guard who_is_let_go_into_a_pause_writes_nothing_in_it"];
        /// A MULTI that begins while nothing is held is not seen.
        IdleMultiUnseen [
            "module/plain exec_is_refused_while_a_queued_key_is_held_and_finds_it_free_next_time",
            "module/multi exec_is_refused_for_each_key_of_what_was_queued"
        ];
        /// A pop that waits for less than a millisecond waits for ever.
        ShortPopsWaitForEver ["module/pops pops_answer_byte_by_byte_as_without_the_module"];
        /// A pop that was passed over is not woken when the key is free.
        PassedOverForgotten ["module/plain a_pop_that_was_passed_over_gets_its_item_when_the_key_is_free"];
        /// The number of keys that are reserved for commands that do not wait is not bounded.
        ReservationsUnbounded ["module/lib so_many_reservations_may_be_at_a_time"];
        /// Keys of subcommands (`OBJECT ENCODING`) are not seen.
        SubcommandsUnseen ["module/lib what_the_server_says_of_its_commands_is_read"];
        /// Shard channels are treated as keys, and commands wait for their holders.
        ChannelsAreKeys ["module/guard a_shard_channel_is_no_key"];
        /// The module runs `CLUSTER SETSLOT` where the server makes its client wait for replicas, which ends the server.
        SlotWaitsForReplicas ["module/slots@valkey a_slot_of_held_keys_leaves_a_node_that_has_replicas_after_them"];
    }
    Records {
        /// A record that has to be read as a whole may be as large as it likes.
        WholeReadsUnbounded ["module/lib a_rank_after_changes_of_a_very_large_record_is_refused_with_the_bound"];
        /// The shard does not hear that a plain command changed a key for which somebody waits.
        AwaitedUntold ["module/frames a_plain_push_wakes_a_call_that_sleeps"];
        /// A key that has changed has the version that it had.
        VersionOutlivesChange ["module/versions every_command_that_writes_changes_the_version_of_what_it_changed"];
        /// What versions take has no bound.
        VersionsUnbounded ["module/versions versions_are_bounded_and_counted_and_what_is_forgotten_is_as_if_it_had_changed"];
        /// A version is kept where the next change would not be seen.
        VersionWhereNobodyLooks ["module/versions where_the_next_change_would_not_be_seen_no_version_is_kept"];
        /// A command of which the server tells nothing leaves the version of what it changes.
        SilentChangesMissed ["module/versions every_command_that_writes_changes_the_version_of_what_it_changed"];
        /// A node takes operations that its schema does not have.
        SchemaUnasked ["module/schema what_breaks_the_schema_is_refused_to_a_raw_session"];
        /// `HDEL` does not reach replicas and the append-only file.
        HdelUnreplicated [
            "module/propagation a_replica_gets_the_same_in_one_multi",
            "module/propagation the_append_only_file_has_one_multi_and_brings_everything_back"
        ];
        /// `SREM` does not reach them.
        SremUnreplicated ["module/propagation a_replica_gets_the_same_in_one_multi"];
        /// `DEL` does not reach them.
        DelUnreplicated ["module/propagation a_replica_gets_the_same_in_one_multi"];
        /// A timer writes while clients are paused, and the server aborts.
        WritesWhilePaused ["module/propagation a_timer_writes_nothing_while_clients_are_paused_and_catches_up"];
        /// `maxmemory` does not stop additions to sorted sets.
        SortedSetsOverMemory [
            "module/lib every_method_has_a_plain_command_of_its_own_kind",
            "module/propagation what_may_add_is_refused_when_memory_has_run_out"
        ];
        /// Calls are ordered on records that the server may throw away.
        EvictedOrdered ["module/clocks what_may_vanish_by_itself_is_locked"];
        /// Who has voted and has a place finds what is left after a flush.
        FlushedUnseen ["module/clocks a_flush_comes_after_who_has_voted"];
        /// Only the first effect of a transaction on a record is applied.
        FirstEffectAlone ["module/lib sets_are_as_in_memory"];
        /// Only the first portion of many elements is written.
        FirstPortionAlone ["module/lib more_elements_than_one_command_takes_are_all_written"];
        /// The operator does not hear that the server refused a committed write.
        RefusalUntold ["module/lib an_effect_that_the_server_refuses_is_told_to_the_operator"];
        /// A float counter loses its time to live.
        FloatLosesEnd [
            "module/lib what_is_added_keeps_the_time_to_live",
            "module/expiry ends_of_records_are_kept_as_by_the_plain_commands"
        ];
        /// Operations do not see when a record expires.
        ExpiryUnseen ["module/lib strings_are_as_in_memory"];
        /// An expiry that is to be put off is brought forward.
        ExpiryBroughtForward ["module/lib an_expiry_that_two_put_off_is_the_later_one"];
        /// A key ends by its time while a vote about its end is not decided.
        EndsPassVotes ["module/lib an_end_that_is_held_is_the_same_to_who_asks"];
        /// An end that a transaction sets is not written while others hold the key's.
        HeldEndsUnwritten ["module/lib the_last_of_several_lets_an_end_come"];
        /// A key is removed that came in place of one whose end was held.
        HeldEndsOfOthers ["module/lib what_came_in_place_of_a_held_record_stays"];
        /// A key whose end was put off for a vote ends that late.
        HeldEndsStay ["module/lib an_end_comes_in_time_when_nothing_was_carried_out"];
        /// An expiry that a transaction sets on a key that others hold is not noted, and the key vanishes unseen.
        ExpiryUnnoted ["module/expiry an_end_that_another_sets_on_a_held_key_is_heard_of"];
        /// A record is put on top of what there was.
        PutOnTop ["module/lib sets_are_as_in_memory"];
        /// A record that own effects have emptied is taken for there.
        EmptiedIsThere ["module/lib sets_are_as_in_memory"];
        /// The last addition is not written.
        LastSumUnwritten ["module/lib strings_are_as_in_memory"];
        /// Several pops of one transaction take one value.
        PopsOne ["module/lib lists_are_as_in_memory"];
        /// Values of one push are written in reverse order.
        PushesTurned ["module/lib lists_are_as_in_memory"];
        /// Scores are written with three digits.
        ScoresRounded ["module/lib scores_and_sums_are_written_to_the_last_bit"];
        /// A TopK keeps more members than its capacity.
        BestUntrimmed ["module/lib of_the_best_no_more_are_kept_than_count"];
        /// The capacity of a TopK is not written.
        CapacityUnwritten ["module/lib of_the_best_no_more_are_kept_than_count"];
        /// An offer that is no longer good enough takes another's place.
        LateOfferWritten ["module/lib of_the_best_no_more_are_kept_than_count"];
        /// A key of another type is accepted.
        AnyKindTaken ["module/lib a_key_of_another_type_is_refused_by_both_names"];
        /// Own effects of another type on the record are not seen.
        OtherTypesUnread ["module/lib records_that_are_used_as_two_types_are_as_in_memory"];
        /// A transaction's own earlier changes to a set are ignored.
        OwnUnseen ["module/lib sets_are_as_in_memory"];
        /// A set counts only the members that were loaded.
        OthersUncounted ["module/lib sets_are_as_in_memory"];
        /// A dict counts only the fields that were loaded.
        FieldsUncounted ["module/lib hashes_are_as_in_memory"];
        /// What is in an object of a document is not read with it.
        MembersUnread ["module/lib documents_are_as_in_memory"];
        /// A hash without a root is taken for a document.
        RootlessTaken ["module/documents what_is_no_document_is_refused_by_name"];
        /// A range of a list is read one short.
        ReachTooShort ["module/lib what_is_read_of_a_long_list_is_all_that_is_asked_for"];
        /// Every member of a sorted set is the lowest.
        RanksFromZero ["module/lib sorted_sets_are_as_in_memory"];
        /// `007` and `+7` are accepted as numbers, but the server does not add to them.
        PaddedNumbersTaken ["module/lib numbers_that_the_server_does_not_add_to_are_refused"];
        /// A counter that is out of its bounds is accepted.
        OutOfBoundsTaken ["module/lib a_counter_that_is_out_of_its_bounds_is_refused"];
        /// A vote promises a string that is longer than the server allows.
        LongAppendPromised ["module/lib what_would_be_too_long_is_refused_before_it_is_promised"];
        /// PFCOUNT that is asked keeps what it counts in the record, which so changes.
        CountedInPlace ["module/commands a_server_is_asked_now_of_what_is_committed"];
        /// Whether a command can be done shows when it is carried out.
        CommandsUnchecked ["module/commands what_cannot_be_done_is_refused_before_the_vote"];
        /// A command that writes may share its lock with those that read.
        WritesShareLocks ["module/commands a_command_says_whether_it_writes"];
        /// The string beside a TopK is in another slot.
        SideInOtherSlot ["module/lib it_is_in_the_slot_of_the_record"];
    }
    Sessions {
        /// A connection may prove as often as it likes.
        ProvesAgain ["module/lib a_connection_has_one_proof_and_one_session"];
        /// Any proof will do.
        ProofUnchecked ["module/lib a_connection_has_one_proof_and_one_session"];
        /// Any user may speak for a session.
        AnybodysSession ["module/lib connections_are_numbered_upwards_and_are_of_one_user"];
        /// A connection that is older than the session's newest is let in.
        OldConnectionLetIn ["module/lib connections_are_numbered_upwards_and_are_of_one_user"];
        /// There may be any number of sessions.
        SessionsUnbounded ["module/lib there_are_so_many_sessions_and_so_many_of_a_user"];
        /// A user may have any number of sessions.
        UserSessionsUnbounded ["module/lib there_are_so_many_sessions_and_so_many_of_a_user"];
        /// Forgotten sessions still count, until their user gets no new one.
        ForgottenStayCounted ["module/lib there_are_so_many_sessions_and_so_many_of_a_user"];
        /// A session ends with a connection that only listened.
        ListenerEndsSession ["module/lib who_listens_sends_no_frames_and_keeps_no_session"];
        /// Locks of a dead client stay until its lease is over.
        DeadClientHolds ["module/frames what_a_dead_client_held_is_free_at_once_and_not_after_a_lease"];
        /// A connection speaks for the transactions of other sessions.
        SpeaksForOthers ["module/bad_input nobody_speaks_for_another_session"];
        /// A prepare may list shards that do not exist, and is in doubt for ever.
        StrangersListed ["module/participants a_vote_is_given_with_shards_of_the_cluster_alone"];
        /// A transaction may claim to be older than all others.
        BirthsUnbounded ["module/sessions nobody_is_older_than_may_be_claimed"];
        /// A message of the bus counts regardless of its sender.
        SenderUnchecked ["module/participants what_comes_over_the_bus_is_of_the_node_that_sends_it"];
        /// Responses that nobody heard are put behind later ones.
        PutBackBehind ["module/lib what_nobody_took_is_told_before_what_came_since"];
        /// A full outbox drops the newest responses, which nothing else repeats.
        NewestDropped ["module/lib the_oldest_go_when_there_are_too_many_or_too_much"];
        /// One session may fill the outboxes of all.
        ShareIgnored ["module/lib of_more_than_may_wait_the_oldest_go"];
        /// Responses that were taken from an outbox still count.
        TakenStayCounted ["module/lib what_waits_is_pushed_polled_or_taken_along_and_never_twice"];
        /// A poll does not end with its time.
        PollsForEver ["module/lib a_poller_waits_for_so_long_and_one_at_a_time"];
        /// A poll that a newer one replaces is never answered.
        EarlierPollForgotten ["module/lib a_poller_waits_for_so_long_and_one_at_a_time"];
        /// A poll whose connection closed is kept.
        DeadPollKept [
            "module/lib a_poller_waits_for_so_long_and_one_at_a_time",
            "module/frames a_poll_whose_connection_closed_is_let_go"
        ];
        /// `CLARET.EXEC` of a client that went away goes on.
        DepartedExecGoesOn [
            "module/lib a_client_that_goes_is_let_go_once_and_its_answer_is_forgotten",
            "module/exec a_departed_clients_transaction_is_withdrawn_while_it_waits"
        ];
        /// `CLARET.EXEC` is retried without a bound.
        TriedForEver ["module/lib it_is_not_tried_for_ever"];
        /// The low-water mark of the module's own session passes what is open.
        LowWaterAboveOpen ["module/lib the_low_water_mark_is_the_oldest_that_is_open_and_is_told_in_time"];
        /// Users whose names are not valid text are confused.
        NamesLossy ["module/lib names_are_bytes_and_are_shown_escaped"];
        /// Cached rights of a user never expire.
        RightsForEver ["module/lib what_was_seen_counts_for_a_moment_and_not_beyond_a_change"];
        /// A user who loses rights goes on with what it has begun.
        LostRightsUntold ["module/plain a_change_of_rights_ends_what_has_not_voted"];
        /// A change of rights that was refused ends what others have begun.
        RefusedChangeCounts ["module/multi a_change_of_rights_that_was_refused_ends_nothing"];
        /// A client that has not logged in counts as known.
        StrangersKnown ["module/multi who_has_not_said_who_it_is_gets_nowhere"];
        /// Denials are not in the server's log.
        DenialUnlogged ["module/participants denials_are_in_the_servers_log"];
        /// A user who may send frames may do anything with any key.
        RightsUnasked ["module/acl rights_are_looked_up_each_time_and_a_vote_outlives_them"];
        /// A TopK needs no right to the string beside it.
        SideRightUnasked ["module/acl a_topk_needs_the_right_to_the_string_beside_it"];
        /// Who may not send a command may have it carried out as a step of a transaction.
        CommandRightsUnasked ["module/commands who_may_not_send_a_command_has_no_such_step"];
        /// What is asked of the server is admitted as a read of any kind: its words are nobody's concern.
        QuestionsUnadmitted ["module/commands a_server_is_asked_now_of_what_is_committed"];
        /// `maxmemory` refuses nothing.
        MemoryIgnored ["module/propagation what_may_add_is_refused_when_memory_has_run_out"];
        /// A user has pushes sent to the channels of another.
        ChannelsOfOthers [
            "module/acl a_users_name_does_not_reach_into_the_channels_of_another",
            "module/acl who_has_only_the_channels_of_its_own_name_gets_pushes_there_and_nowhere_else"
        ];
        /// For held keys that expire, the latest expiry counts.
        LatestEndCounts [
            "module/lib a_key_is_ripe_in_the_millisecond_of_its_end_and_taken_once",
            "module/expiry the_earliest_end_of_held_keys_is_not_missed"
        ];
        /// A held key is looked at a millisecond after it is gone.
        GoneForAMillisecond ["module/lib a_key_is_ripe_in_the_millisecond_of_its_end_and_taken_once"];
        /// Of keys that expire together only one is looked at.
        OneExpiresAtATime ["module/lib keys_that_end_together_are_taken_together"];
        /// The expiry of a held key is not noted.
        EndUnnoted ["module/expiry the_earliest_end_of_held_keys_is_not_missed"];
        /// A key that a transaction finds gone is reported only after it has voted.
        FoundGoneTold ["module/expiry who_finds_a_key_gone_comes_after_its_end"];
        /// An idle node does not hear that a held key is gone.
        IdleNodeUntold ["module/expiry an_idle_node_tells_that_a_held_key_is_gone"];
        /// A flush goes unnoticed.
        FlushUnheard ["module/plain flushes_are_as_if_every_held_key_expired"];
        /// A server that starts again counts its incarnations by the clock alone.
        EarlierLivesForgotten [
            "module/lib one_that_starts_again_while_its_clock_is_behind_is_a_later_one",
            "claret/cluster a_node_that_starts_again_while_its_clock_is_behind_goes_on"
        ];
        /// A node that loses slots forgets what it voted.
        VotesForgotten ["module/lives a_node_that_loses_slots_keeps_its_votes_and_begins_another_incarnation"];
        /// Lost slots go unnoticed: the shard goes on as the same incarnation.
        LostSlotsUnseen ["module/lib a_listing_says_who_owns_what"];
        /// A push that nobody hears is lost.
        UnheardPushLost ["module/lives what_nobody_hears_is_kept_for_the_next_frame"];
        /// A shard that is gone for good is asked for ever.
        GoneUnheardOf ["module/lib the_memory_of_a_shard_is_gone_when_its_node_is_no_primary_any_more"];
        /// A drained node does not refuse what is open.
        DrainIgnored ["module/lives a_drained_node_keeps_what_was_voted_and_refuses_the_rest"];
        /// Anybody may look at locks and end attempts.
        AnybodyOperates [
            "module/participants an_operator_ends_what_is_open",
            "module/acl the_commands_themselves_are_in_categories"
        ];
        /// An operator ends what holds keys that it may not change.
        EndsForeignKeys ["module/participants an_operator_ends_what_is_open"];
        /// `CLARET.EXEC` takes keys of other nodes.
        PlacementUnchecked ["module/exec keys_of_another_node_are_moved_and_of_several_nodes_refused"];
        /// A replica has a shard.
        ReplicaServes ["module/lives an_idle_server_without_sessions_is_not_woken_for_a_check"];
        /// Transactions of other databases count as those of the first.
        AnyDatabaseTaken ["module/loading transactions_are_of_the_first_database"];
        /// Held keys are not checked when their time to live ends.
        EndsUntouched [
            "module/expiry nobody_counts_on_a_key_in_the_millisecond_after_its_end",
            "module/expiry the_earliest_end_of_held_keys_is_not_missed"
        ];
        /// What an operator decides comes before what has ended, and nobody has seen yet.
        OperatorOvertakesEnds ["module/expiry nobody_is_let_in_before_it_is_known_what_has_ended"];
        /// A timer's work is no command: keys end in the midst of it.
        TimeGoesOn ["module/expiry a_key_does_not_end_in_the_midst_of_an_entry"];
        /// A user who may only read keeps out other readers.
        ReadersReserve ["module/participants who_only_reads_keeps_out_no_other_reader"];
        /// A frame counts though one before it was lost.
        LetterGapUnseen ["module/lib a_helper_speaks_over_its_newest_connection_without_a_gap"];
        /// Any node may write in the name of another one's helper.
        AnyHomeHeard ["module/lib a_helper_speaks_over_its_newest_connection_without_a_gap"];
        /// A helper takes over the session of a client.
        HelperIsAnybody ["module/lib a_session_of_a_client_is_no_helpers_and_the_other_way_round"];
        /// What comes over an earlier connection counts.
        EarlierConnectionHeard ["module/lib a_connection_that_is_over_begins_anew_and_nothing_of_the_earlier_one_counts"];
        /// An errand begins before the nodes of its keys have said which shards they are.
        ErrandBeginsEarly ["module/lib an_errand_leaves_when_every_node_of_its_keys_has_said_welcome"];
        /// A shard that is silent is waited for without end.
        SilenceBorne ["module/lib who_is_silent_for_a_second_is_greeted_anew"];
        /// There may be any number of errands.
        ErrandsUnbounded ["module/lib there_is_room_for_a_bounded_number_and_who_leaves_makes_room"];
        /// The errand of a client that is gone goes on to wait.
        GiverGoneWaits [
            "module/lib there_is_room_for_a_bounded_number_and_who_leaves_makes_room",
            "module/errands a_giver_or_a_home_that_dies_leaves_nothing_held"
        ];
        /// A user who is off acts by errand.
        OffUserActs ["module/errands rights_are_those_of_the_node_that_has_the_key"];
        /// The helpers of a home that is over hold what they held.
        HelpersOutlive ["module/lib a_helper_speaks_over_its_newest_connection_without_a_gap"];
        /// What is done once for an id looks whether it was, and does not write that it is.
        OnceUnmarked ["module/errands an_id_is_carried_out_once_whichever_nodes_it_is_given_to"];
        /// What is done once for an id does not keep what it answered.
        OnceAnswersUnkept ["module/errands an_id_is_carried_out_once_whichever_nodes_it_is_given_to"];
        /// Answers stand in the order in which they came.
        AnswersAsTheyCame ["module/errands any_node_carries_out_operations_on_keys_of_all_or_none"];
        /// The length of a frame is not bounded.
        FramesUnbounded ["module/lives frames_outboxes_and_sessions_have_bounds"];
    }
    Replicas {
        /// A primary without its replicas refuses transactions, and says that it serves them.
        RefusesInSilence [
            "cli/cluster a_strict_shard_whose_node_died_says_so_until_start_node_brings_it_back",
            "claret/cluster a_primary_without_its_replica_does_not_say_that_it_serves"
        ];
        /// A replica that comes is not told everything.
        NewcomerUntold ["module/lib who_came_between_two_batches_counts_from_when_it_was_told_everything"];
        /// What was told before a replica came counts for that one, too.
        WholeUncounted ["module/lib who_came_between_two_batches_counts_from_when_it_was_told_everything"];
        /// A batch ends where the stream began.
        EndUnsought ["module/lib a_batch_counts_when_every_replica_has_all_up_to_its_end"];
        /// A batch counts when the fastest replica has it.
        FastestDecides ["module/lib the_slowest_of_all_decides_and_who_is_missing_decides_too"];
        /// Replicas that are not connected do not matter.
        AwayUncounted ["module/lib the_slowest_of_all_decides_and_who_is_missing_decides_too"];
        /// `claret.replicas` does not matter.
        ConfiguredIgnored ["module/lib the_slowest_of_all_decides_and_who_is_missing_decides_too"];
        /// Whoever reads the stream like a replica counts as one.
        AnybodyCounts ["module/lib who_follows_is_found_among_those_who_are_connected"];
        /// A primary that lost its replicas takes transactions.
        ServesWithoutReplicas ["claret/cluster a_primary_without_its_replica_serves_nothing_and_says_so"];
        /// An envelope counts whatever its signature.
        EnvelopeUnsigned ["module/lib an_envelope_counts_once_for_one_node_and_from_one"];
        /// An envelope counts as often as it comes.
        EnvelopeCountsAgain ["module/lib an_envelope_counts_once_for_one_node_and_from_one"];
        /// An envelope of an earlier life of its sender counts.
        PastLifeCounts ["module/lib an_envelope_is_for_one_life_and_an_earlier_life_is_over"];
        /// An envelope to an earlier life of its receiver counts.
        OtherLifeMeant ["module/lib an_envelope_is_for_one_life_and_an_earlier_life_is_over"];
        /// A client can say what a primary tells its replicas.
        ClientsTellChanges ["module/strict a_client_tells_no_changes"];
        /// Whoever goes on as the shard believes that all records vanished, as they had when it got those of its primary.
        VanishedBeforePromotion ["claret/cluster what_was_reported_is_there_after_a_primary_dies"];
        /// A key that another node gives away is there when this one has it, whatever its replicas have.
        TakenAtOnce ["claret/cluster a_key_leaves_its_giver_when_the_replicas_of_the_taker_have_it"];
        /// A primary that has just started lets its replicas in, and they forget what they know.
        ReplicaLetIn ["claret/cluster a_replica_keeps_its_records_when_its_primary_has_lost_them"];
        /// A primary that has just started begins with nothing before its replicas have said what they know.
        BeginsUnproven ["claret/cluster a_primary_that_starts_again_at_once_does_not_serve_with_nothing"];
        /// Whoever asks for an outcome hears it though no replica knows it.
        OutcomeToldAtOnce ["module/lib who_asks_hears_it_when_the_replicas_have_what_was_written_then"];
        /// What a file has counts as all that anybody knows.
        FileSaysAll ["module/lib what_was_told_counts_for_the_shard_that_it_is_of"];
        /// Files have nothing of what the shard remembers.
        FilesHaveNothing [
            "claret/cluster what_was_reported_is_there_after_all_nodes_were_shut_down",
            "claret/cluster what_was_reported_is_there_after_all_nodes_of_a_shard_died"
        ];
        /// An append-only file that is rewritten as commands loses what was told before.
        RewriteUntold ["claret/cluster what_was_reported_is_there_after_all_nodes_of_a_shard_died"];
    }
    Log {
        /// The log counts as synced, and the disk was not asked to.
        SyncSkipped ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// Commits are reported before the disk has them.
        ReportedBeforeSync ["claret/lib a_disk_that_fails_stops_the_store"];
        /// Who only read does not wait for the commits that it saw.
        ReadsDoNotWait ["claret/lib who_reads_waits_for_what_it_saw"];
        /// That there is no room for a mark stops the log.
        MarkStops ["claret/lib a_disk_that_is_full_while_nobody_writes_stops_nothing"];
        /// What only read is unknown if the disk does not have in time what it saw.
        ReadsUnknown ["claret/lib who_reads_while_there_is_no_room_hears_that"];
        /// A sync that was asked for is asked for ever after, and the writer does not rest.
        SyncWantedForEver ["claret/lib the_writer_rests_when_it_has_done_what_was_asked"];
        /// With a long time between syncs, what is not synced grows until commits wait for that time.
        BacklogUnsynced ["claret/lib a_long_time_between_syncs_stops_nobody"];
        /// What is done instantly wakes nobody who sleeps.
        InstantWakesNobody ["gateway/pops a_push_wakes_who_has_waited_longest_and_nobody_else"];
        /// Operations of custom types are taken, for which the log has no form.
        CustomTypesTaken ["claret/durable a_type_that_is_not_built_in_is_refused"];
        /// Old files of the log stay behind a snapshot.
        OldFilesStay ["claret/durable snapshots_keep_the_log_short"];
        /// What was in doubt when a sync failed counts as written when the store is opened again.
        DoubtfulNotWrittenAgain ["log/lying_disk what_a_failed_sync_left_is_written_again"];
        /// Who waits for the log when it ends waits on.
        EndUntold ["claret/lib after_a_close_nobody_waits_for_ever", "claret/lib a_disk_that_fails_stops_the_store"];
        /// The checksum of a file's first line is not compared.
        FirstLineUnchecked ["log/lying_disk a_changed_byte_is_found"];
        /// The names of the log's files are not synced.
        NamesUnsynced ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// The folder is not synced when the manifest names another file.
        ManifestUnsynced ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// Nobody looks whether the newest file of the log is there.
        NewestFileNotMissed [
            "log/lying_disk what_is_missing_is_found",
            "log/lying_disk what_was_reported_is_there_after_every_crash"
        ];
        /// Folders are made so that all may read what is in them.
        FoldersForAll ["claret/durable a_store_and_its_backups_are_for_their_owner_alone"];
        /// Only the file in it is locked, not the folder.
        LockFileAlone ["claret/durable a_store_whose_lock_file_was_removed_is_open_once"];
        /// What a write that failed has left stays there, and the next group is behind it.
        HalfAGroupLeft ["log/lying_disk a_full_disk_loses_nothing"];
        /// Checksums are not compared: a torn group is taken.
        TornGroupTaken ["log/lying_disk a_changed_byte_is_found", "log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// Whatever is not whole counts as torn, also where later groups say that it was synced.
        DamageTakenForTorn ["log/lying_disk a_changed_byte_is_found"];
        /// Files of the log go though a commit in them is not carried out everywhere.
        CutPassesOpenCommit ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// Parts that took effect at the end of the log take effect again at its next end.
        PartsAtEndAgain ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// A part is carried out on a record that vanished before its turn.
        VanishedCarriedOut ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// What is in a snapshot already is carried out again.
        SnapshotCarriedOutAgain ["log/lying_disk what_was_reported_is_there_after_every_crash"];
        /// A backup that was never whole is opened.
        UnfinishedBackupOpened ["log/lying_disk a_backup_is_the_store_as_of_a_position"];
        /// A backup leaves out the log before its snapshot, though a commit there is not carried out everywhere.
        BackupPassesOpenCommit ["log/lying_disk a_backup_is_the_store_as_of_a_position"];
        /// A backup has what is synced, not all that was reported.
        BackupEndsWhereSynced ["claret/durable a_backup_has_what_was_reported_and_not_synced"];
        /// An id that a stream is to draw is given no time when it is issued.
        IdsWithoutTime ["claret/durable streams_are_there_again_with_the_ids_they_had"];
        /// Unique numbers begin again with each opening.
        UniqueFromTheBeginning ["claret/durable unique_numbers_are_not_given_twice"];
    }
    Gateway {
        /// Behind a command that its server carries out, a MULTI has operations on that key.
        CommandsPassCommands ["gateway/steps what_comes_behind_a_command_of_the_server_is_one_too"];
        /// A script goes to a node though its keys may be elsewhere: it fails there half way.
        AnyScriptToNode ["gateway/scripts a_script_that_makes_its_keys_is_a_transaction_wherever_they_are"];
        /// A script asks the server of a key that it has changed: it does not see what it did.
        AsksBehindWrites ["gateway/scripts what_servers_answer_to_a_command_that_only_reads_may_be_looked_at"];
        /// An id that a script looks at is that of the time, whatever the stream's last one is.
        IdsByTime ["gateway/scripts the_id_of_an_entry_may_be_looked_at"];
        /// Of the keys that there are, what the script or the MULTI has made or removed does not count.
        KeysAsFound [
            "gateway/scripts scripts_find_keys_and_those_that_they_make",
            "gateway/embedded what_a_multi_asks_counts_what_it_wrote"
        ];
        /// A function that may write is called by FCALL_RO.
        ReadFunctionsWrite ["gateway/scripts functions_are_transactions_over_any_slots"];
        /// Of streams that were waited for on several nodes one alone is answered: what a group was given of the others nobody hears.
        OtherStreamsUnheard ["gateway/lib the_answers_of_several_nodes_are_one"];
        /// Of several counts of elements the last one is the sum.
        CountsUnmerged ["gateway/steps counts_of_several_slots_are_merged_as_a_node_merges_them"];
        /// Places that are found are added to what the other key held before.
        PlacesAdded ["gateway/steps places_that_are_near_are_written_to_another_slot"];
        /// A message goes to those who listen to a pattern, whatever the channel is.
        PatternsMatchAll ["gateway/embedded channels_are_those_of_the_process"];
        /// A pop that was woken on two keys takes from both, and answers with one.
        PopTakesTwice ["gateway/pops of_two_keys_that_come_together_one_is_taken"];
        /// A pop whose time is over, or whose client has gone, takes what comes then.
        PopTakesLate ["commands/collections a_wait_that_has_ended_takes_nothing"];
        /// A message of a MULTI leaves though nothing was done.
        PublishedAnyway ["gateway/steps messages_leave_when_all_is_done_and_not_otherwise"];
        /// EXEC does not look whether what was watched is as it was.
        WatchChecksNothing [
            "checker/gateways histories_through_gateways_are_judged_well",
            "gateway/watching exec_answers_nil_if_what_was_watched_has_changed"
        ];
        /// Each command of an EXEC is a transaction of its own.
        ExecInPieces ["checker/gateways histories_through_gateways_are_judged_well", "gateway/multi exec_does_all_or_nothing"];
        /// Of a watched key that was read only the answers count, and not the key.
        AnswersAloneCount [
            "gateway/lib what_is_expected_is_what_was_seen_or_else_the_version",
            "gateway/watching watch_is_of_the_key_whatever_was_read_of_it"
        ];
        /// Who has a turn on some keys does not look whether the others are as they were.
        TurnTrustsAll ["gateway/watching a_turn_on_one_key_looks_at_the_others"];
        /// A MULTI that comes again with its id is done again.
        IdForgotten ["gateway/waiting a_multi_with_an_id_is_done_once"];
        /// A turn that has ended keeps its keys.
        TurnKeepsItsKeys ["gateway/lib a_turn_is_of_all_its_keys_at_once_and_the_eldest_is_next"];
        /// Who comes passes elders who wait for a key.
        EldersPassed ["gateway/lib a_turn_is_of_all_its_keys_at_once_and_the_eldest_is_next"];
        /// A turn that others want never ends by itself.
        TurnsWithoutEnd ["gateway/lib a_turn_that_others_want_ends_in_time_and_turns_that_never_suffice_are_given_up_for_a_while"];
        /// After locks in the store keys are locked again at once, and writers starve.
        KeysNeverRest ["gateway/lib keys_rest_after_locks_and_writers_wait_for_their_end_alone"];
        /// Turns that never suffice are not given up.
        TurnsInVain ["gateway/lib a_turn_that_others_want_ends_in_time_and_turns_that_never_suffice_are_given_up_for_a_while"];
        /// What all connections keep together has no bound.
        SumUnbounded ["gateway/lib over_the_sum_the_largest_is_closed_and_no_more_than_have_to_be"];
        /// What one connection keeps has no bound.
        ConnectionUnbounded ["gateway/lib over_its_own_bound_a_connection_is_closed_or_told_before"];
        /// What a connection kept counts after it is gone.
        GoneStillCharged ["gateway/lib over_the_sum_the_largest_is_closed_and_no_more_than_have_to_be"];
        /// Long work of one client is done on the thread of all.
        AllWorkOnOneThread ["gateway/costs long_work_of_one_client_is_not_done_on_the_thread_of_all"];
        /// Any number of logins wait at the gateway.
        LoginsUnbounded ["gateway/rights logins_that_wait_are_bounded"];
        /// A transaction behind a key that is held waits for longer than was said.
        ExecWaitsForEver ["gateway/waiting nobody_waits_for_longer_than_was_said"];
        /// What was sent to a node is waited for without end.
        NodesAwaitedForEver ["gateway/waiting nobody_waits_for_longer_than_was_said"];
        /// What was read later passes a SUBSCRIBE or a command that blocks.
        ArrivalsPassed ["gateway/lib only_what_could_tell_the_difference_waits"];
        /// Connections of a user who was deleted stay.
        DeletedUserStays ["gateway/rights who_is_logged_in_stays_as_on_a_node"];
    }
}
