//! A thread with a runtime for the connections of a blocking store.

use std::future::Future;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::{ClusterBuilder, ConnectError};
use crate::store::Store;

/// For what is written last.
const LAST_WORDS: Duration = Duration::from_millis(5);

/// See the module's text. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    runtime: Handle,
    /// Dropped, it lets the thread end.
    ends: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(crate) fn connect(builder: ClusterBuilder) -> Result<(Store, Self), ConnectError> {
        let (tell, told) = mpsc::sync_channel(1);
        let (ends, ended) = oneshot::channel::<()>();
        let run = move || {
            let runtime =
                Builder::new_current_thread().enable_all().build().expect("a runtime for one thread");
            runtime.block_on(async {
                let connected = builder.connect().await;
                let is_connected = connected.is_ok();
                let handle = Handle::current();
                if tell.send(connected.map(|store| (store, handle))).is_ok() && is_connected {
                    // Both ways of hearing of the end are one.
                    let _ = ended.await;
                    // The last handle of the store is gone: what it said last is still to be written.
                    tokio::time::sleep(LAST_WORDS).await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("claret".into()).spawn(run);
        let thread = thread.expect("the system gives a thread");
        let (store, runtime) = told.recv().expect("the thread tells before it ends")?;
        Ok((store, Driver { runtime, ends: Some(ends), thread: Some(thread) }))
    }

    /// Waits for a future that needs the runtime.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.runtime.enter();
        pollster::block_on(future)
    }
}

impl Drop for Driver {
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
