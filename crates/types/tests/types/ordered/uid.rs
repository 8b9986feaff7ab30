//! UidGenerator: ids come from the store, the record counts.

use claret_types::{DataType, Reply, UidGenerator, UidOp, Unique};

use super::record::{execute, share, state_of, try_call};

#[test]
fn an_id_is_the_number_that_the_store_gives() {
    for number in [0, 1, 1 << 40] {
        let execution = UidGenerator::execute(&Default::default(), &UidOp::Next, Unique(number));
        assert_eq!(execution.expect("succeeds").reply, Reply::Int(number as i64));
    }
}

#[test]
fn committed_ids_are_counted() {
    let three = state_of::<UidGenerator>(&["UID.NEXT", "UID.NEXT", "UID.NEXT"]);
    assert_eq!(execute::<UidGenerator>(&three, "UID.ISSUED").expect("succeeds").reply, Reply::Int(3));
}

#[test]
fn ids_share_the_lock_and_the_count_does_not() {
    let state = state_of::<UidGenerator>(&["UID.NEXT"]);
    assert!(share::<UidGenerator>(&state, &["UID.NEXT", "UID.NEXT", "UID.NEXT"]));
    assert!(share::<UidGenerator>(&state, &["UID.ISSUED", "UID.ISSUED"]));
    assert!(!share::<UidGenerator>(&state, &["UID.ISSUED", "UID.NEXT"]));
}

#[test]
fn an_id_is_never_shared_by_combining() {
    assert_eq!(UidGenerator::combine(&UidOp::Next, &Reply::Int(1), &UidOp::Next), None);
}

#[test]
fn arguments_are_refused() {
    assert!(try_call::<UidGenerator>("UID.NEXT 3").expect_err("refused").to_string().contains("'UID.NEXT'"));
}
