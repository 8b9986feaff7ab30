//! A process that outlives this one by a moment: when this one ends, however it does, a pipe ends, and the guard
//! kills the server and removes its temporary directory.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::RigError;

const WAIT_AND_KILL: &str =
    r#"read -r _; kill -9 "$1" 2>/dev/null; [ -z "$2" ] || { sleep 0.1; rm -rf -- "$2"; }"#;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Watches over a server.
    pub(crate) fn over(pid: u32, temporary: Option<&Path>) -> Result<Self, RigError> {
        let child = Command::new("sh")
            .args(["-c", WAIT_AND_KILL, "guard", &pid.to_string()])
            .arg(temporary.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for this process, not for the guard.
            .process_group(0)
            .spawn();
        child.map(Guard).map_err(|error| RigError::Io { what: "running sh".into(), error })
    }
}

impl Drop for Guard {
    /// Not needed any more. Killed before its pipe ends.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
