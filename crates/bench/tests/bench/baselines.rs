//! The benchmark on real servers: every workload in Claret's mode and in all baselines', checked at the end, with
//! nothing left behind.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use claret_bench::workload::{WorkloadSpec, checkout, fair, hot, objects, rawmix, retwis, rubis, tpcc};
use claret_bench::{Bench, BenchMode, Check, ClusterSource, Looking, Pace, Place, Plan, Servers, Summary};
use claret_rig::{Cluster, Module, Server};

/// Shared by the tests of this program; a guard ends them with it.
fn servers() -> &'static (Cluster, Server) {
    static SERVERS: OnceLock<(Cluster, Server)> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let module = Module::of_sources().expect("the module");
        let cluster = Cluster::options(3, 0).module(module).start().expect("a cluster");
        (cluster, Server::start().expect("a server"))
    })
}

fn rawmix() -> WorkloadSpec {
    WorkloadSpec::RawMix(rawmix::Options { keys: 100, ..Default::default() })
}

fn hot() -> WorkloadSpec {
    WorkloadSpec::Hot(hot::Options { counters: 100, ..Default::default() })
}

fn fair() -> WorkloadSpec {
    WorkloadSpec::Fair(fair::Options { counters: 100, ..Default::default() })
}

fn rubis() -> WorkloadSpec {
    WorkloadSpec::Rubis(rubis::Options { items: 300, users: 200, ..Default::default() })
}

fn retwis() -> WorkloadSpec {
    WorkloadSpec::Retwis(retwis::Options { scale: 5, ..Default::default() })
}

fn objects() -> WorkloadSpec {
    WorkloadSpec::Objects(objects::Options { keys: 100, alpha: 0.8, ..Default::default() })
}

fn checkout() -> WorkloadSpec {
    WorkloadSpec::Checkout(checkout::Options {
        products: 10,
        thinkers: 2,
        think: Duration::from_millis(20),
        reprices_percent: 10.0,
        ..Default::default()
    })
}

fn tpcc() -> WorkloadSpec {
    WorkloadSpec::Tpcc(tpcc::Options { warehouses: 2, scale: 0.001, ..Default::default() })
}

fn plan(choice: WorkloadSpec, modes: &str, pace: Pace) -> Plan {
    let (cluster, server) = servers();
    let modes = BenchMode::parse_list(modes).expect("there are such modes");
    let (source, single) = (ClusterSource::Url(cluster.url()), Some(server.url()));
    let servers = Servers::new(&source, single, &modes, None).expect("they run");
    Plan {
        place: Place::Servers(Box::new(servers)),
        workload: choice,
        modes,
        shards: 0,
        clients: 8,
        threads: 2,
        processes: 1,
        pace,
        looking: Looking::AtAnswers,
        time: Duration::from_millis(300),
        slice: Duration::from_millis(150),
        seed: 1,
    }
}

/// Runs it, checks it and takes its keys away. `before_check` sees the servers after the run.
fn run(plan: Plan, before_check: &mut dyn FnMut(&Bench)) -> (Vec<Summary>, Vec<Check>) {
    let mut bench = Bench::new(plan, Arc::default()).expect("the servers answer");
    bench.load(&mut ()).expect("loaded");
    bench.run(&mut ()).expect("nothing is answered that must not be");
    before_check(&bench);
    let found = (bench.summaries(), bench.check());
    bench.clean().expect("the servers answer");
    found
}

/// Every mode commits something and passes its check; the baselines of one server say so.
fn assert_measured(plan: Plan) {
    let name = plan.workload.name();
    let modes = plan.modes.len();
    let (summaries, checks) = run(plan, &mut |_| {});
    assert_eq!((summaries.len(), checks.len()), (modes, modes));
    assert!(checks.iter().all(|check| check.passed), "{name}: {checks:?}");
    for summary in summaries {
        assert!(summary.figures.committed > 0, "{summary:?}");
        let is_single = ["redis-watch", "redis-multi", "redis-lua"].contains(&summary.setting.mode);
        let shards = if is_single { 1 } else { 3 };
        assert_eq!((summary.setting.store, summary.setting.shards), ("redis", shards));
    }
}

fn keys(server: &Server) -> Vec<String> {
    server.query(&["KEYS", "*"]).expect("it answers")
}

#[test]
fn all_workloads_run_beside_all_baselines_and_verify() {
    let (cluster, server) = servers();
    let own = cluster.key_at(1, "somebody's");
    cluster.query::<()>(1, &["SET", &own, "kept"]).expect("written");
    for choice in [rawmix, hot, fair, rubis, retwis, objects] {
        let modes = "none,redis-lock,redis-watch,redis-multi,redis-lua,claret";
        assert_measured(plan(choice(), modes, Pace::Together));
        // Each process has a session of its own, and all use the same keys.
        assert_measured(Plan { processes: 2, ..plan(choice(), "none,redis-lock,claret", Pace::Together) });
        for pace in [Pace::Interactive(Duration::ZERO), Pace::Pause(Duration::from_millis(1))] {
            assert_measured(plan(choice(), "none,redis-lock,redis-watch,claret", pace));
        }
    }
    for choice in [rawmix, hot, fair, rubis, retwis, objects, checkout, tpcc] {
        for pace in [Pace::Together, Pace::Interactive(Duration::ZERO)] {
            assert_measured(plan(choice(), "claret,sinfonia", pace));
        }
    }
    let shop = plan(checkout(), "none,claret,optimistic", Pace::Together);
    assert_measured(shop);
    let shop = plan(checkout(), "optimistic", Pace::Together);
    assert_measured(Plan { looking: Looking::AtValues, ..shop });
    // It is rolled back, pops and turns, which a lock alone can do of the baselines.
    for pace in [Pace::Together, Pace::Interactive(Duration::ZERO), Pace::Pause(Duration::from_millis(1))] {
        assert_measured(plan(tpcc(), "none,redis-lock,claret", pace));
    }
    // Others may be at work on these servers, in the other test of this program; it has `hot` alone.
    let is_left = |key: &String| !key.contains("hot:") && *key != own;
    for server in cluster.servers().iter().chain([server]) {
        let left: Vec<_> = keys(server).into_iter().filter(is_left).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(cluster.query::<String>(1, &["GET", &own]).expect("read"), "kept");
}

/// Somebody takes one increment away from each mode after the run: each is named.
#[test]
fn a_loss_is_found_in_every_mode() {
    let (cluster, server) = servers();
    let modes = "none,redis-lock,redis-watch,redis-multi,redis-lua,claret";
    let plan = Plan { seed: 7, ..plan(hot(), modes, Pace::Together) };
    let mut take_one = |bench: &Bench| {
        let Place::Servers(servers) = &bench.plan().place else { panic!("on servers") };
        let totals: Vec<String> = (0..6).map(|mode| format!("{}hot:total", servers.prefix(mode))).collect();
        for server in cluster.servers().iter().chain([server]) {
            for key in keys(server).into_iter().filter(|key| totals.contains(key)) {
                server.query::<()>(&["INCRBY", &key, "-1"]).expect("a counter");
            }
        }
    };
    let (_, checks) = run(plan, &mut take_one);
    assert_eq!(checks.iter().filter(|check| !check.passed).count(), 6, "{checks:?}");
}
