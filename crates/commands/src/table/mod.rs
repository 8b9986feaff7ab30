//! The table of commands: what each is, and what carries it out.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use claret_types::builtin_types;

mod handler;
mod keys;
mod rows;

pub(crate) use handler::Handler;
pub use keys::{Keys, NoKeys, Places};
use rows::{ROWS, Row};

/// How a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Operations of Claret's types that are known up front.
    Operation,
    /// Operations that depend on what others answer.
    Steps,
    /// Sent to the node of its keys as it is.
    Node,
    /// Sent there on a connection of its own.
    Blocking,
    /// A connection of its own that stays.
    PubSub,
    /// Sent to the node of its keys as it is; what it does is known there alone.
    Script,
    /// Of all nodes.
    FanOut,
    /// Answered by the gateway.
    Local,
    /// Cannot be.
    Refused,
}

impl Way {
    const NAMES: [(&'static str, Way); 9] = [
        ("operation", Way::Operation),
        ("steps", Way::Steps),
        ("node", Way::Node),
        ("blocking", Way::Blocking),
        ("pubsub", Way::PubSub),
        ("script", Way::Script),
        ("fan out", Way::FanOut),
        ("local", Way::Local),
        ("refused", Way::Refused),
    ];

    /// Whether a transaction over any slots can have it.
    pub fn is_transactional(self) -> bool {
        matches!(self, Way::Operation | Way::Steps)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Way::NAMES.iter().find(|(_, way)| way == self).expect("all have names");
        f.write_str(name)
    }
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// In upper case.
    pub name: &'static str,
    /// Words with the name; of a negative one, at least.
    pub arity: i32,
    /// It may read.
    pub reads: bool,
    /// It may write.
    pub writes: bool,
    /// It takes little time, whatever the record holds.
    pub is_fast: bool,
    /// It may wait for somebody.
    pub blocks: bool,
    /// Where its keys are.
    pub keys: Keys,
    /// The group of its kin, as servers' pages have it; of an operation of Claret's, the type.
    pub group: &'static str,
    /// How it is carried out.
    pub way: Way,
    /// An operation of Claret's types that no server has.
    pub is_own: bool,
    /// What it does.
    pub summary: &'static str,
    /// What differs behind the gateway, or the way out of a command that is refused.
    pub note: &'static str,
    pub(crate) handler: Handler,
}

impl Command {
    /// Whether it may have so many words, its name included.
    pub fn takes(&self, words: usize) -> bool {
        let words = words as i64;
        match i64::from(self.arity) {
            arity if arity < 0 => words >= -arity,
            arity => words == arity,
        }
    }

    /// Whether it may be sent again when nobody knows whether it was done.
    pub fn changes_nothing(&self) -> bool {
        self.reads && !self.writes
    }

    /// Whether it may wait for somebody: it blocks, and where that is an option, it is asked for.
    pub fn may_wait<W: AsRef<[u8]>>(&self, words: &[W]) -> bool {
        self.blocks && (self.writes || words.iter().any(|word| word.as_ref().eq_ignore_ascii_case(b"BLOCK")))
    }

    /// Whether it uses keys whose names are made of what it reads (`SORT ... BY weight_*`): they may be anywhere.
    pub fn makes_keys<W: AsRef<[u8]>>(&self, words: &[W]) -> bool {
        matches!(self.name, "SORT" | "SORT_RO") && keys::sort(words).reads_others
    }

    /// Its keys, as far as the words tell them.
    pub fn keys_in<'a, W: AsRef<[u8]>>(&self, words: &'a [W]) -> impl Iterator<Item = &'a [u8]> + use<'a, W> {
        self.keys.of(words).into_iter().flatten().map(|at| words[at].as_ref())
    }

    /// Whether the server of its keys carries it out as a step of a transaction, since it is no operation of Claret's types.
    pub fn is_run_by_server(&self) -> bool {
        match self.way {
            Way::Node => self.keys != Keys::None && self.group != "pubsub",
            Way::Blocking => self.is_of_streams(),
            _ => false,
        }
    }

    /// Whether it is such a step with these words: with one key, or as one on each of several (A34).
    pub fn is_step<W: AsRef<[u8]>>(&self, words: &[W]) -> bool {
        let is_well = |places: Places| self.is_of_streams() || places.count() == 1;
        self.is_run_by_server() && self.keys.of(words).is_ok_and(is_well)
    }

    /// Whether it reads streams, and may wait until one has something: `XREAD` and `XREADGROUP`.
    pub fn is_of_streams(&self) -> bool {
        self.keys == Keys::Streams
    }

    /// The slot of all its keys; `Ok(None)` without keys.
    ///
    /// # Errors
    /// Its keys are in several slots, or its words do not say which are keys.
    pub fn slot<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Option<u16>, NoKeys> {
        if self.makes_keys(words) {
            return Err(NoKeys::SeveralSlots);
        }
        let mut slot = None;
        for key in self.keys.of(words)? {
            let its = claret_redis::slot_of(words[key].as_ref());
            if slot.is_some_and(|known| known != its) {
                return Err(NoKeys::SeveralSlots);
            }
            slot = Some(its);
        }
        Ok(slot)
    }
}

/// The whole table, in its order: commands of servers, then operations of Claret's types that no server has.
pub fn all() -> &'static [Command] {
    static ALL: OnceLock<Vec<Command>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<Command> = ROWS.iter().map(command).collect();
        all.extend(own_operations(&all));
        all
    })
}

/// The command of this name, in any case. O(1).
pub fn named(name: &[u8]) -> Option<&'static Command> {
    static BY_NAME: OnceLock<HashMap<&'static [u8], &'static Command>> = OnceLock::new();
    let by_name =
        BY_NAME.get_or_init(|| all().iter().map(|command| (command.name.as_bytes(), command)).collect());
    let mut upper = [0; 32];
    let upper = upper.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    by_name.get(&*upper).copied()
}

/// # Panics
/// On a row whose keys are none: a test reads them all.
fn command(&(name, arity, flags, keys, group, (way, handler), summary, note): &Row) -> Command {
    Command {
        name,
        arity,
        reads: flags.contains('r'),
        writes: flags.contains('w'),
        is_fast: flags.contains('f'),
        blocks: flags.contains('b'),
        keys: Keys::parse(keys).unwrap_or_else(|| panic!("{name} has no keys")),
        group,
        way,
        is_own: false,
        summary,
        note,
        handler,
    }
}

/// The operations of Claret's types that no server has, under their own names.
fn own_operations(known: &[Command]) -> Vec<Command> {
    let mut own: Vec<Command> = Vec::new();
    for (kind, method) in
        builtin_types().iter().flat_map(|kind| kind.methods.iter().map(move |it| (kind, it)))
    {
        let is_known = |all: &[Command]| all.iter().any(|command| command.name == method.name);
        if is_known(known) || is_known(&own) {
            continue;
        }
        own.push(Command {
            name: method.name,
            arity: if method.arguments.is_empty() { 2 } else { -2 },
            reads: method.access == claret_types::Access::Read,
            writes: method.access != claret_types::Access::Read,
            is_fast: false,
            blocks: false,
            keys: Keys::parse("1").expect("it is one"),
            group: kind.name,
            way: Way::Operation,
            is_own: true,
            summary: method.summary,
            note: "",
            handler: Handler::Own(kind),
        });
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_whole_and_each_name_there_once() {
        let mut names = std::collections::HashSet::new();
        for command in all() {
            assert!(names.insert(command.name), "{} is there twice", command.name);
            assert_eq!(command.name, command.name.to_ascii_uppercase());
            assert!(command.arity != 0 && !command.group.is_empty(), "{}", command.name);
            let is_told = if command.way == Way::Refused { command.note } else { command.summary };
            assert!(!is_told.is_empty(), "{} says nothing", command.name);
            let is_carried_out = !matches!(command.handler, Handler::None);
            assert_eq!(is_carried_out, command.way.is_transactional(), "{}", command.name);
            assert!(named(command.name.to_ascii_lowercase().as_bytes()).is_some());
        }
        assert!(named(b"NOSUCH").is_none() && named(&[b'A'; 100]).is_none());
    }

    /// The table of COMMANDS.md, by groups.
    fn page() -> String {
        let mut text = String::new();
        let mut groups: Vec<&str> = Vec::new();
        for command in all().iter().filter(|command| !command.is_own) {
            if !groups.contains(&command.group) {
                groups.push(command.group);
            }
        }
        for group in groups {
            text += &format!(
                "\n### {group}\n\n| command | way | what it does | behind the gateway |\n|---|---|---|---|\n"
            );
            for command in all().iter().filter(|command| command.group == group && !command.is_own) {
                let Command { name, way, summary, note, .. } = command;
                text += &format!("| `{name}` | {way} | {summary} | {note} |\n");
            }
        }
        text += "\n### Claret's own\n\nEvery operation of [types.md](../../docs/types.md) that no server has is a command by its own name, an \
                 *operation*. So a program in any language can use bounded counters, rankings and documents:\n\n";
        let mut kinds: Vec<&str> = Vec::new();
        for command in all().iter().filter(|command| command.is_own) {
            if !kinds.contains(&command.group) {
                kinds.push(command.group);
            }
        }
        for kind in kinds {
            let names = all().iter().filter(|command| command.is_own && command.group == kind);
            let names: Vec<String> = names.map(|command| format!("`{}`", command.name)).collect();
            text += &format!("- {kind}: {}\n", names.join(", "));
        }
        text
    }

    #[test]
    fn the_page_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/COMMANDS.md");
        let text = std::fs::read_to_string(path).expect("COMMANDS.md");
        let mark = "cargo test -p claret-commands the_page -->\n";
        let (before, _) = text.split_once(mark).expect("the mark before the table");
        let wanted = format!("{before}{mark}{}", page());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &wanted).expect("COMMANDS.md");
        } else {
            assert!(
                text == wanted,
                "COMMANDS.md has another table: UPDATE=1 cargo test -p claret-commands the_page"
            );
        }
    }
}
