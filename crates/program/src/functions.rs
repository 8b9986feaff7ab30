//! Libraries of functions, as `FUNCTION LOAD` takes them.

use std::fmt;
use std::sync::Arc;

use crate::code::Unit;
use crate::compile::{self, CompileError};
use crate::run::{Limits, Pause, Run};
use crate::shebang::{self, ScriptFlags};

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// What it says of itself.
    pub flags: ScriptFlags,
}

/// A library, whose text ran once and registered its functions.
#[derive(Clone, Debug)]
pub struct Library {
    pub(crate) unit: Arc<Unit>,
    name: String,
    functions: Vec<Function>,
}

/// Why a text is no library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// It does not compile.
    Compile(CompileError),
    /// Its first line, or what it registers, is wrong.
    Refused(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Compile(error) => error.fmt(formatter),
            LoadError::Refused(message) => formatter.write_str(message),
        }
    }
}

impl std::error::Error for LoadError {}

impl Library {
    /// Compiles a library and runs its text, which registers functions and calls no commands.
    ///
    /// # Errors
    ///
    /// It has no name, does not compile, fails, or registers nothing.
    pub fn load(text: &[u8], limits: &Limits) -> Result<Library, LoadError> {
        let refused = |message: &str| LoadError::Refused(message.into());
        if !text.starts_with(b"#!") {
            return Err(refused("Missing library metadata"));
        }
        let (shebang, body) = shebang::split(text).map_err(LoadError::Refused)?;
        let name = shebang.name.ok_or_else(|| refused("Library name was not given"))?;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_word) {
            let wrong = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
            return Err(refused(wrong));
        }
        let mut unit = compile::unit(body).map_err(LoadError::Compile)?;
        unit.is_library = true;
        let unit = Arc::new(unit);
        let mut run = Run::loading(Arc::clone(&unit), *limits);
        match run.resume(limits.steps) {
            Pause::Done(_) => {}
            Pause::Failed(failure) => return Err(LoadError::Refused(failure.message)),
            Pause::Call(_) => return Err(refused("a library's text calls no commands")),
            Pause::Rested => return Err(refused("a library's text took too many steps")),
        }
        let functions: Vec<Function> = run
            .registered()
            .iter()
            .map(|function| Function {
                name: function.name.clone(),
                description: function.description.clone(),
                flags: function.flags,
            })
            .collect();
        if functions.is_empty() {
            return Err(refused("No functions registered"));
        }
        Ok(Library { unit, name, functions })
    }

    /// How many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Library>() + self.unit.bytes()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its functions, in the order in which they were registered.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}
