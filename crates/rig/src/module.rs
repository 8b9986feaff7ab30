//! The module that servers load.

use std::path::{Path, PathBuf};

use crate::RigError;
use crate::library::{Library, file_at};

const LIBRARY: Library =
    Library { package: "claret-module", file: "libclaret_module.so", variable: "CLARET_MODULE" };

/// The module, and what is said to it when it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its file.
    pub path: PathBuf,
    /// Arguments behind it, if any.
    pub args: Vec<String>,
}

impl Module {
    /// The module in this file.
    ///
    /// # Errors
    /// There is no such file.
    pub fn at(path: &Path) -> Result<Self, RigError> {
        file_at(path).map(Module::of)
    }

    fn of(path: PathBuf) -> Self {
        Module { path, args: Vec::new() }
    }

    /// The module in `CLARET_MODULE`; else the one beside this program; else one that was built in this checkout,
    /// and it is built if there is none.
    ///
    /// # Errors
    /// There is none, and how to get it.
    pub fn find() -> Result<Self, RigError> {
        LIBRARY.find().map(Module::of)
    }

    /// The module in `CLARET_MODULE`, else the one of this checkout as its sources are now. For tests, that would
    /// otherwise run what was built once.
    ///
    /// # Errors
    /// It does not compile, or this is no checkout.
    pub fn of_sources() -> Result<Self, RigError> {
        LIBRARY.of_sources().map(Module::of)
    }

    /// With these arguments.
    #[must_use]
    pub fn with_args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|&arg| arg.to_owned()).collect();
        self
    }
}
