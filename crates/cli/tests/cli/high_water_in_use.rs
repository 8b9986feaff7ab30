//! The end of the guide "Write a type": its type in a program.

use crate::high_water::{HighWater, HighWaterOp};

#[test]
fn the_type_of_the_guide_works_in_a_program() -> Result<(), claret::Error> {
    play()
}

// --- the guide shows this ---
use claret::{Records, Store};

fn play() -> Result<(), claret::Error> {
    let store = Store::in_memory().blocking();
    let best = store.record::<HighWater>("best:today");
    best.issue(HighWaterOp::Raise(120))?;
    store.transaction(|tx| {
        tx.counter("games").add(1)?;
        tx.record::<HighWater>("best:today").issue(HighWaterOp::Raise(90))?;
        Ok(())
    })?;
    assert_eq!(best.run::<Option<i64>>(HighWaterOp::Mark)?, Some(120));
    Ok(())
}
