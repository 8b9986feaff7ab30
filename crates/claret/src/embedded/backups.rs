//! Backups of a store whose transactions go on: a thread copies the files, and the future only waits for it (D14).

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use claret_log::{Folder, LogError, back_up, back_up_folder, create_folder};
use claret_planted::{Bug, is_planted};
use parking_lot::Mutex;

use super::durable::{Durable, Shared};
use crate::durability::BackupError;

/// A backup that is made. Dropped before it is whole, it is given up, and what was copied is removed.
struct Backup {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ended: Option<Result<(), BackupError>>,
    waker: Option<Waker>,
    is_unwanted: bool,
}

impl Future for Backup {
    type Output = Result<(), BackupError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.lock();
        match state.ended.take() {
            Some(ended) => Poll::Ready(ended),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.state.lock().is_unwanted = true;
    }
}

/// Begins a backup of the store at `own` into a folder.
pub(super) fn start(
    log: &Durable,
    own: &Path,
    folder: &Path,
) -> impl Future<Output = Result<(), BackupError>> + Send + use<> {
    let state = Arc::<Mutex<State>>::default();
    let making = Making {
        shared: Arc::clone(log.shared()),
        own: own.to_owned(),
        folder: folder.to_owned(),
        state: Arc::clone(&state),
    };
    match thread::Builder::new().name("claret-backup".into()).spawn(move || making.run()) {
        Ok(thread) => log.has_thread(thread),
        Err(source) => {
            let error = BackupError::Io { doing: "start", path: "a thread".into(), source };
            state.lock().ended = Some(Err(error));
        }
    }
    Backup { state }
}

/// The thread's part.
struct Making {
    shared: Arc<Shared>,
    own: PathBuf,
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Making {
    fn run(self) {
        let made = catch_unwind(AssertUnwindSafe(|| self.make()));
        let made = made.unwrap_or_else(|_| {
            Err(BackupError::Log(LogError::Stopped("making a backup panicked".to_owned())))
        });
        let mut state = self.state.lock();
        state.ended = Some(made);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn make(&self) -> Result<(), BackupError> {
        into_new(&self.own, &self.folder, || self.copy())
    }

    fn copy(&self) -> Result<(), BackupError> {
        // No snapshot is made meanwhile, and no file goes that is copied.
        let _files = self.shared.files.lock();
        let position = if is_planted(Bug::BackupEndsWhereSynced) {
            self.shared.synced_position()
        } else {
            self.shared.position()
        };
        if self.shared.is_closing() || !self.shared.wait_until_synced(position) {
            return Err(self.ended());
        }
        let mut goes_on = || !self.shared.is_closing() && !self.state.lock().is_unwanted;
        let (mut from, mut to) = (Folder::new(&self.own), Folder::new(&self.folder));
        back_up(&mut from, &mut to, position, &mut goes_on).map_err(|error| match error {
            LogError::Stopped(_) => self.ended(),
            error => BackupError::Log(error),
        })
    }

    /// The store, or its log, has ended.
    fn ended(&self) -> BackupError {
        BackupError::Store(self.shared.why_ended())
    }
}

/// Copies a store whoever has it open.
pub(crate) fn of_folder(own: &Path, folder: &Path) -> Result<(), BackupError> {
    into_new(own, folder, || {
        let copied = back_up_folder(own, &mut Folder::new(folder), &mut || true).map_err(BackupError::Log)?;
        match copied {
            Some(_) => Ok(()),
            None => Err(BackupError::NoStore { path: own.to_owned() }),
        }
    })
}

/// Makes the folder, and a backup in it.
fn into_new(
    own: &Path,
    folder: &Path,
    copy: impl FnOnce() -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let is_new = !folder.exists();
    check(own, folder)?;
    create_folder(folder).map_err(io("create", folder))?;
    let made = copy();
    if made.is_err() && is_new {
        let _ = fs::remove_dir(folder); // Nothing is in it, unless that could not be removed.
    }
    made
}

/// Whether a folder can take a backup of the store in another.
fn check(own: &Path, folder: &Path) -> Result<(), BackupError> {
    let own = own.canonicalize().map_err(io("find", own))?;
    // What is there of its path; the rest is made.
    let there = std::path::absolute(folder).map_err(io("find", folder))?;
    let there = there.ancestors().find_map(|it| it.canonicalize().ok());
    let path = || folder.to_owned();
    if there.is_some_and(|there| there.starts_with(&own)) {
        return Err(BackupError::OwnFolder { path: path() });
    }
    match fs::read_dir(folder).map(|mut names| names.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(BackupError::NotEmpty { path: path() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io("list", folder)(error)),
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { doing, path, source }
}
