//! The threads that run the clients of one mode, each with its own runtime.
//!
//! They live as long as the mode, not only for a slice: connections belong to the runtime that made them and need it between
//! slices, too. A runtime of several threads would halve the gain of running many clients on one connection or store: its
//! hops between threads cost more than they give.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the threads' runtimes can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Timers.
    Process,
    /// Timers and sockets.
    Network,
}

struct Worker {
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// The threads of one mode. They end when this is dropped.
pub(super) struct ClientThreads {
    reach: Reach,
    workers: Vec<Worker>,
}

impl ClientThreads {
    pub(super) fn new(threads: usize, reach: Reach) -> Self {
        ClientThreads { reach, workers: (0..threads).map(|_| Worker::new(reach)).collect() }
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    /// Runs a future on the first thread.
    pub(super) fn run<T: Send + 'static>(&mut self, work: impl Future<Output = T> + Send + 'static) -> T {
        let answer = self.workers[0].begin(work);
        self.workers[0].wait(&answer)
    }

    /// Runs futures, one on each thread.
    pub(super) fn run_all<T, F>(&mut self, work: impl IntoIterator<Item = F>) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let answers: Vec<_> =
            self.workers.iter().zip(work).map(|(worker, work)| worker.begin(work)).collect();
        self.workers.iter_mut().zip(answers).map(|(worker, answer)| worker.wait(&answer)).collect()
    }
}

impl Worker {
    fn new(reach: Reach) -> Self {
        let (jobs, mut orders) = unbounded_channel::<Job>();
        let work = move || {
            let mut builder = Builder::new_current_thread();
            match reach {
                Reach::Process => builder.enable_time(),
                Reach::Network => builder.enable_all(),
            };
            let runtime = builder.build().expect("the system has room for a timer and a poll");
            runtime.block_on(async {
                while let Some(job) = orders.recv().await {
                    job.await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("clients".into()).spawn(work);
        Worker { jobs: Some(jobs), thread: Some(thread.expect("the system has room for a thread")) }
    }

    fn begin<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> mpsc::Receiver<T> {
        let (answers, answer) = mpsc::sync_channel(1);
        let job = async move {
            // Whoever asked for it waits for it.
            let _ = answers.send(work.await);
        };
        let jobs = self.jobs.as_ref().expect("it is there until it is dropped");
        // A thread that has ended says why when its answer is waited for.
        let _ = jobs.send(Box::pin(job));
        answer
    }

    fn wait<T>(&mut self, answer: &mpsc::Receiver<T>) -> T {
        answer.recv().unwrap_or_else(|_| {
            let thread = self.thread.take().expect("it ends once");
            resume_unwind(thread.join().expect_err("it ends before it has answered only by a panic"))
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic was told to whoever waited.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_on_every_thread_and_panics_are_passed_on() {
        let mut clients = ClientThreads::new(3, Reach::Process);
        let mut threads = clients.run_all((0..3).map(|_| async { std::thread::current().id() }));
        threads.dedup();
        assert_eq!(threads.len(), 3);
        assert_eq!(clients.run(async { std::thread::current().id() }), threads[0]);
        let panics = std::panic::AssertUnwindSafe(|| clients.run(async { panic!("as planned") }));
        let panic = std::panic::catch_unwind(panics).expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"as planned"));
    }
}
