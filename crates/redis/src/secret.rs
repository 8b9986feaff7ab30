//! Secrets that are never shown: passwords, keys, numbers that grant something. A structure that contains one can be
//! printed safely.

use std::fmt;
use std::ops::Deref;

use claret_planted::{Bug, is_planted};

/// Printed as `***`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> Deref for Secret<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A text in which URLs have no passwords any more, whatever else is wrong with them: what may be a login, a password
/// or a parameter is left out rather than shown.
///
/// ```
/// use claret_redis::without_passwords;
/// let said = without_passwords("no store at 'redis://ada:secret@10.0.0.1:7000/?tls-name=a', sorry");
/// assert_eq!(said, "no store at 'redis://ada:***@10.0.0.1:7000/?***', sorry");
/// ```
pub fn without_passwords(text: &str) -> String {
    let (text, rights) = without_rights(text);
    rights.into_iter().fold(hidden(&text), |text, right| text.replacen(RIGHT, right, 1))
}

/// Stands for what names rights: `+@all`.
const RIGHT: &str = "\u{1}";

/// The categories of rights that servers have; of other modules' ones nothing is said here.
const CATEGORIES: [&str; 22] = [
    "admin",
    "all",
    "bitmap",
    "blocking",
    "connection",
    "dangerous",
    "fast",
    "geo",
    "hash",
    "hyperloglog",
    "keyspace",
    "list",
    "pubsub",
    "read",
    "scripting",
    "set",
    "slow",
    "sortedset",
    "stream",
    "string",
    "transaction",
    "write",
];

/// A text in which rights stand for no logins, and these rights in their order. A login ends at an `@`, and so would `+@all`.
fn without_rights(text: &str) -> (String, Vec<&str>) {
    let (mut out, mut rights) = (String::with_capacity(text.len()), Vec::new());
    // It may be a part of a password.
    let mut rest = text;
    if text.contains(RIGHT) {
        return (text.to_owned(), rights);
    }
    while let Some(at) = rest.find('@') {
        let name_end =
            rest[at + 1..].find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(rest.len() - at - 1);
        let (name, behind) = (&rest[at + 1..at + 1 + name_end], &rest[at + 1 + name_end..]);
        let before = &rest[..at];
        let is_alone = before.strip_suffix(['+', '-']).is_some_and(|before| {
            before.chars().next_back().or_else(|| out.chars().next_back()).is_none_or(is_around)
        });
        let is_right = is_alone && CATEGORIES.contains(&name) && behind.chars().next().is_none_or(is_around);
        let taken = at + 1 + if is_right { name_end } else { 0 };
        if is_right {
            out.push_str(&before[..at - 1]);
            out.push_str(RIGHT);
            rights.push(&rest[at - 1..taken]);
        } else {
            out.push_str(&rest[..taken]);
        }
        rest = &rest[taken..];
    }
    out.push_str(rest);
    (out, rights)
}

/// What stands around a word of a sentence.
fn is_around(character: char) -> bool {
    is_end(character) || matches!(character, ',' | ';' | '.' | '(' | ')')
}

fn hidden(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else { return without_logins(text) };
    let before = without_logins(before);
    // A password may have anything in it: to the last @ all of it is.
    if let Some((login, hosts)) = rest.rsplit_once('@') {
        let hidden = login.split_once(':').map_or("***".to_owned(), |(user, _)| format!("{user}:***"));
        let login = if is_planted(Bug::PasswordShown) { login.to_owned() } else { hidden };
        return format!("{before}://{login}@{}", without_parameters(hosts));
    }
    // It may be a login without a host.
    let end = rest.find(['/', '?', '#']).or_else(|| rest.find(is_end)).unwrap_or(rest.len());
    let (hosts, tail) = rest.split_at(end);
    let hosts: Vec<String> = hosts.split(',').map(host_without_password).collect();
    format!("{before}://{}{}", hosts.join(","), without_parameters(tail))
}

/// Where a URL in a text ends, if not before.
fn is_end(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\'' | '"' | '`')
}

fn without_logins(text: &str) -> String {
    let words = text.split_inclusive(is_end);
    words
        .map(|word| word.rsplit_once('@').map_or(word.to_owned(), |(_, hosts)| format!("***@{hosts}")))
        .collect()
}

fn without_parameters(text: &str) -> String {
    let Some((before, behind)) = text.split_once('?') else { return text.to_owned() };
    format!("{before}?***{}", &behind[behind.find(is_end).unwrap_or(behind.len())..])
}

fn host_without_password(host: &str) -> String {
    let is_port = |text: &str| text.trim_end_matches([':', ';', '.', ')']).parse::<u16>().is_ok();
    match host.split_once(':') {
        Some((name, port)) if !host.starts_with('[') && !is_port(port) => format!("{name}:***"),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_password_is_left_in_what_is_shown() {
        for url in [
            "redis://ada:hunter2@h:1",
            "redis://ada:hunter2@h:1,i:2/3?x=1",
            "redis://:hunter2@h",
            "redis://hunter2@h",
            "redis://ada:hunter2",
            "redis://ada:hunter2/",
            "redis://:hunter2",
            "redis://ada:7@hunter2@h",
            "redis://ada:7/hunter2@h",
            "redis://ada:7?hunter2=1@h",
            "redis://ada:7#hunter2@h",
            "redis://ada:7 'hunter2'\"@h",
            "redis://ada:7://hunter2@h",
            "valkey://ada:hunter2@h",
            "redis:ada:hunter2@h",
            "ada:hunter2@h://x",
            "ada:hunter2@h:7000",
            "redis://h?password=hunter2",
            "redis://h/?a=b&password=hunter2#x",
        ] {
            let shown = without_passwords(url);
            assert!(!shown.contains("hunter2"), "{url} became {shown}");
            for text in
                [format!("error: there is no '{url}' here"), format!("error: at {url}: it is not there")]
            {
                let shown = without_passwords(&text);
                assert!(!shown.contains("hunter2"), "{shown}");
                assert!(shown.starts_with("error: "), "{shown}");
            }
        }
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for url in ["redis://h:7000", "redis://[::1]:7000,10.0.0.1:7001/0", "embedded", "rediss://h", ""] {
            assert_eq!(without_passwords(url), url);
        }
        assert_eq!(without_passwords("rediss://ada:x@h:1,i:2"), "rediss://ada:***@h:1,i:2");
    }

    /// It read `***@all`.
    #[test]
    fn rights_are_no_logins() {
        let said = "h:1 refuses: NOAUTH; check that the user may run +@all, or (+@read -@write); +@all";
        assert_eq!(without_passwords(said), said);
        let said = "redis://ada:hunter2@h:1 refuses: the user needs '+@all'.";
        assert_eq!(without_passwords(said), "redis://ada:***@h:1 refuses: the user needs '+@all'.");
        for url in ["redis://ada:hunter2+@all:7", "hunter2-@all.example", "redis://x:hunter2 +@alls"] {
            assert!(!without_passwords(url).contains("hunter2"), "{url}");
        }
        // A password that has what stands for a right.
        assert!(!without_passwords("redis://a:\u{1}hunter2@h +@all").contains("hunter2"));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Some(Secret("hunter2"))), "Some(***)");
    }
}
