//! The checkout: the same sale in each of the ways, one after the other, and one line that says what it shows.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use claret_bench::Check;
use claret_bench::sale::{Options, Sale, Way, hold};
use indicatif::{ProgressBar, ProgressStyle};

use crate::table::{grouped, latency, table};

const SALE: Options = Options {
    products: 8,
    pieces: 2_500,
    buyers: 64,
    cart: 2,
    work: Duration::from_millis(5),
    time: Duration::from_secs(6),
    seed: 1,
};
const PIECES_QUICK: u32 = 250;

const WAYS: &str = "\
  optimistic    the version of each product in the cart is noted; who finds another one at the end begins again, after a pause
  locks         a mutex for each product, taken in one order by all, held from the look to the end
  Claret        a transaction on a store in this process: BoundedCounter::try_take, then Counter::add
  Redis WATCH   WATCH, MGET, the work, MULTI, DECR and INCRBY, EXEC; again after a pause where EXEC answers nil. The server is
                a process of its own, each buyer has a connection
";

/// Runs it.
pub(super) fn run(
    is_quick: bool,
    time: Duration,
    stop: &Arc<AtomicBool>,
    out: &mut dyn Write,
) -> Result<Vec<Check>, String> {
    let failed = |error: io::Error| format!("writing the results: {error}");
    let options = Options { time, pieces: if is_quick { PIECES_QUICK } else { SALE.pieces }, ..SALE };
    write!(out, "{}\n{WAYS}\n", intro(&options)).map_err(failed)?;
    let (sales, missing) = sales(options, stop)?;
    write!(out, "{}", shown(&sales)).map_err(failed)?;
    if let Some(why) = missing {
        writeln!(out, "(without Redis WATCH: {why})").map_err(failed)?;
    }
    if stop.load(Ordering::Relaxed) {
        writeln!(out, "interrupted: what is above was ended before its time").map_err(failed)?;
    } else {
        let next = "  claret demo transfer\n  claret demo auction\n  claret demo twitter\n  claret shell";
        writeln!(out, "\n{}\n\nNext:\n{next}", moral(&sales)).map_err(failed)?;
    }
    Ok(sales.into_iter().map(check).collect())
}

/// The sale in each way. And why there is none on a Redis server, if so.
fn sales(options: Options, stop: &Arc<AtomicBool>) -> Result<(Vec<Sale>, Option<String>), String> {
    let progress = ProgressBar::new_spinner();
    progress.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is well-formed"));
    progress.enable_steady_tick(Duration::from_millis(100));
    let hold = |way: Way| {
        progress.set_message(format!("selling: {}", way.name()));
        hold(way, options, stop)
    };
    let mut sales =
        [Way::Optimistic, Way::Locks, Way::Claret].into_iter().map(hold).collect::<Result<Vec<_>, _>>()?;
    let watched = match claret_rig::server_program() {
        Ok(_) => hold(Way::Watch),
        Err(error) => Err(error.to_string()),
    };
    progress.finish_and_clear();
    let missing = match watched {
        Ok(sale) => {
            sales.push(sale);
            None
        }
        Err(why) => Some(why),
    };
    Ok((sales, missing))
}

fn intro(options: &Options) -> String {
    let Options { products, pieces, buyers, cart, work, time, .. } = options;
    format!(
        "A checkout, in the ways in which people write it. {products} products with {} pieces each, {buyers} buyers on one thread. A buyer \
         has {cart}\nproducts in the cart: it looks at the price and the stock of each, works for {} ms (a timer: a payment), then takes a \
         piece of each\nand adds its price to the takings: all of it, at the prices that it saw, or nothing. It ends when all is sold, or \
         after {} s.\n",
        grouped(u64::from(*pieces)),
        work.as_millis(),
        time.as_secs_f64(),
    )
}

fn shown(sales: &[Sale]) -> String {
    let cells = |sale: &Sale| {
        vec![
            sale.way.name().to_owned(),
            grouped(sale.sold),
            grouped(sale.oversold),
            format!("{:.1} s", sale.seconds),
            grouped(sale.throughput() as u64),
            grouped(sale.retries),
            latency(sale.p50_us),
            latency(sale.p99_us),
        ]
    };
    let rows: Vec<_> = sales.iter().map(cells).collect();
    table(&["way", "sold", "oversold", "in", "sold/s", "retries", "p50", "p99"], &rows)
}

/// What it shows, in one line.
fn moral(sales: &[Sale]) -> String {
    let Some(claret) = sales.iter().find(|sale| sale.way == Way::Claret) else { return String::new() };
    let times = |sale: &Sale| claret.throughput() / sale.throughput().max(f64::MIN_POSITIVE);
    let others: Vec<&Sale> = sales.iter().filter(|sale| sale.way != Way::Claret).collect();
    let each: Vec<String> =
        others.iter().map(|sale| format!("{:.1} times those of {}", times(sale), sale.way.name())).collect();
    let why = match others.iter().all(|sale| times(sale) > 1.0) {
        true => ": who takes a piece of the same product waits for nobody, as long as all get one",
        false => "",
    };
    let oversold: u64 = sales.iter().map(|sale| sale.oversold).sum();
    format!(
        "{} pieces were oversold, and Claret sold {} pieces a second, {}{why}.",
        grouped(oversold),
        grouped(claret.throughput() as u64),
        each.join(", ")
    )
}

fn check(sale: Sale) -> Check {
    Check {
        mode: sale.way.name(),
        promise: "transactions",
        passed: sale.wrong.is_empty(),
        violations: sale.wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(way: Way, sold: u64) -> Sale {
        let wrong = Vec::new();
        Sale { way, sold, oversold: 0, seconds: 2.0, retries: 7, p50_us: 5_000.0, p99_us: 9_000.0, wrong }
    }

    #[test]
    fn the_line_says_what_was_measured_and_no_reason_where_claret_is_behind() {
        let ahead = moral(&[sale(Way::Locks, 100), sale(Way::Claret, 1_000), sale(Way::Watch, 50)]);
        assert!(ahead.starts_with("0 pieces were oversold, and Claret sold 500 pieces a second"), "{ahead}");
        assert!(ahead.contains("10.0 times those of locks, 20.0 times those of Redis WATCH"), "{ahead}");
        assert!(ahead.contains("waits for nobody"), "{ahead}");
        let behind = moral(&[sale(Way::Locks, 2_000), sale(Way::Claret, 1_000)]);
        assert!(
            behind.contains("0.5 times those of locks") && !behind.contains("waits for nobody"),
            "{behind}"
        );
    }
}
