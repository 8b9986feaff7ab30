//! The `claret` program: it reads arguments, calls what the other crates do, and prints what comes of it.

mod commands;
mod interrupt;
mod local;
mod output;
mod reading;
mod shell;
mod table;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use claret_redis::without_passwords;

use commands::{
    bench, check_store, check_type, cluster, completions, demo, gateway, man, report, schema, sim, stored,
    torture, tpcc,
};

/// Strictly serializable transactions over typed records that do not fall over on hot keys.
#[derive(Debug, Parser)]
#[command(name = "claret", version, after_help = "Start with:\n  claret demo")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sell the same few products to many buyers, with locks, with retries, with Claret and with Redis, and check the books.
    Demo(demo::Args),
    /// Measure a workload in several modes, interleaved, and check the answers.
    Bench(Box<bench::Args>),
    /// Start, show and stop a local cluster of Redis or Valkey servers with the module loaded.
    Cluster(cluster::Args),
    /// An interactive prompt on an embedded store or on a cluster.
    Shell(commands::shell::Args),
    /// Run a Lua script as one transaction, and print what it returns.
    Run(commands::run::Args),
    /// A server for any Redis client: MULTI, EXEC and WATCH over all slots of a cluster.
    Gateway(Box<gateway::Args>),
    /// Read a store's folder to its end, and say whether it is damaged.
    Check(stored::CheckArgs),
    /// Print the records of a store's folder, a JSON object a line.
    Dump(stored::DumpArgs),
    /// Copy a store's folder, also while the store is open.
    Backup(stored::BackupArgs),
    /// Check a schema, put it on all nodes of a cluster, or show theirs.
    Schema(schema::Args),
    /// Show what is slow on a cluster: hot keys, who waits for whom, rates of each shard.
    Top(commands::top::Args),
    /// Prove on small cases that what a type's lock admits really commutes.
    CheckType(check_type::Args),
    /// Let many clients loose on a store and judge from outside what they saw.
    CheckStore(check_store::Args),
    /// Kill, stop and fail over a store while clients work, then read everything and judge what they saw.
    Torture(Box<torture::Args>),
    /// Check what 'claret bench tpcc --keep' left.
    Tpcc(tpcc::Args),
    /// Run the protocol in a simulator that delays, loses and doubles messages.
    Sim(sim::Args),
    /// Draw every figure of the papers on Claret beside our own measurements, in one HTML file.
    Report(report::Args),
    /// Print what makes a shell complete this program's commands and options.
    Completions(completions::Args),
    /// Write the manual pages, one for each command.
    Man(man::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            // It quotes what was given, which may be a URL in the wrong place.
            output::tell!("{}", output::escaped(&without_passwords(&error.to_string())).trim_end());
            return ExitCode::from(2);
        }
        // Help and the version.
        Err(other) => other.exit(),
    };
    match cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Cluster(args) => cluster::run(args),
        Command::Shell(args) => commands::shell::run(args),
        Command::Run(args) => commands::run::run(args),
        Command::Gateway(args) => gateway::run(*args),
        Command::Check(args) => stored::check(args),
        Command::Dump(args) => stored::dump(args),
        Command::Backup(args) => stored::backup(args),
        Command::Schema(args) => schema::run(args),
        Command::Top(args) => commands::top::run(args),
        Command::CheckType(args) => check_type::run(args),
        Command::CheckStore(args) => check_store::run(args),
        Command::Torture(args) => torture::run(*args),
        Command::Tpcc(args) => tpcc::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Report(args) => report::run(args),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => man::run(args, Cli::command()),
    }
}
