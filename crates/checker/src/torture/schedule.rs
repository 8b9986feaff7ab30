//! From beginning to end: faults strike while clients work; then everything is read and judged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use claret::Store;
use rand::RngExt;

use super::judge::judge_generation;
use super::plan::{StartTortured, TorturePlan, TortureTarget};
use super::records::CLIENTS_MAX;
use super::report::TortureReport;
use super::run::{Ends, Run};
use super::servers::Servers;
use super::worker::open;
use super::worker_log::WorkerLog;
use super::{final_read, folder, url};

/// Tortures a store. `say` hears how far it has come; `stop` ends the faults, and what happened until then is judged. The keys
/// of the run are deleted from a cluster that was there before.
///
/// # Errors
/// What keeps it from coming to a result: servers that do not start, a file that cannot be written, a clock that was set.
pub fn torture(
    plan: &TorturePlan,
    start: &StartTortured<'_>,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<TortureReport, String> {
    let prefix = format!("torture-{:08x}", rand::rng().random::<u32>());
    let folder = plan.out.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("claret-{prefix}")));
    let (mut servers, store) = match &plan.target {
        TortureTarget::Folder(folder) => (None, Ok(folder.clone())),
        TortureTarget::Url(url) => (None, Err(url.clone())),
        TortureTarget::Cluster { shards, replicas, server } => {
            say("starting the cluster");
            let servers = Servers::start(
                *shards,
                *replicas,
                server.as_deref(),
                (plan.durability, plan.has_files),
                say,
            )?;
            let url = servers.url();
            (Some(servers), Err(url))
        }
    };
    let worker_log = Arc::new(WorkerLog::new(&folder)?);
    let mut run = Run::new(plan, Ends { start, stop, say }, (prefix, store), worker_log);
    let ended = match (&plan.target, &mut servers) {
        (TortureTarget::Folder(path), _) => folder::strike(&mut run, path),
        (_, Some(servers)) => servers.strike(&mut run),
        (_, None) => url::strike(&mut run),
    };
    let mut report = TortureReport { seed: plan.seed, ..TortureReport::default() };
    if let Err(error) = ended {
        say(&format!("the faults are over: {error}"));
        report.anomalies.push(error);
    }
    finish(&mut run, &mut report)?;
    if let (TortureTarget::Url(url), true) = (&plan.target, report.is_well()) {
        claret_rig::delete_keys_everywhere(url, &format!("{}:*", run.prefix)).map_err(|it| it.to_string())?;
    }
    let is_kept = plan.out.is_some() || !report.is_well();
    if is_kept {
        run.worker_log.keep("report.json", &report)?;
        report.histories = Some(folder);
    } else {
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(report)
}

/// Reads and judges everything.
fn finish(run: &mut Run<'_>, report: &mut TortureReport) -> Result<(), String> {
    run.take_faults(report)?;
    let generations = run.worker_log.end()?;
    (run.say)(&format!("reading every key, and judging {} histories", generations.len()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    let reader = run.next_life();
    let store = match runtime.block_on(open(&reader)) {
        Ok(store) => store,
        Err(error) => {
            report.anomalies.push(error);
            return Ok(());
        }
    };
    let (mut contents, mut patience) = (BTreeMap::new(), final_read::PATIENCE);
    for generation in &generations {
        let (records, client) = (run.records(*generation), reader.life * CLIENTS_MAX);
        let read = final_read::read(&store, &records, run.clock, client, patience);
        match runtime.block_on(read) {
            Ok(read) => drop(contents.insert(*generation, read)),
            Err(error) => {
                report.anomalies.push(format!("generation {generation}: {error}"));
                // It was waited for once.
                patience = Duration::ZERO;
            }
        }
    }
    runtime.block_on(Store::close(store)).map_err(|error| error.to_string())?;
    run.clock.check()?;
    for (generation, contents) in &contents {
        run.worker_log.keep(&format!("read-{generation:04}.json"), &contents.entry)?;
        let entries = run.worker_log.read(*generation)?;
        let told = run.worker_log.told(*generation);
        run.worker_log.keep(&format!("told-{generation:04}.json"), &told)?;
        let records = run.records(*generation);
        let judged = judge_generation(entries, contents, &records, (&run.waivers, &told));
        report.take(*generation, contents.keys(), judged);
    }
    Ok(())
}
