//! Finding the server program.

use std::env;
use std::path::{Path, PathBuf};

use crate::RigError;

/// The server program: the one in `CLARET_SERVER`, else `redis-server` of the `PATH`.
///
/// # Errors
/// There is none, and how to install one.
pub fn server_program() -> Result<PathBuf, RigError> {
    match env::var_os("CLARET_SERVER").filter(|named| !named.is_empty()) {
        Some(named) => runnable(Path::new(&named)).ok_or_else(|| {
            RigError::NoServer(format!("CLARET_SERVER names {}", Path::new(&named).display()))
        }),
        None => runnable(Path::new("redis-server")).ok_or_else(|| {
            let how =
                "install one (Debian, Ubuntu: apt-get install redis-server), or name one in CLARET_SERVER";
            RigError::NoServer(how.into())
        }),
    }
}

/// A program by its path, or by its name in the `PATH`. Links are not followed: one program goes by several names
/// (redis-check-rdb is redis-server) and looks at how it was called.
pub(crate) fn runnable(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}
