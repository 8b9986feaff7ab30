//! Generates `docs/commands.md` from the declarations. The test checks that the page is current; `UPDATE=1` writes
//! it.

use std::fmt::Write;

use super::{Argument, COMMANDS, Command, Shape};
use crate::entries::info::{self, STATE, STATE_SUMMARY};
use crate::node::settings::{self, PEER_SECRET_FILE, SCHEMA};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

const OPENING: &str = "\
# Commands of the module

What the module adds to a server: commands, settings and numbers. `UPDATE=1 cargo test -p claret-module --lib page` writes this page from
[the declarations](../crates/module/src/entries/commands.rs). Claret's clients speak through `CLARET.HELLO`, `CLARET.FRAME`, and pushes or
`CLARET.POLL`; people and other programs use `CLARET.EXEC`. [types.md](types.md) lists the operations and what they answer.

Errors begin with a code:

| code | meaning |
|---|---|
| `WIREVERSION` | client and module do not match |
| `NOSESSION` | say hello first, with a higher connection number |
| `NOTREADY` | this node serves no slots as a master |
| `CLUSTERDOWN` | this node cannot write now: the cluster is down, nobody serves the slot, or the server refuses writes (the text says why) |
| `TRYAGAIN` | a lock was not free in time |
| others | those of Redis |

## Permissions

A user who may run a plain command on a key may also run the operation that does the same: `SADD.RETURNING` needs `SADD`, `BDECRBY`
needs `HINCRBY`, `BAG.ADD` needs `HSET`, and `TOPK.ADD` needs `ZADD` on the key and `SET` on the string beside it. The module checks
this when an operation arrives, with the access lists of that moment ([operations.md](operations.md#users) says what it remembers of
users who may do everything). What has voted is applied even if rights change.

The user also needs the right to the `CLARET.` command itself. Redis 7.0 has no categories for commands of modules, so give these
rights by name (`+claret.frame`) or with `+@all`. `CLARET.LOCKS`, `CLARET.TOP` and `CLARET.RESOLVE` also need the right to
`CONFIG`, and `CLARET.RESOLVE` the right to `DEL` on the keys that the attempt holds. `CLARET.LOCKS` and `CLARET.TOP` show the keys
on which the user may run `TYPE`.
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
            "\n## {name}\n\n`{}`\n\n{}\n\n- *Answers:* {}\n- *Complexity:* {}. *Declared:* {}; since {}\n",
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
    for setting in settings::all() {
        let shown = |value: i64| match usize::try_from(value).ok().and_then(|at| setting.words.get(at)) {
            Some(word) => format!("`{}`", word.to_string_lossy()),
            None => value.to_string(),
        };
        let (name, [default, min, max]) =
            (setting.name, [setting.default, setting.min, setting.max].map(shown));
        let when = if setting.fixed { " (at load only)" } else { "" };
        writeln!(page, "| `claret.{name}` | {default} | {min} | {max} | {}{when} |", setting.summary)
            .expect("into a string");
    }
    let (name, summary) = (PEER_SECRET_FILE.name, PEER_SECRET_FILE.summary);
    writeln!(page, "| `claret.{name}` | none |  |  | {summary} (at load only) |").expect("into a string");
    let (name, summary) = (SCHEMA.name, SCHEMA.summary);
    writeln!(page, "| `claret.{name}` | none |  |  | {summary} |").expect("into a string");
    page.push_str("\n## INFO claret\n\n| number | what |\n|---|---|\n");
    writeln!(page, "| `claret_{STATE}` | {STATE_SUMMARY} |").expect("into a string");
    for field in info::fields() {
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
