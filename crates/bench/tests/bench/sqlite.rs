//! The mode `sqlite`: every workload verifies itself on a database file, and a loss is found.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use claret_bench::workload::{WorkloadSpec, fair, hot, rawmix, retwis, rubis};
use claret_bench::{Bench, BenchMode, Check, Looking, Observer, Pace, Place, Plan};

/// A folder that goes when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("claret-bench-sqlite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // It is in the folder for such things.
    }
}

/// 0.2 s, in two slices, 8 clients on 2 threads.
fn plan(folder: &Folder, workload: WorkloadSpec, pace: Pace) -> Plan {
    Plan {
        place: Place::Folder(folder.0.clone()),
        workload,
        modes: BenchMode::parse_list("sqlite").expect("there is such a mode"),
        shards: 8,
        clients: 8,
        threads: 2,
        processes: 1,
        pace,
        looking: Looking::AtAnswers,
        time: Duration::from_millis(200),
        slice: Duration::from_millis(100),
        seed: 1,
    }
}

fn hot() -> WorkloadSpec {
    WorkloadSpec::Hot(hot::Options { counters: 100, ..Default::default() })
}

struct Nobody;

impl Observer for Nobody {}

/// How many transactions were committed, and what was found. `before_check` comes after the run.
fn run(plan: Plan, before_check: impl FnOnce()) -> (u64, Check) {
    let mut bench = Bench::new(plan, Arc::default()).expect("it can be run");
    bench.load(&mut Nobody).expect("loaded");
    bench.run(&mut Nobody).expect("nothing is answered that must not be");
    let committed = bench.summaries()[0].figures.committed;
    before_check();
    let check = bench.check().remove(0);
    bench.clean().expect("it is removed");
    (committed, check)
}

#[test]
fn every_workload_verifies() {
    let folder = Folder::new("every");
    let workloads = [
        WorkloadSpec::RawMix(rawmix::Options { keys: 100, ..Default::default() }),
        hot(),
        WorkloadSpec::Fair(fair::Options { counters: 100, ..Default::default() }),
        WorkloadSpec::Rubis(rubis::Options { items: 300, users: 200, ..Default::default() }),
        WorkloadSpec::Retwis(retwis::Options { scale: 6, ..Default::default() }),
    ];
    for workload in workloads {
        for pace in [Pace::Together, Pace::Pause(Duration::from_millis(1)), Pace::Interactive(Duration::ZERO)]
        {
            let (committed, check) = run(plan(&folder, workload.clone(), pace), || {});
            assert!(committed > 0 && check.passed, "{}: {check:?}", workload.name());
        }
    }
}

#[test]
fn a_loss_is_found() {
    let folder = Folder::new("loss");
    let file = folder.0.join("sqlite").join("bench.sqlite");
    let take_one = || {
        let db = rusqlite::Connection::open(file).expect("it is there");
        let changed =
            db.execute("UPDATE counters SET value = value - 1 WHERE key = CAST('hot:total' AS BLOB)", []);
        assert_eq!(changed, Ok(1));
    };
    let (_, check) = run(plan(&folder, hot(), Pace::Together), take_one);
    assert!(!check.passed && check.violations.len() == 1, "{check:?}");
}
