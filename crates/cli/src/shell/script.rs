//! Lines from a file, a pipe or the command line: the same language without prompt and colours.
//!
//! Every line is carried out and its output printed before the next is read. With `echo` each line is printed
//! first, behind `> `, so that the output is a transcript.

use std::io::{self, BufRead, Write};

use super::{Flow, Kind, Shell};

/// How to run a script.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Print each line before what comes of it.
    pub(crate) echo: bool,
    /// Stop after the first line that fails.
    pub(crate) strict: bool,
}

/// Runs a script and returns whether all of it succeeded. A transaction that is open at the end is aborted, and
/// counts as a failure.
///
/// # Errors
/// When reading or writing fails.
pub(crate) fn run(
    mut shell: Shell,
    mut lines: impl BufRead,
    mut out: impl Write,
    options: Options,
) -> io::Result<bool> {
    let mut succeeded = true;
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.trim_ascii_end();
        if options.echo && !text.is_empty() {
            out.write_all(b"> ")?;
            out.write_all(text)?;
            out.write_all(b"\n")?;
        }
        let flow = shell.feed(text);
        succeeded &= print(&mut shell, &mut out)?;
        if flow == Flow::Quit || (options.strict && !succeeded) {
            break;
        }
    }
    shell.finish();
    succeeded &= print(&mut shell, &mut out)?;
    Ok(succeeded)
}

/// Prints what there is; returns whether there was no error among it.
fn print(shell: &mut Shell, out: &mut impl Write) -> io::Result<bool> {
    let mut succeeded = true;
    for output in shell.take_output() {
        writeln!(out, "{}", output.text)?;
        succeeded &= output.kind != Kind::Error;
    }
    out.flush()?;
    Ok(succeeded)
}
