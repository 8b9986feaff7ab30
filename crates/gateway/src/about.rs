//! `COMMAND`, from the table.

use bytes::Bytes as Word;
use claret_commands::{Answer, Command, Keys, pattern};

/// The version that clients are told: what the gateway's commands are those of.
pub(crate) const SERVER_VERSION: &str = "7.2.4";

/// Names that are asked about at once: an answer is far longer than a name.
const NAMES_MAX: usize = 1_024;

/// `COMMAND` and its subcommands.
pub(crate) fn answer(words: &[Word]) -> Answer {
    let Some(name) = words.get(1) else {
        return Answer::Array(claret_commands::all().iter().map(info).collect());
    };
    match (name.to_ascii_uppercase().as_slice(), &words[2..]) {
        (b"COUNT", []) => Answer::count(claret_commands::all().len()),
        (b"LIST", []) => Answer::strings(claret_commands::all().iter().map(|command| lower(command).into())),
        (b"LIST", [filter, by, pattern]) if filter.eq_ignore_ascii_case(b"FILTERBY") => list_by(by, pattern),
        (b"LIST", _) => Answer::error("ERR syntax error"),
        (b"INFO", []) => Answer::Array(claret_commands::all().iter().map(info).collect()),
        (b"INFO", names) if names.len() <= NAMES_MAX => {
            let infos = names.iter().map(|name| claret_commands::named(name).map_or(Answer::NilArray, info));
            Answer::Array(infos.collect())
        }
        (b"DOCS", []) => Answer::Map(claret_commands::all().iter().flat_map(docs).collect()),
        (b"DOCS" | b"INFO", names) if names.len() > NAMES_MAX => {
            Answer::Error(format!("ERR over {NAMES_MAX} names: ask for fewer, or for all"))
        }
        (b"DOCS", names) => {
            Answer::Map(names.iter().filter_map(|name| claret_commands::named(name)).flat_map(docs).collect())
        }
        (b"GETKEYS", [name, ..]) => keys(name, &words[2..]),
        (b"HELP", []) => Answer::strings(
            [
                "COMMAND",
                "COMMAND COUNT",
                "COMMAND LIST [FILTERBY ACLCAT|MODULE|PATTERN x]",
                "COMMAND INFO [name ...]",
                "COMMAND DOCS [name ...]",
                "COMMAND GETKEYS command",
            ]
            .map(Into::into),
        ),
        _ => Answer::Error(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try COMMAND HELP.",
            name.escape_ascii()
        )),
    }
}

fn lower(command: &Command) -> String {
    command.name.to_ascii_lowercase()
}

fn list_by(by: &Word, word: &Word) -> Answer {
    let names = match pattern(&word.to_ascii_lowercase()) {
        Ok(names) => names,
        Err(fault) => return fault.into(),
    };
    let by = by.to_ascii_uppercase();
    if !matches!(by.as_slice(), b"ACLCAT" | b"PATTERN" | b"MODULE") {
        return Answer::error("ERR syntax error");
    }
    let category = String::from_utf8_lossy(word).to_ascii_lowercase();
    let is_meant = |command: &&Command| match by.as_slice() {
        b"ACLCAT" => categories(command).contains(&category.as_str()),
        b"PATTERN" => names.matches(lower(command).as_bytes()),
        // It has no modules.
        _ => false,
    };
    Answer::strings(claret_commands::all().iter().filter(is_meant).map(|command| lower(command).into()))
}

/// Commands that have subcommands: servers put these into categories.
const WITH_SUBCOMMANDS: [&str; 14] = [
    "ACL", "CLIENT", "CLUSTER", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "MODULE", "OBJECT", "PUBSUB",
    "SCRIPT", "SLOWLOG", "XGROUP", "XINFO",
];

/// Those that only whoever runs the server needs.
const OF_ADMINISTRATORS: [&str; 14] = [
    "BGREWRITEAOF",
    "BGSAVE",
    "DEBUG",
    "FAILOVER",
    "LASTSAVE",
    "MONITOR",
    "PSYNC",
    "REPLCONF",
    "REPLICAOF",
    "ROLE",
    "SAVE",
    "SHUTDOWN",
    "SLAVEOF",
    "SYNC",
];

/// The categories of rights in which servers have a command, without their `@`.
fn categories(command: &Command) -> Vec<&'static str> {
    let name = command.name;
    if WITH_SUBCOMMANDS.contains(&name) {
        return vec!["slow"];
    }
    let of_group: &[&str] = match (command.group, name) {
        (_, "SORT" | "SORT_RO") => &["set", "sortedset", "list", "dangerous"],
        (_, "WAIT" | "WAITAOF" | "COMMAND") => &["connection"],
        (_, "RESTORE" | "KEYS" | "MIGRATE") => &["keyspace", "dangerous"],
        (_, "FLUSHALL" | "FLUSHDB" | "SWAPDB") => &["keyspace", "dangerous"],
        (_, "DBSIZE") => &["keyspace"],
        (_, "INFO") => &["dangerous"],
        (_, name) if OF_ADMINISTRATORS.contains(&name) => &["admin", "dangerous"],
        ("generic", _) => &["keyspace"],
        ("sorted-set", _) => &["sortedset"],
        ("transactions", _) => &["transaction"],
        ("string", _) => &["string"],
        ("bitmap", _) => &["bitmap"],
        ("hash", _) => &["hash"],
        ("list", _) => &["list"],
        ("set", _) => &["set"],
        ("stream", _) => &["stream"],
        ("pubsub", _) => &["pubsub"],
        ("scripting", _) => &["scripting"],
        ("geo", _) => &["geo"],
        ("hyperloglog", _) => &["hyperloglog"],
        ("connection", _) => &["connection"],
        _ => &[],
    };
    // What a script does is another matter.
    let has_access = command.group != "scripting";
    let flags = [
        (command.writes && has_access, "write"),
        (command.reads && has_access, "read"),
        (command.is_fast, "fast"),
        (!command.is_fast, "slow"),
        (command.blocks, "blocking"),
    ];
    let flags = flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name));
    flags.chain(of_group.iter().copied()).collect()
}

/// A command as `COMMAND INFO` has it.
fn info(command: &Command) -> Answer {
    let mut flags: Vec<&'static str> = Vec::new();
    for (is_set, flag) in [
        (command.writes, "write"),
        (command.reads, "readonly"),
        (command.is_fast, "fast"),
        (command.blocks, "blocking"),
        (command.group == "pubsub", "pubsub"),
        (
            matches!(command.keys, Keys::Counted { .. } | Keys::Streams | Keys::Sort | Keys::Georadius),
            "movablekeys",
        ),
    ] {
        if is_set {
            flags.push(flag);
        }
    }
    let (first, last, step) = match command.keys {
        Keys::None | Keys::Counted { and_first: false, .. } | Keys::Streams => (0, 0, 0),
        Keys::Range { first, last, step } => (first as i64, i64::from(last), step as i64),
        Keys::Counted { and_first: true, .. } | Keys::Sort | Keys::Georadius => (1, 1, 1),
    };
    let categories = categories(command).into_iter().map(|name| Answer::text(format!("@{name}")));
    Answer::Array(vec![
        Answer::text(lower(command)),
        Answer::Int(i64::from(command.arity)),
        Answer::Set(flags.into_iter().map(Answer::Simple).collect()),
        Answer::Int(first),
        Answer::Int(last),
        Answer::Int(step),
        Answer::Set(categories.collect()),
        Answer::Array(Vec::new()),
        Answer::Array(Vec::new()),
        Answer::Array(Vec::new()),
    ])
}

/// A command as `COMMAND DOCS` has it: its name, and a map.
fn docs(command: &Command) -> [Answer; 2] {
    let text = |text: &str| Answer::text(text.to_owned());
    let summary = if command.summary.is_empty() { "cannot be behind the gateway" } else { command.summary };
    let mut map = vec![text("summary"), text(summary), text("group"), text(command.group)];
    map.extend([text("gateway"), text(&command.way.to_string())]);
    if !command.note.is_empty() {
        map.extend([text("note"), text(command.note)]);
    }
    [Answer::text(lower(command)), Answer::Map(map)]
}

fn keys(name: &Word, words: &[Word]) -> Answer {
    let Some(command) = claret_commands::named(name) else {
        return Answer::error("ERR Invalid command specified");
    };
    if !command.takes(words.len()) {
        return Answer::error("ERR Invalid number of arguments specified for command");
    }
    match command.keys.of(words) {
        Ok(places) => {
            let keys: Vec<_> = places.map(|at| claret_types::Bytes::copy_from(&words[at])).collect();
            match keys.is_empty() {
                true => Answer::error("ERR The command has no key arguments"),
                false => Answer::strings(keys),
            }
        }
        Err(_) => Answer::error("ERR Invalid arguments specified for command"),
    }
}
