//! `claret bench tpcc`: its own arguments, the memory it needs, and its figure.

use std::io::{self, Write};

use claret_bench::Summary;
use claret_bench::workload::tpcc::{Options, Placing};

use crate::commands::store_arg::StoreArg;
use crate::output;
use crate::table::grouped;

/// Arguments of the workload `tpcc`.
#[derive(Debug, clap::Args)]
pub(super) struct TpccArgs {
    /// tpcc: how many warehouses (default 1).
    #[arg(long)]
    warehouses: Option<u32>,
    /// tpcc: spread, keys are wherever they fall (default); or warehouse, all of a warehouse are on one shard.
    #[arg(long)]
    place: Option<String>,
    /// tpcc: leave the records there, for 'claret tpcc check'.
    #[arg(long)]
    keep: bool,
}

impl TpccArgs {
    /// Which were given.
    pub(super) fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("--warehouses", self.warehouses.is_some()),
            ("--place", self.place.is_some()),
            ("--keep", self.keep),
        ]
    }

    pub(super) fn keeps(&self) -> bool {
        self.keep
    }

    pub(super) fn options(&self, scale: Option<f64>, seed: u64) -> Result<Options, String> {
        let default = Options::default();
        let options = Options {
            warehouses: self.warehouses.unwrap_or(default.warehouses),
            scale: scale.unwrap_or(default.scale),
            place: self.place.as_deref().map_or(Ok(default.place), Placing::parse)?,
            seed,
            ..default
        };
        options.check()?;
        Ok(options)
    }

    /// Refuses to keep what goes with the run.
    pub(super) fn check(&self, store: &StoreArg) -> Result<(), String> {
        match store {
            StoreArg::Embedded | StoreArg::Cluster | StoreArg::Model if self.keep => {
                Err("--keep is of --store file:FOLDER and redis://HOST:PORT: this store ends with the run"
                    .into())
            }
            StoreArg::Embedded
            | StoreArg::Cluster
            | StoreArg::Model
            | StoreArg::File(_)
            | StoreArg::Url(_) => Ok(()),
        }
    }
}

/// Says what the records of all modes need together. Refuses more than this machine has left, unless they go to servers that
/// may be on others.
pub(super) fn check_memory(options: &Options, modes: usize, store: &StoreArg) -> Result<(), String> {
    let needed = options.bytes().saturating_mul(modes as u64);
    let free = match store {
        StoreArg::Url(_) => None,
        StoreArg::Embedded | StoreArg::Cluster | StoreArg::Model | StoreArg::File(_) => available(),
    };
    fits(options, needed, free)?;
    let each = if modes == 1 { String::new() } else { format!(" for {modes} modes") };
    output::tell!("tpcc: the records need about {} MB of memory{each}", grouped(mega(needed)));
    Ok(())
}

fn fits(options: &Options, needed: u64, free: Option<u64>) -> Result<(), String> {
    match free {
        Some(free) if needed > free => Err(format!(
            "--warehouses {}: the records need about {} MB of memory, and {} MB are free; take fewer warehouses or modes, or a --scale below {}",
            options.warehouses,
            grouped(mega(needed)),
            grouped(mega(free)),
            options.scale,
        )),
        Some(_) | None => Ok(()),
    }
}

fn mega(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

/// What this machine has left, where it can be read.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilo: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilo * 1024)
}

/// A line on new orders, of a workload that has them.
pub(super) fn print(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    let figure = |summary: &Summary| {
        let figure = grouped(summary.new_orders_per_minute? as u64);
        Some(format!("{} {figure}", summary.setting.mode))
    };
    let figures: Vec<String> = summaries.iter().filter_map(figure).collect();
    if figures.is_empty() {
        return Ok(());
    }
    writeln!(out, "new orders a minute: {}", figures.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_warehouses_than_memory_are_refused_with_both_numbers() {
        let options = Options { warehouses: 100, ..Options::default() };
        let needed = options.bytes();
        assert_eq!(fits(&options, needed, Some(needed)), Ok(()));
        assert_eq!(fits(&options, needed, None), Ok(()));
        let error = fits(&options, needed, Some(needed - 1)).expect_err("too many");
        assert!(error.contains("--warehouses 100") && error.contains(&grouped(mega(needed))), "{error}");
    }
}
