//! A cluster that is there, and is somebody's: faults strike the clients alone. Others may break nodes meanwhile; where slots go
//! over to another node, that is seen and counted.

use std::time::Duration;

use claret_rig::{Node, connect_within, nodes, pause_process, resume_process};
use rand::RngExt;

use super::children::Process;
use super::plan::Durability;
use super::run::Run;
use super::waivers::Slots;

/// How long clients work between two faults, in milliseconds.
const BETWEEN_MS: (u64, u64) = (500, 2_500);

/// A node that does not say who is who within this is not waited for.
const LOOK_TIME: Duration = Duration::from_secs(2);

/// Strikes until the time is over.
///
/// # Errors
/// What is wrong, as a client says.
pub(super) fn strike(run: &mut Run<'_>) -> Result<(), String> {
    let mut processes = start(run)?;
    let mut primaries = primaries(run);
    let mut looked = run.clock.now();
    while !run.is_over() {
        run.rest(BETWEEN_MS, &mut processes)?;
        strike_clients(run, &mut processes)?;
        let now = self::primaries(run);
        if !now.is_empty() {
            let moved = moved(&primaries, &now);
            run.strikes.note_failovers(moved.len());
            if !moved.is_empty() && run.plan.durability == Durability::Async {
                run.waivers.note_hit((looked, run.clock.now()), moved);
            }
            (primaries, looked) = (now, run.clock.now());
        }
    }
    stop(processes)
}

/// Starts the processes with clients.
pub(super) fn start(run: &mut Run<'_>) -> Result<Vec<Process>, String> {
    let all: Vec<Process> = (0..run.plan.processes)
        .map(|_| run.launch().map(|(process, _)| process))
        .collect::<Result<_, _>>()?;
    all.iter().try_for_each(Process::wait_ready)?;
    Ok(all)
}

/// Ends them.
pub(super) fn stop(processes: Vec<Process>) -> Result<(), String> {
    let ended: Vec<Result<(), String>> = processes.into_iter().map(Process::stop).collect();
    ended.into_iter().collect()
}

/// Kills a process with clients, and starts another; or stops one for a while, also for longer than its lease.
pub(super) fn strike_clients(run: &mut Run<'_>, processes: &mut [Process]) -> Result<(), String> {
    let (at, began) = (run.below(processes.len()), run.clock.now());
    if run.below(2) == 0 {
        let life = replace(run, processes, at)?;
        run.note("client killed", began, format!("process {life} took its place"));
    } else {
        pause_process(processes[at].pid());
        let time = run.random.random_range(200..4_000);
        std::thread::sleep(Duration::from_millis(time));
        resume_process(processes[at].pid());
        run.note("client stopped", began, format!("for {time} ms"));
    }
    Ok(())
}

/// Kills a process with clients, and starts another; which that is.
pub(super) fn replace(run: &mut Run<'_>, processes: &mut [Process], at: usize) -> Result<u64, String> {
    let (new, life) = run.launch()?;
    std::mem::replace(&mut processes[at], new).kill();
    processes[at].wait_ready().map(|()| life)
}

type Primaries = Vec<(Slots, String)>;

/// Who serves what; nothing, if that is not to be had.
fn primaries(run: &Run<'_>) -> Primaries {
    let super::plan::TortureTarget::Url(url) = &run.plan.target else { return Vec::new() };
    let Ok(mut connection) = connect_within(url, LOOK_TIME) else { return Vec::new() };
    let served = |node: Node| node.slots.into_iter().map(move |slots| (slots, node.id.clone()));
    nodes(&mut connection).map_or_else(|_| Vec::new(), |all| all.into_iter().flat_map(served).collect())
}

/// The slots that another one serves than before.
fn moved(before: &Primaries, now: &Primaries) -> Vec<Slots> {
    let is_new = |it: &&(Slots, String)| !before.is_empty() && !before.contains(it);
    now.iter().filter(is_new).map(|(slots, _)| *slots).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_went_over_are_seen() {
        let before = vec![((0, 9), "a".to_owned()), ((10, 19), "b".to_owned())];
        let now = vec![((0, 9), "a".to_owned()), ((10, 19), "c".to_owned())];
        assert_eq!(moved(&before, &now), [(10, 19)]);
        assert!(moved(&Vec::new(), &now).is_empty());
        assert!(moved(&now, &now).is_empty());
    }
}
