//! `docs/commands.md` is made from the declarations: this test says whether it is current, and `UPDATE=1` writes it.

use std::fmt::Write;

use super::{Argument, COMMANDS, Command, Shape};
use crate::entries::info::FIELDS;
use crate::node::settings::SETTINGS;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

const OPENING: &str = "\
# Commands of the module

What the module adds to a server: its commands, its settings and its numbers. This page is made from the declarations
in [crates/module](../crates/module/src/entries/commands.rs); `UPDATE=1 cargo test -p claret-module --lib page` writes it.

Programs use a Claret client, which speaks through `CLARET.HELLO`, `CLARET.FRAME` and pushes or `CLARET.POLL`. People
and other programs use `CLARET.EXEC`. Operations, with what they answer, are in [types.md](types.md).

Errors begin with a code: `WIREVERSION` (client and module do not match), `NOSESSION` (say hello first, with a higher
connection number), `NOTREADY` (this node serves no slots as a primary), `CLUSTERDOWN` (the cluster is down, and nothing
is decided until it is not), `TRYAGAIN` (a lock was not free in time), and those of Redis.

## Permissions

What an operation does is allowed to whoever may run the plain command that does the same on that key: `SADD.RETURNING`
asks for `SADD`, `BDECRBY` for `HINCRBY`, `BAG.ADD` for `HSET`, `TOPK.ADD` for `ZADD` on the key and `SET` on the string
beside it. It is asked when an operation arrives, with the lists of that moment (what is remembered of users who may do
everything: [operations.md](operations.md)); what has voted is applied whatever becomes of the rights. A user needs the right to the `CLARET.` command itself, too. Redis 7.0 has no categories for
commands of modules, so there these rights are given by name (`+claret.frame`) or with `+@all`; `CLARET.LOCKS` and
`CLARET.RESOLVE` ask for the right to `CONFIG` as well, and the latter for that to `DEL` on the keys that the attempt holds.

## When a client process dies

When the last connection of a session closes, its attempts that have not voted are let go at once, and those that have
ask the other shards. Locks are free again after one round of asking (the bus, and `claret.inquire-ms` for each message
that is lost), as long as every shard that takes part answers. A process that is silent with its connections open, or
whose host is cut off, keeps what it has until its lease, `claret.lease-ms`, is over.
";

fn usage(command: &Command) -> String {
    let name = command.name.to_string_lossy().to_uppercase();
    std::iter::once(name).chain(command.arguments.iter().map(shown)).collect::<Vec<_>>().join(" ")
}

fn shown(argument: &Argument) -> String {
    let list = |parts: &[Argument], between: &str| parts.iter().map(shown).collect::<Vec<_>>().join(between);
    let text = match argument.shape {
        Shape::Text | Shape::Int | Shape::Key => argument.name.to_owned(),
        Shape::Word(word) => word.to_owned(),
        Shape::Block(parts) => list(parts, " "),
        Shape::OneOf(parts) => list(parts, " | "),
    };
    let text = if argument.repeated { format!("{text} [{text} ...]") } else { text };
    match (argument.optional, argument.repeated) {
        (true, true) => format!("[{} ...]", argument.name),
        (true, false) => format!("[{text}]"),
        (false, _) if matches!(argument.shape, Shape::OneOf(_)) => format!("<{text}>"),
        (false, _) => text,
    }
}

fn page() -> String {
    let mut page = OPENING.to_owned();
    for command in COMMANDS {
        let name = command.name.to_string_lossy().to_uppercase();
        let words: Vec<String> = ["flags", "categories", "arity"]
            .into_iter()
            .zip([
                command.flags.to_string_lossy().into_owned(),
                command.categories.to_string_lossy().into_owned(),
                command.arity.to_string(),
            ])
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        write!(
            page,
            "\n## {name}\n\n```\n{}\n```\n\n{}\n\n- *Answers:* {}\n- *Complexity:* {}\n- *Declared:* {}; since {}\n",
            usage(command),
            command.summary,
            command.answers,
            command.complexity,
            words.join("; "),
            command.since,
        )
        .expect("into a string");
    }
    page.push_str(
        "\n## CONFIG claret.*\n\n| setting | default | from | to | what |\n|---|---|---|---|---|\n",
    );
    for setting in SETTINGS {
        let (name, default, min, max) = (setting.name, setting.default, setting.min, setting.max);
        let when = if setting.fixed { " (at load only)" } else { "" };
        writeln!(page, "| `claret.{name}` | {default} | {min} | {max} | {}{when} |", setting.summary)
            .expect("into a string");
    }
    page.push_str("\n## INFO claret\n\n| number | what |\n|---|---|\n");
    for field in FIELDS {
        writeln!(page, "| `claret_{}` | {} |", field.name, field.summary).expect("into a string");
    }
    page
}

#[test]
fn the_page_of_commands_is_current() {
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        written == page,
        "docs/commands.md is not current; UPDATE=1 cargo test -p claret-module --lib page"
    );
}
