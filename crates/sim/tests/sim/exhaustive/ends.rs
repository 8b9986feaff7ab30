//! That from every state there is a way to an end: nobody is stuck, and nobody runs in a circle with no way out.
//!
//! Stateright looks at states one by one and at paths without circles. This walks the whole graph once, notes its
//! edges, and goes back along them from the states in which everybody is at rest.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::plan::Plan;
use super::world::{Action, Field, World};

/// The states of a plan by their number in the order of discovery.
#[derive(Default)]
struct Graph {
    numbers: HashMap<u64, u32>,
    /// From, to.
    edges: Vec<(u32, u32)>,
    /// How each state was found: from which, and by which of its actions.
    found: Vec<(u32, u16)>,
    ends: Vec<u32>,
}

/// The first state from which no end can be reached, with the way there. `None` is what one hopes for.
pub(crate) fn dead_end(plan: &Plan) -> Option<String> {
    let field = Field::new(plan.clone());
    let graph = Graph::of(&field);
    let reached = graph.before_the_ends();
    let stuck = reached.iter().position(|reached| !reached)?;
    Some(graph.way_to(&field, stuck as u32))
}

impl Graph {
    fn of(field: &Field) -> Self {
        let mut graph = Graph::default();
        let first = World::new(field);
        let mut open = VecDeque::from([first.clone()]);
        graph.number(&first, (0, 0));
        let mut actions = Vec::new();
        let mut from = 0;
        while let Some(world) = open.pop_front() {
            world.actions(field, &mut actions);
            for (at, action) in actions.drain(..).enumerate() {
                let Some(next) = world.after(field, action) else { continue };
                let known = graph.numbers.len();
                let to = graph.number(&next, (from, at as u16));
                graph.edges.push((from, to));
                if to as usize == known {
                    open.push_back(next);
                }
            }
            if world.is_at_rest(&field.plan) {
                graph.ends.push(from);
            }
            from += 1;
        }
        graph
    }

    fn number(&mut self, world: &World, found: (u32, u16)) -> u32 {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        let fresh = self.numbers.len() as u32;
        let number = *self.numbers.entry(hasher.finish()).or_insert(fresh);
        if number == fresh {
            self.found.push(found);
        }
        number
    }

    /// For each state, whether an end can be reached from it.
    fn before_the_ends(&self) -> Vec<bool> {
        let mut sorted: Vec<(u32, u32)> = self.edges.iter().map(|(from, to)| (*to, *from)).collect();
        sorted.sort_unstable();
        let mut reached = vec![false; self.found.len()];
        let mut open = self.ends.clone();
        open.iter().for_each(|end| reached[*end as usize] = true);
        while let Some(state) = open.pop() {
            let begin = sorted.partition_point(|(to, _)| *to < state);
            for (_, from) in sorted[begin..].iter().take_while(|(to, _)| *to == state) {
                if !std::mem::replace(&mut reached[*from as usize], true) {
                    open.push(*from);
                }
            }
        }
        reached
    }

    fn way_to(&self, field: &Field, mut state: u32) -> String {
        let mut choices = Vec::new();
        while state != 0 {
            let (from, choice) = self.found[state as usize];
            choices.push(choice);
            state = from;
        }
        let mut world = World::new(field);
        let mut steps: Vec<(World, Option<Action>)> = Vec::new();
        for choice in choices.into_iter().rev() {
            let mut actions = Vec::new();
            world.actions(field, &mut actions);
            let action = actions[choice as usize];
            let next = world.after(field, action).expect("it was taken before");
            steps.push((std::mem::replace(&mut world, next), Some(action)));
        }
        steps.push((world, None));
        super::search::told(&steps)
    }
}
