//! What a workload must provide to run in the model: a client is a state machine that hands out the calls of one
//! stage after another.

use claret_types::{Bytes, Operation, Reply};

/// One operation on one key.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where.
    pub key: Bytes,
    /// What.
    pub op: Operation,
}

/// What is to be done with the calls of a stage, which are known up front and may be issued together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Run them and ask for the next stage with their replies.
    Read,
    /// The last stage: run them and commit.
    Commit,
}

/// Someone who issues one transaction after another.
pub trait Client {
    /// Draws the next transaction; the number of its kind, from 0.
    fn draw(&mut self) -> usize;

    /// Adds the calls of the next stage to `calls`, which is empty. `replies` are those of the previous stage, one
    /// for each call in its order; none for the first.
    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage;

    /// How long the application works after a stage that is not the last, whatever the pace, in microseconds.
    fn thinks(&self) -> u64 {
        0
    }

    /// Whether its user wants it rolled back: asked once the last stage is known. It is then given up. The simulator asks, the
    /// model does not.
    fn rolls_back(&self) -> bool {
        false
    }

    /// Begins the transaction that was drawn again, from its first stage.
    fn restart(&mut self);

    /// It committed; `replies` are those of the last stage, one for each call.
    fn committed(&mut self, replies: &[Reply]);

    /// It was given up and has no effect.
    fn gave_up(&mut self);

    /// The run is over: hands over what it was told.
    fn finish(self: Box<Self>);
}
