//! From the text of a script to its functions.

mod assignment;
mod call;
mod condition;
mod expression;
mod loops;
mod scope;
mod state;
mod statement;
mod table;

use std::fmt;
use std::thread;

use full_moon::LuaVersion;

use crate::calls::{self, Calls};
use crate::code::Unit;
use crate::{text, verify};

use state::Compiler;

/// What reading takes of the stack grows with the nesting of a text, which is bounded: this is enough for the deepest.
const STACK_BYTES: usize = 64 << 20;

/// Why a text is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for CompileError {}

/// Reads, compiles, and verifies a text, on a thread of its own.
///
/// # Errors
///
/// It is no program, or needs more than a program may.
pub(crate) fn unit(text: &[u8]) -> Result<Unit, CompileError> {
    with_calls(text).map(|(unit, _)| unit)
}

/// The same, and what its commands are given.
pub(crate) fn with_calls(text: &[u8]) -> Result<(Unit, Option<Calls>), CompileError> {
    text::check(text)?;
    let failed = |message: &str| CompileError { line: 1, column: 1, message: message.into() };
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("compile".into()).stack_size(STACK_BYTES);
        let started =
            reader.spawn_scoped(scope, || read(text)).map_err(|_| failed("no thread to compile it on"))?;
        // A panic of the reader is no end of the host.
        started.join().map_err(|_| failed("it could not be read"))?
    })
}

fn read(text: &[u8]) -> Result<(Unit, Option<Calls>), CompileError> {
    let characters = text::characters(text);
    let result = full_moon::parse_fallible(&characters, LuaVersion::lua51());
    if let Some(error) = result.errors().first() {
        let (start, _) = error.range();
        return Err(CompileError {
            line: start.line().max(1) as u32,
            column: start.character().max(1) as u32,
            message: error.error_message().to_string(),
        });
    }
    let calls = calls::calls(result.ast());
    let mut compiler = Compiler::default();
    compiler.script(result.ast().nodes())?;
    let unit = compiler.unit;
    verify::verify(&unit).map_err(|wrong| CompileError { line: 1, column: 1, message: wrong })?;
    Ok((unit, calls))
}
