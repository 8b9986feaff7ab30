//! What the guard knows of each command of the server: where its keys are, and whether it writes. The server is asked
//! once, so that a look at a command costs no call into it.

use claret_planted::{Bug, is_planted};
use claret_types::{Access, Bytes};
use hashbrown::HashMap;

use crate::ffi::{Answer, Place, Text};

/// Where the keys of a command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// It has none.
    None,
    /// From the first to the last, by steps; a negative last counts from the end.
    Fixed { first: i32, last: i32, step: i32 },
    /// That depends on its words: the server knows.
    Asked,
}

/// Commands that need more than their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Nothing,
    Multi,
    Exec,
    /// DISCARD, RESET: they end a MULTI.
    Discard,
    /// Waits on keys for something to take.
    Pop,
    /// CLUSTER, of which SETSLOT concerns held keys.
    Cluster,
    /// ACL: rights may change.
    Rights,
    /// `CLARET.READ`, `CLARET.WRITE` and their kin, sent by a client itself: they look for themselves.
    Own,
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) keys: Keys,
    pub(crate) access: Access,
    pub(crate) special: Special,
    /// The number of its words, its name among them; at least so many when negative.
    pub(crate) arity: i32,
    /// A script may not run it.
    pub(crate) no_script: bool,
    /// It may change keys, and the server does not tell.
    pub(crate) is_silent: bool,
    /// The server refuses it over `maxmemory`.
    pub(crate) adds: bool,
    /// It is another module's.
    pub(crate) is_anothers: bool,
    /// It may change records; of one with subcommands, some of them may.
    pub(crate) writes: bool,
    /// The type of the records that it is on, as `TYPE` names it; `None`: of any, or of no record.
    pub(crate) kind: Option<&'static str>,
}

/// By name.
pub(crate) struct Table(HashMap<CommandName, Row, foldhash::fast::FixedState>);

/// The name of a command whatever the case of its letters, and its length last. Of a size that is known, since to look one
/// up is much of what the guard costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CommandName(u128, u128);

/// Longer names are no commands that have keys.
const NAME_MAX: usize = 31;

impl CommandName {
    fn new(name: &[u8]) -> Option<CommandName> {
        // The bit that makes an envelope small is set in digits, dots and hyphens, and of no length. What else it makes alike
        // is in no command's name: control characters.
        const SMALL: u128 = u128::from_ne_bytes([b' '; 16]);
        let mut bytes = [0; NAME_MAX + 1];
        bytes[..NAME_MAX].get_mut(..name.len())?.copy_from_slice(name);
        bytes[NAME_MAX] = name.len() as u8;
        let (first, last) = bytes.split_at(bytes.len() / 2);
        let number = |half: &[u8]| Some(u128::from_ne_bytes(half.try_into().ok()?));
        Some(CommandName(number(first)? | SMALL, number(last)? | SMALL))
    }
}

impl Table {
    /// Of what the server answers to `COMMAND`.
    pub(crate) fn of(commands: Answer) -> Table {
        let commands = commands.items();
        let rows = commands.into_iter().filter_map(|command| row(command.items()));
        Table(rows.filter_map(|(name, row)| Some((CommandName::new(&name)?, row))).collect())
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Row> {
        self.0.get(&CommandName::new(name)?).copied()
    }
}

/// One command as `COMMAND` describes it: name, arity, flags, first key, last key, step, categories, tips, key
/// specifications, subcommands.
fn row(parts: Vec<Answer>) -> Option<(Bytes, Row)> {
    let mut parts = parts.into_iter();
    let name = parts.next()?.bytes()?;
    let arity = i32::try_from(parts.next()?.int()?).ok()?;
    let flags: Vec<Bytes> = parts.next()?.list().collect();
    let mut number = || i32::try_from(parts.next()?.int()?).ok();
    let (first, last, step) = (number()?, number()?, number()?);
    let is = |flag: &str| flags.iter().any(|known| **known == *flag.as_bytes());
    let categories = parts.next().map_or_else(Vec::new, |it| it.list().collect());
    let subcommands = parts.nth(2).map_or_else(Vec::new, Answer::items);
    let has_flag = |it: &Answer, flag: &str| {
        it.clone()
            .items()
            .into_iter()
            .nth(2)
            .is_some_and(|flags| flags.list().any(|it| *it == *flag.as_bytes()))
    };
    let writes = match subcommands.is_empty() {
        true => !is("readonly"),
        false => subcommands.iter().any(|it| has_flag(it, "write")),
    };
    let of_subcommand =
        |it: &Answer| it.clone().items().into_iter().nth(6).map_or_else(Vec::new, |it| it.list().collect());
    let kind = kind_of(&categories).or_else(|| subcommands.iter().find_map(|it| kind_of(&of_subcommand(it))));
    let keys = if is("movablekeys")
        || subcommands.into_iter().any(has_keys) && !is_planted(Bug::SubcommandsUnseen)
    {
        Keys::Asked
    } else if first > 0 {
        Keys::Fixed { first, last, step: step.max(1) }
    } else {
        Keys::None
    };
    // A script that does not say that it only reads may write.
    let access = if is("readonly") { Access::Read } else { Access::Write };
    let special = special(&name);
    let keys = if takes_no_part(&name) { Keys::None } else { keys };
    let is_anothers = is("module");
    let is_silent = is_anothers && is("write") && !name.starts_with(b"claret.") || tells_nobody(&name);
    let (no_script, adds) = (is("noscript"), is("denyoom"));
    let kind = kind.filter(|_| !overwrites(&name));
    Some((name, Row { keys, access, special, arity, no_script, is_silent, adds, is_anothers, writes, kind }))
}

/// Commands that put a value in place of a record of whatever type.
fn overwrites(name: &[u8]) -> bool {
    matches!(name, b"set" | b"setex" | b"psetex" | b"mset" | b"bitop")
        || name.ends_with(b"store") && name != b"restore"
}

/// The type of the records that commands of these categories are on.
fn kind_of(categories: &[Bytes]) -> Option<&'static str> {
    categories.iter().find_map(|category| match &category[..] {
        b"@stream" => Some("stream"),
        b"@string" | b"@bitmap" | b"@hyperloglog" => Some("string"),
        b"@list" => Some("list"),
        b"@hash" => Some("hash"),
        b"@set" => Some("set"),
        b"@sortedset" | b"@geo" => Some("zset"),
        _ => None,
    })
}

fn has_keys(subcommand: Answer) -> bool {
    subcommand.items().into_iter().nth(3).and_then(Answer::int).is_some_and(|first| first > 0)
}

/// Commands that name keys and neither read nor write what is in them, or that are Claret's own.
fn takes_no_part(name: &[u8]) -> bool {
    // A shard channel stands where keys do, and is none.
    let is_channel = matches!(name, b"ssubscribe" | b"sunsubscribe" | b"spublish");
    is_channel && !is_planted(Bug::ChannelsAreKeys)
        || matches!(name, b"watch" | b"asking" | b"pfdebug" | b"debug")
        || (name.starts_with(b"claret.") && !is_own(name))
}

/// Commands of the server that change keys without an event. What modules do with theirs nobody knows.
fn tells_nobody(name: &[u8]) -> bool {
    matches!(name, b"pfcount" | b"pfdebug" | b"xack" | b"xclaim" | b"xautoclaim" | b"xreadgroup" | b"debug")
}

fn is_own(name: &[u8]) -> bool {
    matches!(name, b"claret.read" | b"claret.write" | b"claret.read-any" | b"claret.write-any")
}

fn special(name: &[u8]) -> Special {
    match name {
        b"multi" => Special::Multi,
        b"exec" => Special::Exec,
        b"discard" | b"reset" => Special::Discard,
        b"blpop" | b"brpop" | b"blmove" | b"brpoplpush" | b"blmpop" | b"bzpopmin" | b"bzpopmax"
        | b"bzmpop" => Special::Pop,
        b"cluster" => Special::Cluster,
        b"acl" => Special::Rights,
        own if is_own(own) => Special::Own,
        _ => Special::Nothing,
    }
}

impl Row {
    /// Whether it may be run behind `CLARET.READ` or `CLARET.WRITE`: it has keys to wait for. Of `CLUSTER`, SETSLOT.
    pub(crate) fn waits(self, second: Option<&[u8]>) -> bool {
        match self.special {
            Special::Own => false,
            Special::Cluster => second.is_some_and(|word| word.eq_ignore_ascii_case(b"SETSLOT")),
            _ => self.keys != Keys::None,
        }
    }

    /// Whether the server takes so many words for it.
    pub(crate) fn fits(self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= least } else { words == least }
    }

    /// Visits the keys of a command of so many words, while the visitor wants more. Not of those that are asked for.
    pub(crate) fn places(self, words: usize) -> impl Iterator<Item = usize> {
        let (first, last, step) = match self.keys {
            Keys::Fixed { first, last, step } if last < 0 => {
                (first, if is_planted(Bug::LastKeysUnseen) { first } else { words as i32 + last }, step)
            }
            Keys::Fixed { first, last, step } => (first, last.min(words as i32 - 1), step),
            Keys::None | Keys::Asked => (1, 0, 1),
        };
        (first..=last).step_by(step as usize).map(|place| place as usize)
    }

    /// How it uses a key that the server has asked for: as that says.
    pub(crate) fn access_at(self, place: Place) -> Access {
        if place.is_read() { Access::Read } else { self.access }
    }

    /// The keys of a command, and how each is used. Where that depends on its words the server is asked.
    pub(crate) fn keys(
        self,
        words: &[Text],
        ask: impl FnOnce(&[Text]) -> Vec<Place>,
    ) -> Vec<(&[u8], Access)> {
        let key = |place: usize| words.get(place).map(Text::bytes);
        match self.keys {
            Keys::None => Vec::new(),
            Keys::Fixed { .. } => {
                self.places(words.len()).filter_map(key).map(|key| (key, self.access)).collect()
            }
            Keys::Asked => {
                let found = ask(words).into_iter();
                found.filter_map(|place| Some((key(place.at)?, self.access_at(place)))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use claret_types::{Access, Bytes};

    use super::{Answer, CommandName, Keys, Row, Special, Table};

    #[test]
    fn names_are_told_apart_whatever_the_case_of_their_envelopes() {
        assert_eq!(CommandName::new(b"SetRange"), CommandName::new(b"setrange"));
        assert_eq!(CommandName::new(b"GEORADIUSBYMEMBER_RO"), CommandName::new(b"georadiusbymember_ro"));
        assert_ne!(CommandName::new(b"set"), CommandName::new(b"set\0"));
        assert_ne!(CommandName::new(b"set"), CommandName::new(b"get"));
        assert!(
            CommandName::new(&[b'x'; 31]).is_some_and(|name| Some(name) != CommandName::new(&[b'x'; 30]))
        );
        assert_eq!(CommandName::new(&[b'x'; 32]), None, "no command is so long");
    }

    /// As `COMMAND` describes one.
    fn described(name: &str, arity: i64, flags: &[&str], keys: [i64; 3], subcommands: Vec<Answer>) -> Answer {
        let text = |text: &str| Answer::Bytes(Bytes::from(text));
        let flags = Answer::Array(flags.iter().map(|flag| text(flag)).collect());
        let [first, last, step] = keys.map(Answer::Int);
        let (categories, tips, specs) = (Answer::Nil, Answer::Nil, Answer::Nil);
        let subcommands = Answer::Array(subcommands);
        Answer::Array(vec![
            text(name),
            Answer::Int(arity),
            flags,
            first,
            last,
            step,
            categories,
            tips,
            specs,
            subcommands,
        ])
    }

    #[test]
    fn what_the_server_says_of_its_commands_is_read() {
        let encoding = described("object|encoding", 3, &["readonly"], [2, 2, 1], Vec::new());
        let table = Table::of(Answer::Array(vec![
            described("get", 2, &["readonly", "fast"], [1, 1, 1], Vec::new()),
            described("mset", -3, &["write"], [1, -1, 2], Vec::new()),
            described("sort", -2, &["write", "movablekeys"], [1, 1, 1], Vec::new()),
            described("object", -2, &[], [0, 0, 0], vec![encoding]),
            described("blpop", -3, &["write", "noscript", "blocking"], [1, -2, 1], Vec::new()),
            described("ping", -1, &["fast"], [0, 0, 0], Vec::new()),
            described("watch", -2, &["noscript"], [1, -1, 1], Vec::new()),
            described("claret.write", -2, &["write", "movablekeys"], [0, 0, 0], Vec::new()),
            described("claret.exec", -4, &["write"], [0, 0, 0], Vec::new()),
            Answer::Nil,
        ]));
        let row = |name: &str| table.find(name.as_bytes()).expect("it is listed");
        assert_eq!(
            (row("GET").keys, row("GET").access),
            (Keys::Fixed { first: 1, last: 1, step: 1 }, Access::Read)
        );
        assert_eq!(
            (row("MSET").keys, row("MSET").access),
            (Keys::Fixed { first: 1, last: -1, step: 2 }, Access::Write)
        );
        assert_eq!((row("sort").keys, row("object").keys), (Keys::Asked, Keys::Asked));
        assert_eq!((row("BLPOP").special, row("BLPOP").no_script), (Special::Pop, true));
        assert_eq!((row("PING").keys, row("WATCH").keys), (Keys::None, Keys::None), "WATCH only looks later");
        assert_eq!((row("claret.write").special, row("claret.write").keys), (Special::Own, Keys::Asked));
        assert_eq!(row("claret.exec").keys, Keys::None);
        assert!(row("get").waits(None) && !row("ping").waits(None) && !row("claret.write").waits(None));
        assert_eq!(table.find(b"nothing"), None);
    }

    #[test]
    fn of_cluster_it_is_setslot_that_waits() {
        let table = Table::of(Answer::Array(vec![described("cluster", -2, &[], [0, 0, 0], Vec::new())]));
        let cluster = table.find(b"CLUSTER").expect("it is listed");
        assert!(cluster.waits(Some(b"SetSlot")) && !cluster.waits(Some(b"NODES")) && !cluster.waits(None));
    }

    #[test]
    fn places_of_keys_count_from_both_ends() {
        let row = |first, last, step| Row {
            keys: Keys::Fixed { first, last, step },
            access: Access::Write,
            special: Special::Nothing,
            arity: -2,
            no_script: false,
            is_silent: false,
            adds: false,
            is_anothers: false,
            writes: true,
            kind: None,
        };
        let places = |row: Row, words| row.places(words).collect::<Vec<_>>();
        assert_eq!(places(row(1, 1, 1), 3), [1]);
        assert_eq!(places(row(1, -1, 2), 7), [1, 3, 5], "MSET of three");
        assert_eq!(places(row(1, -2, 1), 5), [1, 2, 3], "BLPOP of three and its time");
        assert_eq!(places(row(1, 2, 1), 2), [1], "a word is missing");
        assert_eq!(places(row(1, -1, 1), 1), [] as [usize; 0]);
        assert!(row(1, 1, 1).fits(2) && row(1, 1, 1).fits(3) && !row(1, 1, 1).fits(1));
        assert!(!Row { arity: 2, ..row(1, 1, 1) }.fits(3));
    }
}
