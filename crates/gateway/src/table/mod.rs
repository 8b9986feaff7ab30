//! What becomes of each command, as data: `commands.txt`, read once.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes as Word;
use claret_types::builtin_types;

mod keys;

pub(crate) use keys::{Keys, NoKeys};

/// How a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
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
    Whole,
    /// Answered by the gateway.
    Here,
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
        ("whole", Way::Whole),
        ("here", Way::Here),
        ("refused", Way::Refused),
    ];

    /// Whether a transaction over any slots can have it.
    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Way::Operation | Way::Steps)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Way::NAMES.iter().find(|(_, way)| way == self).expect("all have names");
        f.write_str(name)
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Command {
    /// In upper case.
    pub(crate) name: &'static str,
    /// Words with the name; of a negative one, at least.
    pub(crate) arity: i32,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) is_fast: bool,
    pub(crate) blocks: bool,
    pub(crate) keys: Keys,
    pub(crate) group: &'static str,
    pub(crate) way: Way,
    /// An operation of Claret's types that no server has.
    pub(crate) is_own: bool,
    pub(crate) summary: &'static str,
    /// What differs behind the gateway, or the way out of a command that cannot be.
    pub(crate) note: &'static str,
}

impl Command {
    /// Whether it may have so many words, its name included.
    pub(crate) fn takes(&self, words: usize) -> bool {
        let words = words as i64;
        match i64::from(self.arity) {
            arity if arity < 0 => words >= -arity,
            arity => words == arity,
        }
    }

    /// Whether it may be sent again when nobody knows whether it was done.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.reads && !self.writes
    }

    /// Whether it may wait for somebody: it blocks, and where that is an option, it is asked for.
    pub(crate) fn may_wait(&self, words: &[Word]) -> bool {
        self.blocks && (self.writes || words.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK")))
    }

    /// Whether it uses keys whose names are made of what it reads (`SORT ... BY weight_*`): they may be anywhere.
    pub(crate) fn makes_keys(&self, words: &[Word]) -> bool {
        matches!(self.name, "SORT" | "SORT_RO") && keys::sort(words).reads_others
    }

    /// Its keys, as far as the words tell them.
    pub(crate) fn keys_in<'a>(&self, words: &'a [Word]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.keys.of(words).into_iter().flatten().map(|at| &words[at][..])
    }

    /// The slot of all its keys; `Ok(None)` without keys.
    pub(crate) fn slot(&self, words: &[Word]) -> Result<Option<u16>, NoKeys> {
        if self.makes_keys(words) {
            return Err(NoKeys::SeveralSlots);
        }
        let mut slot = None;
        for key in self.keys.of(words)? {
            let its = claret_redis::slot_of(&words[key]);
            if slot.is_some_and(|known| known != its) {
                return Err(NoKeys::SeveralSlots);
            }
            slot = Some(its);
        }
        Ok(slot)
    }
}

/// The whole table, in its order.
pub(crate) fn all() -> &'static [Command] {
    static ALL: OnceLock<Vec<Command>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = include_str!("commands.txt").lines();
        let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut all: Vec<Command> = rows.map(row).collect();
        all.extend(own_operations(&all));
        all
    })
}

/// The command of this name, in any case. O(1).
pub(crate) fn named(name: &[u8]) -> Option<&'static Command> {
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
/// On a row that is none: a test reads them all.
fn row(line: &'static str) -> Command {
    let mut cells = line.split('|').map(str::trim);
    let mut cell = || cells.next().unwrap_or_default();
    let (name, arity, flags, keys) = (cell(), cell(), cell(), cell());
    let (group, way, summary, note) = (cell(), cell(), cell(), cell());
    let way = Way::NAMES.iter().find(|(known, _)| *known == way);
    let (_, way) = way.unwrap_or_else(|| panic!("no way: {line}"));
    Command {
        name,
        arity: arity.parse().unwrap_or_else(|_| panic!("no arity: {line}")),
        reads: flags.contains('r'),
        writes: flags.contains('w'),
        is_fast: flags.contains('f'),
        blocks: flags.contains('b'),
        keys: Keys::parse(keys).unwrap_or_else(|| panic!("no keys: {line}")),
        group,
        way: *way,
        is_own: false,
        summary,
        note,
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
            assert!(named(command.name.to_ascii_lowercase().as_bytes()).is_some());
        }
        assert!(named(b"NOSUCH").is_none() && named(&[b'A'; 100]).is_none());
    }

    /// The table of docs/gateway.md, by groups.
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
        text += "\n### Claret's own\n\nEvery operation of [types.md](types.md) that no server has is a command by its own name, an \
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
        let text = std::fs::read_to_string(path).expect("docs/gateway.md");
        let mark = "cargo test -p claret-gateway the_page -->\n";
        let (before, _) = text.split_once(mark).expect("the mark before the table");
        let wanted = format!("{before}{mark}{}", page());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &wanted).expect("docs/gateway.md");
        } else {
            assert!(
                text == wanted,
                "docs/gateway.md has another table: UPDATE=1 cargo test -p claret-gateway the_page"
            );
        }
    }
}
