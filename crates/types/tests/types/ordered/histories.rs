//! Everything that the locks of the ordered types admit is serializable in the order of commits, and pending
//! operations commute: all interleavings of grants, commits and aborts of small transactions over each type's
//! examples.

use claret_types::{
    Access, DataType, Examples, List, Reply, ScoredSet, SummaryBag, TopK, UidGenerator, Unique,
};

use super::record::History;

/// Three transactions of one operation, and two of which one has two operations.
fn every_history_is_serializable<T: Examples>() {
    let (states, operations) = (T::states(), T::operations());
    let mut checked = 0;
    for state in &states {
        for (i, a) in operations.iter().enumerate() {
            for (j, b) in operations.iter().enumerate() {
                for c in &operations[j..] {
                    if i <= j {
                        let singles = vec![vec![a.clone()], vec![b.clone()], vec![c.clone()]];
                        checked += History::<T>::new(state.clone(), singles).explore();
                    }
                }
                for c in &operations {
                    let two = vec![vec![a.clone(), b.clone()], vec![c.clone()]];
                    checked += History::<T>::new(state.clone(), two).explore();
                }
            }
        }
    }
    assert!(checked > 0, "something committed");
}

fn effects_are_undone_exactly<T: Examples>() {
    for state in T::states() {
        for a in T::operations() {
            for b in T::operations() {
                let mut changed = state.clone();
                let Some(inner) = effect_of::<T>(&changed, &a) else { continue };
                let undo_inner = T::apply(&mut changed, inner);
                let between = changed.clone();
                if let Some(outer) = effect_of::<T>(&changed, &b) {
                    let undo_outer = T::apply(&mut changed, outer.clone());
                    let after = changed.clone();
                    let redo_outer = T::apply(&mut changed, undo_outer);
                    assert_eq!(changed, between, "undoing {b:?} after {a:?} on {state:?}");
                    let undo_again = T::apply(&mut changed, redo_outer);
                    assert_eq!(changed, after, "redoing {b:?} after {a:?} on {state:?}");
                    T::apply(&mut changed, undo_again);
                }
                T::apply(&mut changed, undo_inner);
                assert_eq!(changed, state, "undoing {a:?} on {state:?}");
            }
        }
    }
}

fn effect_of<T: DataType>(state: &T::State, op: &T::Op) -> Option<T::Effect> {
    T::execute(state, op, Unique(1)).ok()?.effect
}

/// The claims of an operation in a state are among those of its footprint, and only what returns answers.
fn footprints_cover_claims<T: Examples>() {
    assert!(T::MODES.is_symmetric());
    for state in T::states() {
        for op in T::operations() {
            let Ok(execution) = T::execute(&state, &op, Unique(1)) else { continue };
            let (claims, footprint) = (execution.claims, T::footprint(&op));
            assert!(claims.list.iter().all(|claim| footprint.list.contains(claim)), "{op:?} on {state:?}");
            assert!(footprint.draw.down >= claims.draw.down && footprint.draw.up >= claims.draw.up);
            let method = T::method(&op);
            assert_eq!(method.returns, execution.reply != Reply::Ok, "{op:?}");
            assert!(method.access == Access::Write || execution.effect.is_none(), "{op:?}");
        }
    }
}

/// What is derived from a held answer is what the operation would have answered, and the held lock keeps
/// away whatever the operation's own would.
fn combined_answers_are_right<T: Examples>() {
    for state in T::states() {
        let run = |op: &T::Op| T::execute(&state, op, Unique(1)).ok();
        for held in T::operations().iter().filter(|op| T::method(op).access == Access::Read) {
            let holding = run(held).expect("reads succeed");
            for op in T::operations().iter().filter(|op| T::method(op).access == Access::Read) {
                let Some(derived) = T::combine(held, &holding.reply, op) else { continue };
                let own = run(op).expect("reads succeed");
                assert_eq!(derived, own.reply, "{op:?} from {held:?} on {state:?}");
                for other in T::operations().iter().filter_map(run) {
                    assert!(
                        holding.claims.conflict_with(&other.claims, &T::MODES)
                            || !own.claims.conflict_with(&other.claims, &T::MODES),
                        "{held:?} does not hold for {op:?} on {state:?}"
                    );
                }
            }
        }
    }
}

macro_rules! tests_of {
    ($($name:ident: $type:ty),*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn is_serializable_in_every_history() {
                every_history_is_serializable::<$type>();
            }

            #[test]
            fn undoes_effects_exactly() {
                effects_are_undone_exactly::<$type>();
            }

            #[test]
            fn combines_what_it_may() {
                combined_answers_are_right::<$type>();
            }

            #[test]
            fn claims_no_more_than_its_footprints() {
                footprints_cover_claims::<$type>();
            }
        }
    )*};
}

tests_of!(scored_set: ScoredSet, topk: TopK, summary_bag: SummaryBag, list: List, uid_generator: UidGenerator);
