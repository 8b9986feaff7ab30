//! A thread with a runtime for the connections of a blocking store.

use std::future::Future;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use claret_redis::ConnectError;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// For what is written last.
const LAST_WORDS: Duration = Duration::from_millis(5);

/// See the module's text. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RuntimeThread {
    /// Dropped, it lets the thread end.
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RuntimeThread {
    /// Starts the thread with something that needs the runtime, and lives on it from then on.
    pub(crate) fn start<T: Send + 'static>(
        opening: impl Future<Output = Result<T, ConnectError>> + Send + 'static,
    ) -> Result<(T, Self), ConnectError> {
        let (tell, told) = mpsc::sync_channel(1);
        let (ends, ended) = oneshot::channel::<()>();
        let run = move || {
            let runtime =
                Builder::new_current_thread().enable_all().build().expect("a runtime for one thread");
            runtime.block_on(async {
                let opened = opening.await;
                let is_open = opened.is_ok();
                if tell.send(opened).is_ok() && is_open {
                    // Both ways of hearing of the end are one.
                    let _ = ended.await;
                    // The last handle of the store is gone: what it said last is still to be written.
                    tokio::time::sleep(LAST_WORDS).await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("claret".into()).spawn(run);
        let thread = thread.expect("the system gives a thread");
        let opened = told.recv().expect("the thread tells before it ends")?;
        Ok((opened, RuntimeThread { ends: Some(ends), thread: Some(thread) }))
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        self.ends.take();
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            // Its panic was told where it arose.
            let _ = thread.join();
        }
    }
}
