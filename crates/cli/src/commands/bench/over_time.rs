//! Throughput over time for people: a line a mode, and a sentence for each mode that was uneven.

use std::io::{self, Write};

use claret_bench::OverTime;

use crate::table::{grouped, table};

/// From here on a rate is said in thousands.
const THOUSANDS_FROM: f64 = 10_000.0;

/// Prints what each of these modes did over time.
pub(super) fn print(out: &mut dyn Write, modes: &[(&str, &OverTime)]) -> io::Result<()> {
    let intervals = modes.iter().map(|(_, it)| it.committed.len()).max().unwrap_or_default();
    if intervals == 0 {
        return Ok(());
    }
    let has_warm_up = modes.iter().any(|(_, it)| it.warm_up_rate().is_some());
    let row = |(mode, it): &(&str, &OverTime)| {
        let warm_up = has_warm_up.then(|| it.warm_up_rate().map_or_else(|| "-".to_owned(), compact));
        [(*mode).to_owned()].into_iter().chain(warm_up).chain(it.rates().map(compact)).collect()
    };
    let numbers: Vec<String> = (1..=intervals).map(|number| number.to_string()).collect();
    let mut header = vec!["tx/s by tenths"];
    header.extend(has_warm_up.then_some("warm-up"));
    header.extend(numbers.iter().map(String::as_str));
    write!(out, "{}", table(&header, &modes.iter().map(row).collect::<Vec<_>>()))?;
    for (mode, it) in modes.iter().filter(|(_, it)| it.uneven) {
        writeln!(out, "{}", sentence(mode, it))?;
    }
    Ok(())
}

fn sentence(mode: &str, it: &OverTime) -> String {
    let by_warm_up = it.warm_up_rate().is_some_and(|rate| rate >= it.fastest());
    format!(
        "{mode}: throughput was uneven: {} tx/s in the {}, {} in the slowest tenth of the measured time; do not \
         take its tx/s for a steady rate",
        grouped(it.fastest() as u64),
        if by_warm_up { "warm-up" } else { "fastest" },
        grouped(it.slowest() as u64),
    )
}

/// A rate in few digits.
fn compact(rate: f64) -> String {
    if rate < THOUSANDS_FROM {
        grouped(rate.round() as u64)
    } else {
        format!("{}k", grouped((rate / 1e3).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_time(committed: &[u64], warm_up_committed: u64, uneven: bool) -> OverTime {
        let committed = committed.to_vec();
        OverTime { interval_seconds: 0.1, committed, warm_up_seconds: 0.1, warm_up_committed, uneven }
    }

    fn printed(modes: &[(&str, &OverTime)]) -> String {
        let mut out = Vec::new();
        print(&mut out, modes).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_line_a_mode_and_a_sentence_for_the_uneven_one() {
        let even = over_time(&[123, 123_400], 99, false);
        let uneven = over_time(&[40_000, 20], 30, true);
        assert_eq!(
            printed(&[("none", &even), ("claret", &uneven)]),
            "tx/s by tenths  warm-up      1       2\n\
             none                990  1,230  1,234k\n\
             claret              300   400k     200\n\
             claret: throughput was uneven: 400,000 tx/s in the fastest, 200 in the slowest tenth of the measured time; \
             do not take its tx/s for a steady rate\n"
        );
    }

    #[test]
    fn a_warm_up_that_was_fastest_is_named() {
        let text = printed(&[("rw", &over_time(&[10, 9], 300, true))]);
        assert!(
            text.contains("rw: throughput was uneven: 3,000 tx/s in the warm-up, 90 in the slowest"),
            "{text}"
        );
    }

    #[test]
    fn where_there_was_no_warm_up_none_is_shown() {
        let real = OverTime { warm_up_seconds: 0.0, ..over_time(&[1], 0, false) };
        assert_eq!(printed(&[("mutex", &real)]), "tx/s by tenths   1\nmutex           10\n");
        assert_eq!(printed(&[("mutex", &over_time(&[], 0, false))]), "");
    }
}
