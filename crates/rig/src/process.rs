//! Processes that this one may not be the parent of: a server left running is known by its pid file, its working
//! directory and its command line.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(10);

pub(crate) fn signal(pid: u32, signal: Signal) -> bool {
    Pid::from_raw(pid as i32).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Whether it was done.
#[cfg(target_os = "linux")]
pub(crate) fn limit_files(pid: u32, bytes_max: Option<u64>) -> bool {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit { current: bytes_max, maximum: None };
    Pid::from_raw(pid as i32).is_some_and(|pid| prlimit(Some(pid), Resource::Fsize, limit).is_ok())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn limit_files(_pid: u32, _bytes_max: Option<u64>) -> bool {
    false
}

/// Stops a process in its tracks (SIGSTOP). It must be a child of this one that was not waited for, so that the pid is its
/// own.
pub fn pause_process(pid: u32) {
    signal(pid, Signal::STOP);
}

/// Lets such a process go on.
pub fn resume_process(pid: u32) {
    signal(pid, Signal::CONT);
}

/// The pid of the server that runs in this directory: a process that works there and has the directory or its port in
/// its command line. The pid file tells where to look first, no more: it may be gone, or its pid may have gone to another
/// process.
pub fn runs_in(folder: &Path, port: u16) -> Option<u32> {
    let noted = fs::read_to_string(folder.join("redis.pid")).ok().and_then(|text| text.trim().parse().ok());
    if let Some(pid) = noted.filter(|&pid| is_server(pid, folder, port)) {
        return Some(pid);
    }
    let mut pids =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.find(|&pid| is_server(pid, folder, port))
}

fn is_server(pid: u32, folder: &Path, port: u16) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let process = Path::new("/proc").join(pid.to_string());
    // A process that ended and was not waited for has neither.
    let (Ok(works_in), Ok(line)) = (fs::read_link(process.join("cwd")), fs::read(process.join("cmdline")))
    else {
        return false;
    };
    let line = String::from_utf8_lossy(&line);
    works_in == folder && (line.contains(&format!(":{port}")) || line.contains(&*folder.to_string_lossy()))
}

/// Ends the server that runs in this directory, if one does: asked first, then killed. Whether one ran.
pub fn end(folder: &Path, port: u16) -> bool {
    let Some(pid) = runs_in(folder, port) else { return false };
    // One that was stopped hears nothing before it goes on.
    signal(pid, Signal::CONT);
    signal(pid, Signal::TERM);
    let began = Instant::now();
    while is_server(pid, folder, port) && began.elapsed() < 2 * GRACE {
        if began.elapsed() > GRACE {
            signal(pid, Signal::KILL);
        }
        sleep(LOOK);
    }
    true
}
