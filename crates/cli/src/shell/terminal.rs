//! Lines from a person: prompt, colours, history, completion of names, and a hint at the arguments.
//!
//! The history is kept in `~/.claret_history` where `HOME` is set; not being able to read or write it is no reason
//! not to work. Ctrl-C gives up a wait and never quits; Ctrl-D quits.

use std::borrow::Cow;
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use crate::output::{self, escaped};

use super::{Flow, Kind, Shell, catalog, syntax};
use claret_types::builtin_types;

/// Runs the prompt until the user leaves.
///
/// # Errors
/// When the terminal fails.
pub(crate) fn run(mut shell: Shell) -> Result<(), ReadlineError> {
    let config = Config::builder().auto_add_history(true).max_history_size(10_000)?.build();
    let mut editor: Editor<Assistant, DefaultHistory> = Editor::with_config(config)?;
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    editor.set_helper(Some(Assistant { colour }));
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".claret_history"));
    if let Some(path) = &history {
        // There is none at the first time.
        let _ = editor.load_history(path);
    }
    output::say!("{}", shell.welcome());
    loop {
        let flow = match editor.readline(&shell.prompt()) {
            Ok(line) => shell.feed(line.as_bytes()),
            Err(ReadlineError::Interrupted) => {
                shell.interrupt();
                Flow::Continue
            }
            Err(ReadlineError::Eof) => Flow::Quit,
            Err(error) => return Err(error),
        };
        print(&mut shell, colour);
        if flow == Flow::Quit {
            break;
        }
    }
    shell.finish();
    print(&mut shell, colour);
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        output::tell!("the history could not be saved in {}: {error}", path.display());
    }
    Ok(())
}

fn print(shell: &mut Shell, colour: bool) {
    for output in shell.take_output() {
        let code = match output.kind {
            Kind::Answer => "",
            Kind::Error => "\x1b[31m",
            Kind::Waiting => "\x1b[33m",
            Kind::Granted => "\x1b[32m",
        };
        if colour && !code.is_empty() {
            output::say!("{code}{}\x1b[0m", escaped(&output.text));
        } else {
            output::say!("{}", escaped(&output.text));
        }
    }
}

/// Completes and hints while a line is typed.
struct Assistant {
    colour: bool,
}

/// The statement that is being typed, from where it begins: behind the last `;` and the session's number.
fn statement_begin(before: &str) -> usize {
    let statement = before.rfind(';').map_or(0, |at| at + 1);
    let text = &before[statement..];
    let begin = before.len() - text.trim_start().len();
    match syntax::session_prefix(&before.as_bytes()[begin..]) {
        Some((_, rest)) => before.len() - rest.trim_ascii_start().len(),
        None => begin,
    }
}

/// The names that the word under the cursor can become, and where it begins.
fn completions(before: &str) -> (usize, Vec<String>) {
    let begin = statement_begin(before);
    let statement = &before[begin..];
    let upper = |name: &&str| name.to_ascii_uppercase();
    let (at, typed, mut names) = match statement.split_once(char::is_whitespace) {
        None => (begin, statement, catalog::names().iter().map(upper).collect::<Vec<_>>()),
        Some((first, rest)) if first.eq_ignore_ascii_case("HELP") => {
            let mut names: Vec<String> = catalog::names().iter().map(upper).collect();
            names.extend(builtin_types().iter().map(|kind| kind.name.to_owned()));
            let rest = rest.trim_start();
            (before.len() - rest.len(), rest, names)
        }
        Some(_) => return (before.len(), Vec::new()),
    };
    if let Some(kind) = typed.split_once('.').and_then(|(kind, _)| catalog::type_named(kind)) {
        names.extend(kind.methods.iter().map(|method| format!("{}.{}", kind.name, method.name)));
    }
    let begins = |name: &String| {
        name.len() >= typed.len() && name.as_bytes()[..typed.len()].eq_ignore_ascii_case(typed.as_bytes())
    };
    names.retain(begins);
    (at, names)
}

/// The arguments of the operation that has just been named.
fn hint(line: &str) -> Option<String> {
    let statement = &line[statement_begin(line)..];
    let name = statement.strip_suffix(' ').filter(|name| !name.contains(' '))?;
    if let Some(own) = catalog::OWN.iter().find(|own| own.name.eq_ignore_ascii_case(name)) {
        return Some(own.arguments.to_owned());
    }
    let usage = catalog::resolve(name, &[]).ok()?.usage();
    usage.split_once(' ').map(|(_, arguments)| arguments.to_owned())
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (at, names) = completions(&line[..position]);
        let pair = |name: String| Pair { replacement: format!("{name} "), display: name };
        Ok((at, names.into_iter().map(pair).collect()))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        (position == line.len()).then(|| hint(line)).flatten()
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.colour { Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")) } else { Cow::Borrowed(hint) }
    }
}

impl Validator for Assistant {}

impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_where_a_name_can_stand() {
        assert_eq!(completions("sad"), (0, vec!["SADD".into(), "SADD.RETURNING".into()]));
        assert_eq!(completions("BEGIN; 2: scar"), (10, vec!["SCARD".into()]));
        assert_eq!(completions("help scored"), (5, vec!["scored-set".into()]));
        assert_eq!(completions("counter.g"), (0, vec!["counter.GET".into()]));
        assert_eq!(completions("SADD s"), (6, vec![]));
    }

    #[test]
    fn arguments_are_hinted_behind_a_name() {
        assert_eq!(hint("sadd "), Some("key member [member ...]".into()));
        assert_eq!(hint("2: SESSION "), Some("n".into()));
        assert_eq!(hint("sadd"), None);
        assert_eq!(hint("sadd k "), None);
        assert_eq!(hint("nothing "), None);
    }
}
