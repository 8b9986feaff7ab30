//! A clock of a server that can be made to jump: the library of the crate `claret-clock` beneath it, and the file that this reads.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::RigError;
use crate::library::Library;

const LIBRARY: Library =
    Library { package: "claret-clock", file: "libclaret_clock.so", variable: "CLARET_CLOCK" };

/// In a server's folder.
const FILE: &str = "clock";

/// What makes clocks jump. On Linux alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShiftedClock {
    library: PathBuf,
}

impl ShiftedClock {
    /// The library in `CLARET_CLOCK`; else the one beside this program; else one that was built in this checkout, and it is built
    /// if there is none.
    ///
    /// # Errors
    /// There is none, and how to get it; or this system is not Linux.
    pub fn find() -> Result<Self, RigError> {
        if !cfg!(target_os = "linux") {
            return Err(RigError::NoLibrary("clocks can be shifted on Linux alone".to_owned()));
        }
        LIBRARY.find().map(|library| ShiftedClock { library })
    }

    /// Has a program that is started, in this folder, use it.
    pub(crate) fn beneath(&self, command: &mut Command, folder: &Path) -> Result<(), RigError> {
        let file = folder.join(FILE);
        if !file.exists() {
            shift(folder, Duration::ZERO, false)?;
        }
        command.env("LD_PRELOAD", &self.library).env("CLARET_CLOCK_FILE", file);
        Ok(())
    }
}

/// Shifts the clock of the server in this folder, from now on and over its next starts.
pub(crate) fn shift(folder: &Path, by: Duration, is_back: bool) -> Result<(), RigError> {
    let file = folder.join(FILE);
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    let micros = if is_back { -micros } else { micros };
    // In place: the server has mapped it.
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&file);
    let written = opened.and_then(|file| file.write_all_at(&micros.to_le_bytes(), 0));
    written.map_err(|error| RigError::io("writing", &file, error))
}
