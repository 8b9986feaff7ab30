//! What can be typed: the operations of all types, from their tables of methods, and the shell's own commands.
//!
//! An operation that several types have (GET) means that of the type which made the record, if it has one; then
//! that of a type that the transaction has used on the record; then that of the first type in
//! [`builtin_types`]. `counter.GET` says which.

use std::fmt::Write as _;

use claret_types::{Method, TypeInfo, builtin_types};

/// An operation of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: &'static TypeInfo,
    pub(crate) method: &'static Method,
}

impl Entry {
    /// How it is typed.
    pub(crate) fn usage(&self) -> String {
        format!("{} key {}", self.method.name, self.method.arguments).trim_end().to_owned()
    }
}

/// A command of the shell itself.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) summary: &'static str,
}

/// The shell's own commands.
pub(crate) const OWN: &[Own] = &[
    Own {
        name: "BEGIN",
        arguments: "[OPTIMISTIC]",
        summary: "opens a transaction; OPTIMISTIC: one that looks without locks",
    },
    Own { name: "COMMIT", arguments: "", summary: "commits the open transaction" },
    Own { name: "ABORT", arguments: "", summary: "drops the open transaction, also while it waits" },
    Own {
        name: "ROLLBACK",
        arguments: "[TO name]",
        summary: "the same as ABORT; TO: undoes what was done since the savepoint, which stays",
    },
    Own {
        name: "SAVEPOINT",
        arguments: "name",
        summary: "marks a point of the open transaction; what cannot be done from then on is undone with ROLLBACK TO",
    },
    Own { name: "RELEASE", arguments: "name", summary: "forgets a savepoint, and those made later" },
    Own {
        name: "SETTLE",
        arguments: "",
        summary: "executes what waits for the commit, so that what cannot be done shows now",
    },
    Own {
        name: "SESSION",
        arguments: "n",
        summary: "goes on in session n, a client of its own; '2: SADD k x' is one line for session 2",
    },
    Own { name: "SESSIONS", arguments: "", summary: "what every session is doing" },
    Own {
        name: "KEYS",
        arguments: "pattern",
        summary: "the keys that match, as in Redis: * ? [ab]; outside of transactions",
    },
    Own {
        name: "RENAME",
        arguments: "from to",
        summary: "moves a record to another key, on any shard: 1, or 0 if there is none; at most 1 MiB",
    },
    Own { name: "TYPE", arguments: "key", summary: "the type that made the committed record" },
    Own { name: "TYPES", arguments: "", summary: "the types of records" },
    Own {
        name: "BACKUP",
        arguments: "folder",
        summary: "copies the committed records into a new folder, a store of its own; with --store file:FOLDER",
    },
    Own { name: "STATS", arguments: "", summary: "counts of waits, phases, restarts and locks" },
    Own { name: "HELP", arguments: "[name]", summary: "explains an operation, a type or a command" },
    Own { name: "EXIT", arguments: "", summary: "ends the shell; also QUIT and Ctrl-D" },
    Own { name: "QUIT", arguments: "", summary: "the same as EXIT" },
];

/// All operations of this name, in the order of the types.
pub(crate) fn named(name: &str) -> Vec<Entry> {
    let of = |kind: &'static TypeInfo| {
        let method = kind.methods.iter().find(|method| method.name.eq_ignore_ascii_case(name));
        method.map(|method| Entry { kind, method })
    };
    builtin_types().iter().filter_map(|kind| of(kind)).collect()
}

/// The type of this name.
pub(crate) fn type_named(name: &str) -> Option<&'static TypeInfo> {
    builtin_types().iter().copied().find(|kind| kind.name.eq_ignore_ascii_case(name))
}

/// The operation meant by a name, given the types to prefer, best first; or what is wrong with the name.
pub(crate) fn resolve(name: &str, prefer: &[Option<&str>]) -> Result<Entry, String> {
    let candidates = named(name);
    let preferred = prefer
        .iter()
        .flatten()
        .find_map(|kind| candidates.iter().find(|candidate| candidate.kind.name == *kind));
    if let Some(entry) = preferred.or(candidates.first()) {
        return Ok(*entry);
    }
    match name.split_once('.').and_then(|(kind, method)| Some((type_named(kind)?, method))) {
        Some((kind, method)) => {
            let entry = named(method).into_iter().find(|entry| std::ptr::eq(entry.kind, kind));
            entry.ok_or_else(|| {
                format!("type {0} has no operation '{method}'; HELP {0} lists what it has", kind.name)
            })
        }
        None => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let mut error = format!("unknown command '{}'", name.escape_debug());
    if let Some(near) = nearest(name) {
        let _ = write!(error, ", did you mean {near}?");
    }
    error + "; HELP lists all"
}

/// The name that was probably meant.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_uppercase();
    let far = |known: &str| strsim::damerau_levenshtein(&name, known);
    let best = names().into_iter().min_by_key(|known| far(known))?;
    (far(best) <= 2 && far(best) * 3 <= best.len()).then_some(best)
}

/// Everything that can begin a statement, sorted.
pub(crate) fn names() -> Vec<&'static str> {
    let methods = builtin_types().iter().flat_map(|kind| kind.methods).map(|method| method.name);
    let mut names: Vec<_> = methods.chain(OWN.iter().map(|own| own.name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// `TYPES`.
pub(crate) fn types() -> String {
    let rows = builtin_types().iter().map(|kind| (kind.name.to_owned(), kind.summary.to_owned()));
    columns(rows.collect())
}

/// `HELP` without a name.
pub(crate) fn overview() -> String {
    let mut text = String::from("Operations, by type of record:\n");
    let names = |kind: &&TypeInfo| kind.methods.iter().map(|it| it.name).collect::<Vec<_>>().join("  ");
    text += &columns(builtin_types().iter().map(|kind| (kind.name.to_owned(), names(kind))).collect());
    text += "\nCommands of the shell:\n";
    text += &columns(
        OWN.iter().map(|own| (format!("{} {}", own.name, own.arguments), own.summary.into())).collect(),
    );
    text += "\nHELP SADD explains an operation, HELP set a type. Outside BEGIN each line is a transaction.";
    text
}

/// `HELP name`: all that the name can mean.
pub(crate) fn explain(name: &str) -> Result<String, String> {
    let mut parts: Vec<String> = Vec::new();
    if let Some(own) = OWN.iter().find(|own| own.name.eq_ignore_ascii_case(name)) {
        parts.push(format!("{} {}", own.name, own.arguments).trim_end().to_owned() + "\n  " + own.summary);
    }
    parts.extend(named(name).iter().map(explain_entry));
    parts.extend(type_named(name).map(explain_type));
    if parts.is_empty() {
        parts.push(explain_entry(&resolve(name, &[])?));
    }
    Ok(parts.join("\n"))
}

fn explain_entry(entry: &Entry) -> String {
    let Entry { kind, method } = entry;
    let answers = if method.returns {
        "returns something: locks and answers at once"
    } else {
        "void: answers nothing, locks at commit"
    };
    format!(
        "{}\n  {}\n  {}; {}; of type {}",
        entry.usage(),
        method.summary,
        answers,
        method.complexity,
        kind.name
    )
}

fn explain_type(kind: &'static TypeInfo) -> String {
    let usage = |method| Entry { kind, method }.usage();
    let rows = kind.methods.iter().map(|method| (usage(method), method.summary.to_owned())).collect();
    format!("{}: {} (in Redis a {})\n{}", kind.name, kind.summary, kind.native, columns(rows))
}

/// Two columns, indented.
fn columns(rows: Vec<(String, String)>) -> String {
    let width = rows.iter().map(|(left, _)| left.trim_end().len()).max().unwrap_or(0);
    let lines: Vec<String> =
        rows.iter().map(|(left, right)| format!("  {:width$}  {right}", left.trim_end())).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_names_mean_the_preferred_type_and_then_the_first() {
        let kind = |name: &str, prefer: &[Option<&str>]| resolve(name, prefer).map(|entry| entry.kind.name);
        assert_eq!(kind("get", &[]), Ok("register"));
        assert_eq!(kind("get", &[None, Some("counter")]), Ok("counter"));
        assert_eq!(kind("get", &[Some("set"), Some("float-counter")]), Ok("float-counter"));
        assert_eq!(kind("Counter.Get", &[Some("register")]), Ok("counter"));
        assert_eq!(kind("topk.add", &[]), Ok("topk"));
    }

    #[test]
    fn unknown_names_say_what_was_meant() {
        let error = |name| resolve(name, &[]).map(|entry| entry.method.name).unwrap_err();
        assert_eq!(error("SAD"), "unknown command 'SAD', did you mean SADD?; HELP lists all");
        assert_eq!(error("FROBNICATE"), "unknown command 'FROBNICATE'; HELP lists all");
        assert_eq!(error("set.GET"), "type set has no operation 'GET'; HELP set lists what it has");
    }

    #[test]
    fn no_operation_is_hidden_by_a_command_of_the_shell() {
        for own in OWN {
            assert!(named(own.name).is_empty(), "{} is both", own.name);
        }
    }

    #[test]
    fn everything_that_can_be_typed_is_explained() {
        for name in names() {
            let text = explain(name).expect("known");
            assert!(text.starts_with(name), "{text}");
        }
    }
}
