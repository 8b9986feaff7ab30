//! `claret demo`: a checkout as people write it, and the same with Claret; a transfer between two keys; or one of the papers' sites.

mod sale;
mod sites;
mod transfer;

use std::io;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::ValueEnum;

use super::bench::{exit_code, seconds};
use super::password::PasswordFile;
use super::store_arg::StoreArg;
use crate::interrupt::watch_interrupts;
use crate::output::{self, Escaped};
use sites::Site;

/// How long a sale lasts at most, and how long each mode runs on a site, in seconds.
const SALE_SECONDS: f64 = 6.0;
const SITE_SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 1.0;

/// Arguments of `claret demo`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret demo\n  claret demo transfer --store redis://127.0.0.1:7000\n  claret demo auction --quick"
)]
pub(crate) struct Args {
    /// checkout: buyers of the same few products, with optimistic retries, with locks, with Claret, and, where there is a
    /// redis-server, with a WATCH loop. transfer: money between two keys; on a cluster plain Redis refuses it. auction and
    /// twitter: the papers' sites, with plain locks and with Claret.
    #[arg(value_enum, default_value_t = Shown::Checkout)]
    shown: Shown,
    /// Where all but the checkout run: embedded; cluster, started for the demo; or redis://HOST:PORT.
    #[arg(long, default_value = "embedded")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
    /// How long each way or mode runs; a checkout that is sold out ends earlier (default: 6 for checkout, 5 for the others).
    #[arg(long)]
    seconds: Option<f64>,
    /// A smaller one, for a second each (or for --seconds, where that is less).
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Of auction and twitter the papers' sizes: 100,000 users at the auction, 65,536 in the graph.
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shown {
    Checkout,
    Transfer,
    Auction,
    Twitter,
}

impl Args {
    fn time(&self) -> Result<Duration, String> {
        let usual = match self.shown {
            Shown::Checkout => SALE_SECONDS,
            Shown::Transfer | Shown::Auction | Shown::Twitter => SITE_SECONDS,
        };
        let asked = self.seconds.unwrap_or(usual);
        seconds("--seconds", if self.quick { asked.min(QUICK_SECONDS) } else { asked })
    }

    /// Refuses what a demo has not.
    fn check(&self) -> Result<(), String> {
        let is_site = matches!(self.shown, Shown::Auction | Shown::Twitter);
        if self.shown == Shown::Checkout && self.store != "embedded" {
            return Err("the checkout runs in this process and beside a server of its own; --store is of transfer, auction and twitter".into());
        }
        if self.full && !is_site {
            return Err("--full is of auction and twitter".into());
        }
        if self.shown == Shown::Transfer && (self.quick || self.seconds.is_some()) {
            return Err("a transfer takes no time: --quick and --seconds are of the other demos".into());
        }
        Ok(())
    }
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let time = match args.check().and_then(|()| args.time()) {
        Ok(time) => time,
        Err(error) => {
            output::error(error);
            return ExitCode::from(2);
        }
    };
    let stop = watch_interrupts();
    let out = &mut Escaped::new(io::stdout());
    let shown = match args.shown {
        Shown::Checkout => sale::run(args.quick, time, &stop, out),
        Shown::Transfer => {
            let store = args.login.in_url(&args.store).and_then(|store| StoreArg::parse(&store));
            store.and_then(|store| transfer::run(&store, out)).map(|()| Vec::new())
        }
        Shown::Auction => sites::run(Site::Auction, &args, time, &stop, out),
        Shown::Twitter => sites::run(Site::Twitter, &args, time, &stop, out),
    };
    match shown {
        Ok(checks) => exit_code(&checks, stop.load(Ordering::Relaxed)),
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}
