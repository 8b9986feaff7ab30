//! `docs/errors.md` is the table of all errors. Each of its rows is walked: the error is provoked for real on each host that
//! the row names, matched by its variant and its fields, and held against the row. A row that nothing provokes fails.

use claret::errors::{AttemptError, CommitError, ExecuteError};
use claret::{Error, OpError, Store};

use super::provoked::provoke;

const PAGE: &str = include_str!("../../../../../../docs/errors.md");

/// What nothing here provokes: the row, the host, and why.
const UNPROVOKED: &[(&str, Host, &str)] = &[
    ("Crowded", Host::Cluster, "a server lets 2^20 wait for one record, and says no only to the next"),
    ("NoRoom", Host::Embedded, "of a disk that is full: the tests in src/embedded/durable.rs make one up"),
    ("LogStopped", Host::Embedded, "of a disk that fails: the same"),
    ("Unknown", Host::Embedded, "the same"),
    ("Changed", Host::Embedded, "the store runs the closure again"),
    ("Changed", Host::Cluster, "the same"),
];

/// Each program of tests has one of them.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Embedded,
    Cluster,
}

impl Host {
    fn letter(self) -> &'static str {
        match self {
            Host::Embedded => "E",
            Host::Cluster => "C",
        }
    }
}

/// An error that was provoked and matched, and what its text has to say: the record, and what to do.
#[derive(Debug)]
pub(crate) struct Provoked {
    pub(crate) error: Error,
    pub(crate) says: Vec<String>,
}

impl Provoked {
    pub(crate) fn new<const N: usize>(error: Error, says: [&str; N]) -> Self {
        Provoked { error, says: says.map(str::to_owned).into() }
    }
}

/// Where errors are provoked.
pub(crate) struct Ground<'a> {
    pub(crate) store: &'a Store,
    /// The same records, with little room: three operations in a transaction, values of eight bytes.
    pub(crate) small: &'a Store,
    /// One that may be closed.
    pub(crate) closing: &'a Store,
    pub(crate) prefix: String,
}

#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    hosts: String,
    is_retryable: bool,
}

/// The rows of the page's tables: of `Error` and of each enum of an activity, and last of `OpError`.
fn tables(page: &str) -> Vec<Vec<Row>> {
    let mut tables = Vec::new();
    for line in page.lines() {
        if line.starts_with("| variant |") {
            tables.push(Vec::new());
        }
        let (Some(table), Some(cells)) = (tables.last_mut(), line.strip_prefix("| `")) else { continue };
        let cells: Vec<&str> = cells.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [variant, _, hosts, retry, advice] = cells[..] else { panic!("not five cells: {line}") };
        let name: String = variant.chars().take_while(|it| it.is_alphanumeric()).collect();
        assert!(["E", "C", "E, C"].contains(&hosts) && !advice.is_empty(), "{line}");
        let is_retryable = match retry {
            "yes" => true,
            "no" => false,
            _ => panic!("{line}"),
        };
        table.push(Row { name, hosts: hosts.to_owned(), is_retryable });
    }
    tables
}

/// Walks all rows of a host. `own`: what this host alone can give, or in a way of its own.
pub(crate) async fn walk(host: Host, ground: &Ground<'_>, mut own: Vec<Provoked>) {
    let tables = tables(PAGE);
    let Some((op_errors, errors)) = tables.split_last().filter(|(_, errors)| errors.len() == 6) else {
        panic!("there are seven tables: {tables:?}")
    };
    let errors: Vec<&Row> = errors.iter().flatten().collect();
    assert!(errors.len() > 20 && op_errors.len() > 10, "{tables:?}");
    for (row, is_op) in
        errors.into_iter().map(|row| (row, false)).chain(op_errors.iter().map(|row| (row, true)))
    {
        let is_unprovoked = UNPROVOKED.iter().any(|(name, on, _)| *name == row.name && *on == host);
        if !row.hosts.contains(host.letter()) || is_unprovoked {
            continue;
        }
        let is_it = |error: &Error| {
            matches!(error, Error::Execute(ExecuteError::Invalid { .. })) == is_op
                && name_of(error, is_op) == row.name
        };
        let at = own.iter().position(|it| is_it(&it.error));
        let provoked = match at {
            Some(at) => own.swap_remove(at),
            None => {
                let provoked = provoke(ground, &row.name).await;
                provoked.unwrap_or_else(|| panic!("nothing provokes {} on host {host:?}", row.name))
            }
        };
        check(row, &provoked, is_op);
    }
    assert!(own.is_empty(), "no rows of this host: {own:?}");
}

fn check(row: &Row, Provoked { error, says }: &Provoked, is_op: bool) {
    assert_eq!(name_of(error, is_op), row.name, "{error:?}");
    assert_eq!(error.is_retryable(), row.is_retryable, "{row:?}: {error:?}");
    let text = error.to_string();
    assert!(says.len() > 1 && says.iter().all(|part| text.contains(part.as_str())), "{says:?}: {text}");
    assert!(!text.contains(char::is_control), "{text}");
    let cause = std::error::Error::source(error);
    let is_right = match error {
        Error::Aborted(reason) => cause.is_some_and(|cause| cause.to_string() == reason.to_string()),
        Error::Execute(ExecuteError::Invalid { .. }) => cause.is_some_and(|cause| cause.is::<OpError>()),
        Error::Commit(CommitError::Attempts { .. }) => cause.is_some_and(|cause| cause.is::<AttemptError>()),
        Error::Commit(CommitError::NoAnswer { .. }) => cause.is_some(),
        _ => cause.is_none(),
    };
    assert!(is_right, "{error:?}: {cause:?}");
}

/// The variant's name, of the error or of what it says of an operation.
fn name_of(error: &Error, is_op: bool) -> String {
    let name = |shown: String| shown.chars().take_while(|it| it.is_alphanumeric()).collect();
    match error {
        Error::Begin(error) => name(format!("{error:?}")),
        Error::Nest(error) => name(format!("{error:?}")),
        Error::Commit(error) => name(format!("{error:?}")),
        Error::Handle(error) => name(format!("{error:?}")),
        Error::Execute(ExecuteError::Invalid { error, .. }) if is_op => name(format!("{error:?}")),
        _ if is_op => String::new(),
        Error::Execute(error) => name(format!("{error:?}")),
        _ => name(format!("{error:?}")),
    }
}

#[test]
fn rows_are_found() {
    let page = "| variant | when |\n|---|---|\n| `A { b }` | x | E, C | no | y |\n| variant |\n| `B` | x | C | yes | y |";
    let row =
        |name: &str, hosts: &str, is_retryable| Row { name: name.into(), hosts: hosts.into(), is_retryable };
    assert_eq!(tables(page), [[row("A", "E, C", false)], [row("B", "C", true)]]);
}
