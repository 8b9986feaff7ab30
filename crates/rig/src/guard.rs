//! A process that outlives this one by a moment: when this one ends, however it does, a pipe ends, and the guard
//! kills the server and removes its temporary directory. It is there before the server is.

use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::RigError;

const WAIT_AND_KILL: &str = r#"read -r pid; read -r _; [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; [ -z "$1" ] || { sleep 0.1; rm -rf -- "$1"; }"#;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Waits for a server to watch over.
    pub(crate) fn begin(temporary: Option<&Path>) -> Result<Self, RigError> {
        let child = Command::new("sh")
            .args(["-c", WAIT_AND_KILL, "guard"])
            .arg(temporary.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for this process, not for the guard.
            .process_group(0)
            .spawn();
        child.map(Guard).map_err(|error| RigError::Io { what: "running sh".into(), error })
    }

    /// Watches over this server from now on.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<(), RigError> {
        let told = self.0.stdin.as_mut().map_or(Ok(()), |pipe| writeln!(pipe, "{pid}"));
        told.map_err(|error| RigError::Io { what: "telling sh of a server".into(), error })
    }
}

impl Drop for Guard {
    /// Not needed any more. Killed before its pipe ends.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
