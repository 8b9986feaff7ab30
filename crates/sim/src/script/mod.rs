//! Scripts: interleavings written for readers, whose transcript is the assertion.
//!
//! A script drives the real state machines (shards and clients) by hand. It is a text of blocks: one or more
//! commands, a line `----`, and what comes of them, up to an empty line. Lines that begin with `#` tell the story.
//!
//! ```text
//! # One operation, one round trip.
//! shards 1
//! client c1
//! c1 begin T1
//! ----
//!
//! T1 buffer INCRBY x 5
//! T1 commit
//! deliver
//! ----
//! c1 --> s0: prepare T1 at s0@1: #0 INCRBY x 5
//! s0 --> c1: committed T1
//!     T1 is committed
//! ```
//!
//! `..>` is on its way, `-->` arrives, `--x` is lost, `..|` is kept back. `s0@1` is incarnation 1 of s0, `#0` the
//! first call of a transaction, `T1/2` the second attempt of T1, `c1#1` the second connection of c1.
//!
//! A message is shown when it arrives, and at the end of its block if it is on its way then. [`play`] returns the
//! text with the real outcome of each command: a script passes if the text is the same. After every command all
//! machines check their invariants; at the end nothing may be left behind, unless the script `leaves` it.

mod names;
mod parse;
mod playback;
mod selector;
mod settings;
mod tell;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use parse::help;

use playback::Playback;

/// What stands between commands and what comes of them.
const RULE: &str = "----";

/// What a script came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The script with what really came of each command. After a mistake or a failed check it ends with that.
    pub transcript: String,
    /// What is wrong with it: a command that cannot be carried out, an invariant that does not hold, or
    /// something that is left behind.
    pub error: Option<String>,
}

/// Plays a script; returns its transcript.
pub fn run(text: &str) -> String {
    play(text).transcript
}

/// Plays a script.
pub fn play(text: &str) -> Played {
    let mut player = Player { stage: Playback::new(), transcript: Vec::new() };
    let error = player.play(text).err();
    player.transcript.extend(error.iter().map(|error| format!("error: {error}")));
    let mut transcript = player.transcript.join("\n");
    transcript.push('\n');
    Played { transcript, error }
}

struct Player {
    stage: Playback,
    transcript: Vec<String>,
}

impl Player {
    fn play(&mut self, text: &str) -> Result<(), String> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end())).peekable();
        while let Some((_, line)) = lines.peek().copied() {
            if line.is_empty() || line.starts_with('#') {
                self.transcript.push(line.to_owned());
                lines.next();
                continue;
            }
            let mut commands = Vec::new();
            while let Some((at, line)) = lines.next_if(|(_, line)| !line.is_empty() && *line != RULE) {
                self.transcript.push(line.to_owned());
                commands.push((at, line));
            }
            self.transcript.push(RULE.to_owned());
            while lines.next_if(|(_, line)| !line.is_empty()).is_some() {}
            commands.retain(|(_, line)| !line.starts_with('#'));
            let played = commands.into_iter().try_for_each(|(at, line)| self.carry_out(at, line));
            self.transcript.extend(self.stage.tell());
            played?;
        }
        let left = self.stage.left();
        if left.is_empty() || self.stage.may_leave {
            return Ok(());
        }
        Err(format!("this is left behind; end it, or say 'leaves' at the end:\n{}", left.join("\n")))
    }

    fn carry_out(&mut self, at: usize, line: &str) -> Result<(), String> {
        let error = |error: String| format!("line {at}: {error}");
        let command = parse::command(line).map_err(error)?;
        if self.stage.may_leave {
            return Err(error("'leaves' is the last command".to_owned()));
        }
        match catch_unwind(AssertUnwindSafe(|| self.stage.play(command))) {
            Ok(played) => played.map_err(error),
            Err(panic) => Err(error(crate::panic_text(panic.as_ref()))),
        }
    }
}

#[cfg(test)]
mod tests;
