//! `claret tpcc check`: the consistency conditions of TPC-C on what `claret bench tpcc --keep` left.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use claret::Store;
use claret_bench::workload::tpcc::conditions::{self, Broken};
use claret_bench::workload::tpcc::{Options, Tables};
use claret_bench::workload::{Call, VIOLATIONS_MAX};
use tokio::runtime::Runtime;

use super::password::PasswordFile;
use super::store_arg::StoreArg;
use crate::output::{self, Escaped};

/// Arguments of `claret tpcc`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check the consistency conditions 1 to 12 (clause 3.3.2) on all that 'claret bench tpcc --keep' left.
    #[command(
        after_help = "Nothing else may write meanwhile. The exit code is 1 if a condition does not hold, 2 if nothing can be \
                            checked.\n\nExample:\n  claret bench tpcc --store file:/tmp/t --scale 0.01 --modes claret --keep\n  \
                            claret tpcc check --store file:/tmp/t/claret"
    )]
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Where: file:FOLDER, one mode's store; or redis://HOST:PORT.
    #[arg(long)]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let Command::Check(args) = args.command;
    let store = args.login.in_url(&args.store);
    match store.and_then(|store| check_all(&store, &mut Escaped::new(io::stdout()))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::error(error);
            ExitCode::from(2)
        }
    }
}

/// Whether all conditions hold.
fn check_all(store: &str, out: &mut dyn Write) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    let store = open(&StoreArg::parse(store)?, &runtime)?;
    let checked = check_kept(&store, &runtime, out);
    runtime.block_on(store.close()).map_err(|error| error.to_string())?;
    checked
}

fn open(store: &StoreArg, runtime: &Runtime) -> Result<Store, String> {
    match store {
        StoreArg::File(folder) => open_folder(folder),
        StoreArg::Url(url) => {
            let connect = async { Store::cluster(url).connect().await };
            runtime.block_on(connect).map_err(|error| error.to_string())
        }
        StoreArg::Embedded | StoreArg::Cluster | StoreArg::Model => {
            Err("nothing is kept there: name --store file:FOLDER or redis://HOST:PORT".into())
        }
    }
}

/// Opening makes a folder where there is none: that would be an empty store to check.
fn open_folder(folder: &Path) -> Result<Store, String> {
    if !folder.is_dir() {
        return Err(format!("there is no folder '{}'", folder.display()));
    }
    Store::open(folder).map_err(|error| error.to_string())
}

fn check_kept(store: &Store, runtime: &Runtime, out: &mut dyn Write) -> Result<bool, String> {
    let mut prefixes = runtime.block_on(kept(store))?;
    prefixes.sort_unstable();
    if prefixes.is_empty() {
        return Err("nothing of TPC-C is there: 'claret bench tpcc --keep' leaves it".into());
    }
    let mut holds = true;
    for prefix in prefixes {
        let (options, broken) = check_one(store, runtime, &prefix)?;
        holds &= broken.is_empty();
        print(out, &options, &broken).map_err(|error| format!("writing the results: {error}"))?;
    }
    Ok(holds)
}

/// The prefixes of all that was kept.
async fn kept(store: &Store) -> Result<Vec<String>, String> {
    let mut keys = store.keys(conditions::parameters_pattern());
    let mut prefixes = Vec::new();
    while let Some(page) = keys.next_page().await.map_err(|error| error.to_string())? {
        prefixes.extend(page.iter().filter_map(conditions::prefix_of).map(str::to_owned));
    }
    Ok(prefixes)
}

fn check_one(store: &Store, runtime: &Runtime, prefix: &str) -> Result<(Options, Vec<Broken>), String> {
    let mut read = |calls: Vec<Call>| {
        let replies = store.run_all(calls.into_iter().map(|call| (call.key, call.op)));
        runtime.block_on(replies).map_err(|error| error.to_string())
    };
    let options = conditions::parameters(prefix, &mut read)?;
    let broken = conditions::check(&Tables::new(options.clone()), &mut read)?;
    Ok((options, broken))
}

fn print(out: &mut dyn Write, options: &Options, broken: &[Broken]) -> io::Result<()> {
    let Options { prefix, warehouses, scale, place, .. } = options;
    let what = format!("{warehouses} warehouses, scale {scale}, place {}, prefix '{prefix}'", place.name());
    if broken.is_empty() {
        return writeln!(out, "{what}: all conditions hold");
    }
    writeln!(out, "{what}: NOT CONSISTENT")?;
    for it in broken {
        writeln!(out, "  {it}")?;
    }
    if broken.len() == VIOLATIONS_MAX {
        writeln!(out, "  these are the first {VIOLATIONS_MAX}")?;
    }
    Ok(())
}
