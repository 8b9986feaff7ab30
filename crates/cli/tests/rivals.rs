//! The benchmark on real servers: every workload in Claret's mode and in all rivals', checked at the end, with
//! nothing left behind.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use claret_bench::workload::{Choice, fair, hot, rawmix, retwis, rubis};
use claret_bench::{Bench, BenchMode, Given, Pace, Place, Plan, Servers};
use claret_cli::commands::bench::run_plan;
use claret_rig::{Cluster, Module, Server};
use indicatif::ProgressBar;
use serde_json::Value;

/// Shared by the tests of this program; a guard ends them with it.
fn servers() -> &'static (Cluster, Server) {
    static SERVERS: OnceLock<(Cluster, Server)> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let module = Module::of_sources().expect("the module");
        let cluster = Cluster::options(3, 0).module(module).start().expect("a cluster");
        (cluster, Server::start().expect("a server"))
    })
}

fn rawmix() -> Choice {
    Choice::RawMix(rawmix::Options { keys: 100, ..Default::default() })
}

fn hot() -> Choice {
    Choice::Hot(hot::Options { counters: 100, ..Default::default() })
}

fn fair() -> Choice {
    Choice::Fair(fair::Options { counters: 100, ..Default::default() })
}

fn rubis() -> Choice {
    Choice::Rubis(rubis::Options { items: 300, users: 200, ..Default::default() })
}

fn retwis() -> Choice {
    Choice::Retwis(retwis::Options { scale: 5, ..Default::default() })
}

fn plan(choice: Choice, modes: &str, pace: Pace) -> Plan {
    let (cluster, server) = servers();
    let modes = BenchMode::parse_cluster_list(modes).expect("there are such modes");
    let (given, single) = (Given::Url(cluster.url()), Some(server.url()));
    let servers = Servers::new(choice.clone(), &given, single, &modes, None).expect("they run");
    Plan {
        place: Place::Servers(Box::new(servers)),
        workload: choice.make(""),
        by_hand: None,
        modes,
        shards: 0,
        clients: 8,
        threads: 2,
        pace,
        time: Duration::from_millis(300),
        slice: Duration::from_millis(150),
        seed: 1,
    }
}

fn run(plan: Plan, before_check: &mut dyn FnMut(&Bench)) -> (ExitCode, Vec<Value>) {
    let mut out = Vec::new();
    let stop = Arc::new(AtomicBool::new(false));
    let code = run_plan(plan, true, &ProgressBar::hidden(), &stop, &mut out, before_check);
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    (code, text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect())
}

/// Every mode commits something and passes its check; the rivals of one server say so.
fn assert_measured(plan: Plan) {
    let name = plan.workload.name();
    let modes = plan.modes.len();
    let (code, lines) = run(plan, &mut |_| {});
    assert_eq!(code, ExitCode::SUCCESS, "{name}: {lines:?}");
    let summaries: Vec<_> = lines.iter().filter(|line| line["type"] == "summary").collect();
    assert_eq!(summaries.len(), modes);
    for summary in summaries {
        assert!(summary["committed"].as_u64() > Some(0), "{summary}");
        let is_single =
            ["redis-watch", "redis-multi", "redis-lua"].iter().any(|mode| summary["mode"] == *mode);
        assert_eq!(
            (&summary["store"], &summary["shards"]),
            (&"redis".into(), &(if is_single { 1 } else { 3 }).into())
        );
    }
}

fn keys(server: &Server) -> Vec<String> {
    server.query(&["KEYS", "*"]).expect("it answers")
}

#[test]
fn all_workloads_run_against_all_rivals_and_verify() {
    let (cluster, server) = servers();
    let own = cluster.key_at(1, "somebody's");
    cluster.query::<()>(1, &["SET", &own, "kept"]).expect("written");
    for choice in [rawmix, hot, fair, rubis, retwis] {
        let modes = "none,redis-lock,redis-watch,redis-multi,redis-lua,claret";
        assert_measured(plan(choice(), modes, Pace::Together));
        for pace in [Pace::Interactive(Duration::ZERO), Pace::Pause(Duration::from_millis(1))] {
            assert_measured(plan(choice(), "none,redis-lock,redis-watch,claret", pace));
        }
    }
    // Others may be at work on these servers, in the other test of this program; it has `hot` alone.
    let is_left = |key: &String| !key.contains("hot:") && *key != own;
    for server in cluster.servers().iter().chain([server]) {
        let left: Vec<_> = keys(server).into_iter().filter(is_left).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(cluster.query::<String>(1, &["GET", &own]).expect("read"), "kept");
}

/// Somebody takes one increment away from each mode after the run: each is named, and the run fails.
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
    let (code, lines) = run(plan, &mut take_one);
    assert_eq!(code, ExitCode::FAILURE);
    let check = lines.last().expect("there are lines");
    let failed = check["modes"].as_array().expect("modes").iter().filter(|mode| mode["passed"] == false);
    assert_eq!(failed.count(), 6, "{check}");
}
