//! `claret top`: arguments, and reading and showing in turn until the user has seen enough.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use claret_redis::without_passwords;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::password::PasswordFile;
use super::store_arg::StoreArg;
use crate::output::{self, escaped};
use crate::top::asking::{Asking, Reading};
use crate::top::page::page;
use crate::top::report::Report;
use crate::top::screen::{Screen, Wish};

/// A shard is asked of more keys than are shown, so that what comes up was mostly counted before and has a rate: of so many
/// times as many, within these bounds.
const ASKED_FACTOR: u16 = 4;
const ASKED_MIN: u16 = 64;
const ASKED_MAX: u16 = 128;

/// Arguments of `claret top`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret top --store redis://127.0.0.1:7000\n  claret top --store redis://127.0.0.1:7000 --once --json\n\nKeys: q \
                  or Ctrl-C quits. Where the output is no terminal, a block of text is printed each time. The user needs CLUSTER \
                  SLOTS, CLARET.TOP, CONFIG GET, and TYPE on the keys that are to be shown: ACL SETUSER ops +cluster|slots \
                  +claret.top +config|get +type ~*. With --once the exit code is 1 if a shard could not be shown, or serves no transactions."
)]
pub(crate) struct Args {
    /// redis://HOST:PORT, a cluster with the module, or one server with it. rediss:// is TLS.
    #[arg(long, value_name = "URL")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
    /// How often it is read, in milliseconds; rates are over this time.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    every_ms: u64,
    /// Show so many hot keys, and as many that somebody has waited for longest.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=128))]
    count: u16,
    /// Print one reading, with rates over one interval, and end.
    #[arg(long)]
    once: bool,
    /// Print it as one JSON object (docs/operations.md says what is in it).
    #[arg(long, requires = "once")]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(format!("the runtime does not start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(show(&args)) {
        Ok(code) => code,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

async fn show(args: &Args) -> Result<ExitCode, String> {
    let url = match StoreArg::parse(&args.login.in_url(&args.store)?)? {
        StoreArg::Url(url) => url,
        StoreArg::Embedded | StoreArg::File(_) | StoreArg::Model | StoreArg::Cluster => {
            return Err(format!(
                "top looks at the servers of a cluster that runs, and the store '{}' is none: say --store redis://HOST:PORT \
                 (a program with an embedded store has Store::stats)",
                args.store
            ));
        }
    };
    let asked = args.count.saturating_mul(ASKED_FACTOR).clamp(ASKED_MIN, ASKED_MAX);
    let asking = Asking::begin(&url, asked).await?;
    let counts = (args.count.into(), asked.into());
    let mut top = Top { asking, shown: without_passwords(&url), counts, readings: [None, None] };
    let every = Duration::from_millis(args.every_ms);
    let shown = match () {
        () if args.once => return top.once(every, args.json).await,
        () if io::stdout().is_terminal() => top.live(every).await,
        () => top.print_on(every).await,
    };
    match shown {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever read it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("the output failed: {error}; --once prints one reading as text")),
    }
}

/// What is shown.
struct Top {
    asking: Asking,
    shown: String,
    /// How many keys are shown, and of how many a shard is asked.
    counts: (usize, usize),
    /// The last one, and the one before.
    readings: [Option<Reading>; 2],
}

impl Top {
    async fn read(&mut self) {
        let now = self.asking.read().await;
        let [last, before] = &mut self.readings;
        *before = last.replace(now);
    }

    fn report(&self) -> Option<Report> {
        let [last, before] = &self.readings;
        Some(Report::between(&self.shown, before.as_ref(), last.as_ref()?, self.counts))
    }

    /// Two readings, and what happened between them.
    async fn once(&mut self, every: Duration, as_json: bool) -> Result<ExitCode, String> {
        self.read().await;
        sleep(every).await;
        self.read().await;
        let report = self.report().expect("it was read");
        let text = match as_json {
            true => serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n",
            false => self.text(&report),
        };
        let is_whole = report.cluster.serving == report.cluster.shards;
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("the output failed: {error}")),
            Ok(()) | Err(_) => Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        }
    }

    fn text(&self, report: &Report) -> String {
        // Two operations of each key, on average.
        let lines = page(report, 2 * self.counts.0, None);
        lines.iter().map(|line| format!("{}\n", escaped(&line.text))).collect()
    }

    /// A block of text each time, until whoever reads it has seen enough.
    async fn print_on(&mut self, every: Duration) -> io::Result<()> {
        self.read().await;
        loop {
            sleep(every).await;
            self.read().await;
            let report = self.report().expect("it was read");
            let mut out = io::stdout().lock();
            writeln!(out, "{}", self.text(&report))?;
            out.flush()?;
        }
    }

    /// The terminal is drawn anew each time, until the user quits or the program is told to end.
    async fn live(&mut self, every: Duration) -> io::Result<()> {
        let signals = signals()?;
        let (screen, wishes) = Screen::enter()?;
        tokio::select! {
            shown = self.draw_on(every, screen, wishes) => shown,
            () = any(signals) => Ok(()),
        }
    }

    async fn draw_on(
        &mut self,
        every: Duration,
        mut screen: Screen,
        mut wishes: Receiver<Wish>,
    ) -> io::Result<()> {
        loop {
            let next = Instant::now() + every;
            {
                // A node may take long to answer: the user is heard all the same.
                let mut reading = pin!(self.read());
                loop {
                    tokio::select! {
                        () = &mut reading => break,
                        wish = wishes.recv() => match wish {
                            Some(Wish::Quit) | None => return Ok(()),
                            Some(Wish::Draw) => {}
                        },
                    }
                }
            }
            loop {
                if let Some(report) = self.report() {
                    screen.draw(&page(&report, usize::MAX, Some(screen.room())))?;
                }
                tokio::select! {
                    () = sleep_until(next) => break,
                    wish = wishes.recv() => match wish {
                        Some(Wish::Quit) | None => return Ok(()),
                        Some(Wish::Draw) => {}
                    },
                }
            }
        }
    }
}

/// What tells a program to end.
fn signals() -> io::Result<[Signal; 3]> {
    let [interrupt, terminate, hang_up] =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    Ok([interrupt?, terminate?, hang_up?])
}

async fn any([mut interrupt, mut terminate, mut hang_up]: [Signal; 3]) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}
