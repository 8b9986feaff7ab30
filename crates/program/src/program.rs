//! A script, compiled and verified.

use std::sync::Arc;

use crate::calls::{Calls, Given};
use crate::code::Unit;
use crate::compile::{self, CompileError};
use crate::shebang::{self, ScriptFlags};

/// A verified program. It is the same for all runs, which share it.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) unit: Arc<Unit>,
    flags: ScriptFlags,
    calls: Option<Arc<Calls>>,
}

impl Program {
    /// Compiles a script of at most 1 MiB. The text need not be UTF-8.
    ///
    /// # Errors
    ///
    /// It is no Lua 5.1, it uses what no program has, or it nests too deep.
    pub fn compile(text: &[u8]) -> Result<Program, CompileError> {
        let (shebang, body) =
            shebang::split(text).map_err(|message| CompileError { line: 1, column: 1, message })?;
        let (unit, calls) = compile::with_calls(body)?;
        Ok(Program { unit: Arc::new(unit), flags: shebang.flags, calls: calls.map(Arc::new) })
    }

    /// How many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Program>() + self.unit.bytes()
    }

    /// What each `redis.call` of the text is given, in no order that counts; `None`: it may have others.
    #[must_use]
    pub fn calls(&self) -> Option<&[Box<[Given]>]> {
        self.calls.as_ref().map(|calls| &calls[..])
    }

    /// What the script says of itself.
    #[must_use]
    pub fn flags(&self) -> &ScriptFlags {
        &self.flags
    }
}
