//! `claret report`: the figures of the papers beside ours, as one HTML file.
//!
//! The file appears when it is complete: it is written beside its place and then renamed.

mod chart;
mod distribution;
mod figures;
mod page;
mod papers;
mod results;
mod runs;
mod scale;
mod servers;

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::HumanDuration;

use self::figures::{Figure, Panel};
use self::page::{About, Measured};
use self::runs::Runs;
use self::scale::Scale;
use self::servers::Found;
use super::password::PasswordFile;
use super::store_arg::SHARDS;
use crate::interrupt::watch_interrupts;
use crate::output;

/// What tells a report from any other file.
const GENERATOR: &str = "claret report";
/// It stands so near the start of a file.
const HEAD_BYTES_MAX: u64 = 4096;

const HELP_AFTER: &str = "\
The report has each figure of the papers on Claret: what they publish as numbers, our charts, and tables of all that is
drawn. The model is always measured, in virtual time. A cluster is measured besides, in real time, where there are a server
program and the module; the report says so where not. There, redis-lock stands for reader/writer locks, which the module's
shards do not have.
An existing file is overwritten only if it is a report, or with --force. Ctrl-C writes nothing.

Examples:
  claret report --quick --out report.html
  claret report --store redis://localhost:7000 --out report.html";

/// Arguments of `claret report`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    /// Where the report is written.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Shorter runs and fewer points.
    #[arg(long)]
    quick: bool,
    /// What is measured besides the model: cluster, started for the report, or redis://HOST:PORT; sim for the model alone
    /// (default: cluster if one can be started, else sim).
    #[arg(long)]
    store: Option<String>,
    #[command(flatten)]
    login: PasswordFile,
    /// Overwrite the file whatever it is.
    #[arg(long)]
    force: bool,
    /// What all random choices are made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write two drawings as files into this directory: published.svg, all ratios, and skew.svg, figure 7.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Runs of no meaning that take seconds, to test the report itself.
    #[arg(long, hide = true)]
    tiny: bool,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    match report(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Usage(error)) => {
            output::error(error);
            ExitCode::from(2)
        }
        Err(Failed::Interrupted) => {
            output::error("interrupted: no report was written");
            ExitCode::from(130)
        }
        Err(Failed::Run(error)) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

/// Why there is no report.
enum Failed {
    Usage(String),
    Interrupted,
    Run(String),
}

fn report(args: &Args) -> Result<(), Failed> {
    // Before anything is measured.
    may_write(&args.out, args.force).map_err(Failed::Usage)?;
    if let Some(dir) = &args.svg {
        may_write_into(dir).map_err(Failed::Usage)?;
    }
    let (scale, began) = (args.scale(), Instant::now());
    let stop = watch_interrupts();
    let servers = servers::find(args.store()?.as_deref()).map_err(Failed::Usage)?;
    match &servers {
        Ok(servers) => {
            output::tell!("measuring a cluster, then the model: {}", output::escaped(&servers.name))
        }
        Err(why) => output::tell!("measuring the model only: {}", output::escaped(why)),
    }
    let result = measured(args, &scale, &servers, &stop).and_then(|measured| {
        output::tell!("drawing");
        let about = About {
            scale: &scale,
            seed: args.seed,
            date: time::OffsetDateTime::now_utc().date().to_string(),
            setting: setting(args, &scale, &servers, began.elapsed()),
            why_no_servers: servers.as_ref().err().map(String::as_str),
        };
        Ok((page::html(&about, &measured)?, measured))
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Failed::Interrupted);
    }
    let (html, measured) = result.map_err(Failed::Run)?;
    write_whole(&args.out, html.as_bytes()).map_err(Failed::Run)?;
    if let Some(dir) = &args.svg {
        write_drawings(dir, &measured).map_err(Failed::Run)?;
    }
    output::tell!("wrote {}", output::escaped(&args.out.display().to_string()));
    Ok(())
}

impl Args {
    /// What `--store` names.
    fn store(&self) -> Result<Option<String>, Failed> {
        let store = self.store.as_ref().map(|store| self.login.in_url(store)).transpose();
        store.map_err(Failed::Usage)
    }

    fn scale(&self) -> Scale {
        match (self.tiny, self.quick) {
            (true, _) => Scale::TINY,
            (false, true) => Scale::QUICK,
            (false, false) => Scale::FULL,
        }
    }
}

/// Servers go first: they may fail, the model does not.
fn measured(args: &Args, scale: &Scale, servers: &Found, stop: &Arc<AtomicBool>) -> Result<Measured, String> {
    let figures = figures::figures(scale);
    let panels: Vec<&Panel> = figures.iter().flat_map(Figure::panels).collect();
    let shown = io::stderr().is_terminal();
    let runs_of = |place: &'static str| {
        let began = Instant::now();
        move |at: usize, count: usize, what: &str| {
            // Where nobody looks on, every tenth run is enough.
            if shown || at.is_multiple_of(10) || at == count {
                let left = left(began.elapsed(), at - 1, count);
                let left = left.map_or(String::new(), |left| format!(", about {} left", HumanDuration(left)));
                output::tell!("{place}, run {at} of {count}: {what}{left}");
            }
        }
    };
    let of_servers = |servers: &servers::Servers| {
        let panels: Vec<Panel> = panels.iter().map(|panel| panel.on_servers()).collect();
        let runs = Runs { scale, seed: args.seed, stop, progress: &runs_of("servers") };
        runs.on_servers(&servers.store, &figures::jobs(panels.iter()))
    };
    let servers = servers.as_ref().ok().map(of_servers).transpose()?;
    let runs = Runs { scale, seed: args.seed, stop, progress: &runs_of("model") };
    let model = runs.in_model(&figures::jobs(panels.iter().copied()))?;
    Ok(Measured { figures, model, servers })
}

/// How long the runs that are left take if they are as long as those that are over.
fn left(elapsed: Duration, over: usize, count: usize) -> Option<Duration> {
    (over > 0).then(|| elapsed.mul_f64((count - over) as f64 / over as f64))
}

fn setting(args: &Args, scale: &Scale, servers: &Found, took: Duration) -> Vec<(String, String)> {
    let build = if cfg!(debug_assertions) { "debug: real times mean nothing" } else { "release" };
    let mut rows = vec![
        ("machine", machine()),
        ("build", build.to_owned()),
        ("size of the runs", scale.name.to_owned()),
        ("seed", args.seed.to_string()),
        (
            "model: measured time of each mode",
            format!(
                "{} s of virtual time, claret after {} s in which it finds out what to order",
                scale.virtual_seconds, scale.settling_seconds
            ),
        ),
        ("model: shards", SHARDS.to_string()),
        ("clients where a figure has one number", scale.many().to_string()),
        ("raw mix", format!("{} sets, 4 operations a transaction", scale.keys)),
        ("Rubis", format!("{} items", scale.items)),
        ("Retwis", format!("2^{} users; workshop figures 2^{}", scale.users, scale.workshop_users)),
    ];
    match servers {
        Ok(servers) => {
            rows.push(("servers", servers.name.clone()));
            rows.push(("servers: time of each mode", format!("{} s", scale.server_seconds)));
            rows.push(("servers: Rubis", format!("{} items", scale.server_items)));
        }
        Err(why) => rows.push(("servers", format!("none: {why}"))),
    }
    rows.push(("all runs took", format!("{:.0} s", took.as_secs_f64())));
    rows.into_iter().map(|(what, value)| (what.to_owned(), value)).collect()
}

/// What this runs on.
fn machine() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let model = model.map_or(String::new(), |(_, name)| format!(" ({})", name.trim()));
    format!("{} cores{model}, {os} on {arch}", runs::cores())
}

/// Refuses to overwrite what is no report.
fn may_write(path: &Path, force: bool) -> Result<(), String> {
    let name = path.display();
    if path.file_name().is_none() || path.is_dir() {
        return Err(format!("--out {name}: is a directory; name a file in it"));
    }
    let dir = directory(path);
    if !dir.is_dir() {
        return Err(format!("--out {name}: there is no directory {}; make it first", dir.display()));
    }
    can_create_in(dir).map_err(|error| format!("--out {name}: {error}; name another file"))?;
    let mut head = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(HEAD_BYTES_MAX).read_to_end(&mut head)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) if force || is_report(&head) => Ok(()),
        Ok(_) => Err(format!("--out {name}: is there and is no report; name another file, or say --force")),
        Err(error) => Err(format!("--out {name}: {error}; name another file")),
    }
}

/// Refuses a directory for drawings that cannot be made or written to.
fn may_write_into(dir: &Path) -> Result<(), String> {
    let made = fs::create_dir_all(dir).and_then(|()| can_create_in(dir));
    made.map_err(|error| format!("--svg {}: {error}; name another directory", dir.display()))
}

/// Makes a file and takes it away: rights alone do not tell.
fn can_create_in(dir: &Path) -> io::Result<()> {
    let probe = part(dir, "probe");
    fs::File::create_new(&probe)?;
    fs::remove_file(&probe)
}

fn is_report(head: &[u8]) -> bool {
    let mark = format!("<meta name=\"generator\" content=\"{GENERATOR}\"/>");
    head.windows(mark.len()).any(|window| window == mark.as_bytes())
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name of a file that is not complete.
fn part(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.{}.part", std::process::id()))
}

/// Writes a file beside its place and renames it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let beside = part(directory(path), &path.file_name().unwrap_or_default().to_string_lossy());
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        format!("writing {}: {error}; free some space or name another file with --out", path.display())
    })
}

/// The drawings that documentation shows.
fn write_drawings(dir: &Path, measured: &Measured) -> Result<(), String> {
    write_whole(&dir.join("published.svg"), page::overview(measured).svg()?.as_bytes())?;
    if let Some(panel) = measured.figures.iter().find(|it| it.id == "7").and_then(|it| it.panels().first()) {
        // It stands alone there.
        let panel = Panel { title: "Raw mix, 50 % adds, in the model", ..panel.clone() };
        write_whole(&dir.join("skew.svg"), results::drawing(&panel, &measured.model)?.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_as_long_as_what_is_over() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, 0, 4), None);
        assert_eq!(left(minute, 1, 4), Some(3 * minute));
        assert_eq!(left(minute, 4, 4), Some(Duration::ZERO));
    }

    #[test]
    fn a_report_is_known_by_its_head() {
        assert!(is_report(include_str!("page.html").replace("{{ generator }}", GENERATOR).as_bytes()));
        assert!(!is_report(b"<html>claret report</html>") && !is_report(b""));
    }
}
