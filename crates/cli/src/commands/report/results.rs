//! From what was run to charts, tables, and what is compared with the papers.

use serde::Serialize;

use super::chart::{Axis, Chart, DotRow, Dots, Line, Look, Scaling, Shape, short};
use super::figures::{Kind, Panel};
use super::papers::{Measure, Published};
use super::runs::{Load, Outcome, Outcomes, Series};
use crate::table::{grouped, latency};

/// A table of the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Table {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// How a series looks, everywhere.
pub(super) fn look(series: Series) -> Look {
    let (color, shape, dashed) = match series {
        Series::None => ((0x55, 0x55, 0x55), Shape::Ring, false),
        Series::Rw | Series::RedisLock => ((0xd5, 0x5e, 0x00), Shape::Triangle, false),
        Series::RwPhase => ((0xb0, 0x7a, 0x00), Shape::Cross, true),
        Series::Boost => ((0x3a, 0x9b, 0xd9), Shape::Square, false),
        Series::BoostPhase => ((0x00, 0x4c, 0x8c), Shape::Halo, true),
        Series::Claret => ((0x00, 0x7f, 0x5c), Shape::Circle, false),
        Series::Combining => ((0xb8, 0x4f, 0x92), Shape::Plus, true),
    };
    Look { color, shape, dashed }
}

/// The three sides of a comparison.
pub(super) const PAPER: Look = Look { color: (0x00, 0x00, 0x00), shape: Shape::Halo, dashed: false };
pub(super) const MODEL: Look = Look { color: (0x00, 0x7f, 0x5c), shape: Shape::Circle, dashed: false };
pub(super) const SERVERS: Look = Look { color: (0xd5, 0x5e, 0x00), shape: Shape::Triangle, dashed: false };

/// The drawing of a panel.
pub(super) fn drawing(panel: &Panel, outcomes: &Outcomes) -> Result<String, String> {
    match panel.kind {
        Kind::Conflicts => conflicts(panel, outcomes).svg(),
        Kind::Throughput(_) | Kind::Latency | Kind::Trace => chart(panel, outcomes).svg(),
    }
}

fn chart(panel: &Panel, outcomes: &Outcomes) -> Chart {
    let axis = |label: &str, scaling| Axis { label: label.to_owned(), scaling };
    let throughput = axis("transactions a second", Scaling::Linear);
    let all = || found(panel, outcomes);
    let (x, y) = match panel.kind {
        Kind::Throughput(label) => (axis(label, Scaling::Linear), throughput),
        Kind::Latency => {
            let scaling = Scaling::fit(all().map(|it| it.figures.p50_us));
            (throughput, axis("median latency, ms", scaling))
        }
        Kind::Trace => {
            let tenth = all().next().map_or(0.0, |it| it.figures.seconds * 100.0);
            (
                axis(&format!("time, tenths of the run ({} ms each)", short(tenth)), Scaling::Linear),
                throughput,
            )
        }
        Kind::Conflicts => (axis("", Scaling::Linear), axis("", Scaling::Linear)),
    };
    let line = |series: &Series| {
        let points = panel
            .points
            .iter()
            .filter_map(|point| Some((point.0, outcomes.get(&panel.job(point, *series))?)));
        let points = match panel.kind {
            Kind::Latency => points.map(|(_, it)| (it.figures.throughput, it.figures.p50_us / 1e3)).collect(),
            Kind::Trace => points.flat_map(|(_, it)| tenths(it)).collect(),
            Kind::Throughput(_) | Kind::Conflicts => {
                points.map(|(x, it)| (x, it.figures.throughput)).collect()
            }
        };
        Line { name: series.name().to_owned(), look: look(*series), points }
    };
    Chart { title: panel.title.to_owned(), x, y, lines: panel.series.iter().map(line).collect() }
}

/// All that was run for a panel.
fn found<'a>(panel: &'a Panel, outcomes: &'a Outcomes) -> impl Iterator<Item = &'a Outcome> {
    let jobs = panel.points.iter().flat_map(|point| panel.series.iter().map(|it| panel.job(point, *it)));
    jobs.filter_map(|job| outcomes.get(&job))
}

fn tenths(outcome: &Outcome) -> Vec<(f64, f64)> {
    outcome.rates.iter().enumerate().map(|(at, rate)| (at as f64 + 1.0, *rate)).collect()
}

fn conflicts(panel: &Panel, outcomes: &Outcomes) -> Dots {
    let row = |series: &Series| {
        let outcome = outcomes.get(&panel.job(panel.points.first()?, *series))?;
        let value = waits(outcome);
        let label = series.name().to_owned();
        Some(DotRow { label, marks: vec![(look(*series), value)], text: format!("{value:.1}") })
    };
    Dots {
        title: panel.title.to_owned(),
        x: Axis {
            label: "requests that waited or were refused, for 1,000 commits".to_owned(),
            scaling: Scaling::fit(found(panel, outcomes).map(waits)),
        },
        has_one: false,
        legend: Vec::new(),
        sides: (150, 80),
        rows: panel.series.iter().filter_map(row).collect(),
    }
}

/// Requests that waited or were refused, for 1,000 commits.
fn waits(outcome: &Outcome) -> f64 {
    1e3 * outcome.figures.lock_waits as f64 / outcome.figures.committed.max(1) as f64
}

/// What a table says of an outcome.
type Cell = fn(&Outcome) -> String;

/// The numbers of a panel.
pub(super) fn table(panel: &Panel, outcomes: &Outcomes) -> Table {
    let of = |point: &(f64, Load, usize), series| outcomes.get(&panel.job(point, series));
    let by_point = |first: &str, cells: &[(&str, Cell)]| {
        let rows_of = |point| cells.iter().map(move |(what, cell)| (point, what, cell));
        let row_of = |(point, what, cell): (&(f64, Load, usize), &&str, &Cell)| {
            row(panel, format!("{}{what}", point.0), |series| of(point, series).map(cell))
        };
        let rows = panel.points.iter().flat_map(rows_of).map(row_of).collect();
        Table { header: header(panel, first), rows }
    };
    let rate: Cell = |it| grouped(it.figures.throughput as u64);
    match panel.kind {
        Kind::Throughput(label) => by_point(label, &[("", rate)]),
        Kind::Latency => {
            by_point("clients", &[(": per second", rate), (": median", |it| latency(it.figures.p50_us))])
        }
        Kind::Conflicts => by_point("clients", &[(": for 1,000 commits", |it| format!("{:.1}", waits(it)))]),
        Kind::Trace => {
            let rates = |series| Some(&of(panel.points.first()?, series)?.rates);
            let count =
                panel.series.iter().filter_map(|series| Some(rates(*series)?.len())).max().unwrap_or(0);
            let tenth = |at: usize| {
                row(panel, (at + 1).to_string(), |series| Some(grouped(*rates(series)?.get(at)? as u64)))
            };
            let mut rows: Vec<_> = (0..count).map(tenth).collect();
            rows.push(row(panel, "standard deviation / mean".to_owned(), |series| {
                Some(format!("{:.3}", variation(rates(series)?)))
            }));
            Table { header: header(panel, "tenth: transactions a second"), rows }
        }
    }
}

/// What a row is of, and a cell for each series.
fn row(panel: &Panel, head: String, cell: impl Fn(Series) -> Option<String>) -> Vec<String> {
    let cells = panel.series.iter().map(|series| cell(*series).unwrap_or_else(|| "-".to_owned()));
    std::iter::once(head).chain(cells).collect()
}

fn header(panel: &Panel, first: &str) -> Vec<String> {
    row(panel, first.to_owned(), |series| Some(series.name().to_owned()))
}

/// Transactions given up, by series, if there were any: such a series is faster than it should be.
pub(super) fn given_up(panel: &Panel, outcomes: &Outcomes) -> Option<String> {
    let of = |series: &Series| {
        let all = panel.points.iter().filter_map(|point| outcomes.get(&panel.job(point, *series)));
        (series.name(), all.map(|it| it.figures.aborts).sum::<u64>())
    };
    let counts: Vec<String> = panel
        .series
        .iter()
        .map(of)
        .filter(|(_, aborts)| *aborts > 0)
        .map(|(name, aborts)| format!("{name} {}", grouped(aborts)))
        .collect();
    (!counts.is_empty()).then(|| format!("Transactions given up: {}.", counts.join("; ")))
}

/// What of ours a published number is compared with.
pub(super) fn ours(
    published: &Published,
    panels: &[Panel],
    outcomes: &Outcomes,
    on_servers: bool,
) -> Option<f64> {
    let as_run = |series: Series| if on_servers { series.on_servers() } else { series };
    let of = |panel: &Panel, series: Series| -> Vec<f64> {
        let all = panel.points.iter().filter_map(|point| outcomes.get(&panel.job(point, as_run(series))));
        all.map(|it| it.figures.throughput).collect()
    };
    let peak = |panel: &Panel, series| of(panel, series).into_iter().fold(0.0, f64::max);
    let chosen = |numbers: &'static [usize]| numbers.iter().filter_map(|number| panels.get(*number));
    let value = match published.ours {
        Measure::Peaks(numbers, over, under) => {
            chosen(numbers).map(|panel| peak(panel, over) / peak(panel, under)).fold(0.0, f64::max)
        }
        Measure::Best(numbers, over, under) => {
            let ratios = chosen(numbers).flat_map(|panel| {
                of(panel, over).into_iter().zip(of(panel, under)).map(|(over, under)| over / under)
            });
            ratios.filter(|ratio| ratio.is_finite()).fold(0.0, f64::max)
        }
        Measure::Variation(number, over, under) => {
            // Both sides are reader/writer locks and boosting, which the servers' modes are not a pair of.
            let panel = panels.get(number).filter(|_| !on_servers)?;
            let of = |series| {
                outcomes.get(&panel.job(panel.points.first()?, series)).map(|it| variation(&it.rates))
            };
            of(over)? / of(under)?
        }
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

/// The standard deviation over the mean.
pub(super) fn variation(rates: &[f64]) -> f64 {
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() / mean
}

#[cfg(test)]
mod tests {
    use claret_bench::Figures;

    use super::*;
    use crate::commands::report::papers::published;

    const LOAD: Load = Load::RawMix { adds: 50.0, alpha: 0.6 };

    fn outcome(throughput: f64) -> Outcome {
        let figures = Figures {
            seconds: 1.0,
            committed: throughput as u64,
            throughput,
            p50_us: 500.0,
            p95_us: 0.0,
            p99_us: 0.0,
            max_us: 0.0,
            aborts: 0,
            retries: 0,
            lock_waits: 30,
        };
        Outcome { figures, rates: vec![throughput; 10] }
    }

    fn panel(kind: Kind) -> Panel {
        let points = vec![(8.0, LOAD, 8), (16.0, LOAD, 16)];
        Panel { title: "panel", kind, points, series: &Series::MODEL }
    }

    fn outcomes(panel: &Panel) -> Outcomes {
        let throughput = |series, clients: usize| match series {
            Series::None => 1_000.0 * clients as f64,
            Series::Rw => 1_600.0 / clients as f64,
            _ => 500.0 * clients as f64,
        };
        let jobs =
            panel.points.iter().flat_map(|point| panel.series.iter().map(|series| panel.job(point, *series)));
        Outcomes::of(jobs.map(|job| (job, outcome(throughput(job.series, job.clients)))).collect())
    }

    /// A peak is the best of all points, wherever it is; the best case compares point by point.
    #[test]
    fn ratios_are_those_of_peaks_and_of_points() {
        let panel = panel(Kind::Latency);
        let outcomes = outcomes(&panel);
        let found = |measure| {
            let published = Published { ours: measure, ..published().next().expect("some") };
            ours(&published, std::slice::from_ref(&panel), &outcomes, false)
        };
        assert_eq!(found(Measure::Peaks(&[0], Series::Claret, Series::None)), Some(0.5));
        assert_eq!(found(Measure::Peaks(&[0], Series::Claret, Series::Rw)), Some(40.0));
        assert_eq!(found(Measure::Best(&[0], Series::Claret, Series::Rw)), Some(80.0));
        assert_eq!(found(Measure::Variation(0, Series::Rw, Series::Claret)), None);
    }

    #[test]
    fn tables_have_a_column_for_each_series() {
        for kind in [Kind::Throughput("clients"), Kind::Latency, Kind::Conflicts, Kind::Trace] {
            let panel = panel(kind);
            let table = table(&panel, &outcomes(&panel));
            assert_eq!(table.header.len(), 8);
            assert!(!table.rows.is_empty() && table.rows.iter().all(|row| row.len() == 8), "{table:?}");
        }
    }

    #[test]
    fn variation_is_relative() {
        assert_eq!(variation(&[5.0, 5.0]), 0.0);
        assert_eq!(variation(&[1.0, 3.0]), 0.5);
    }

    /// Whoever cannot tell colours apart tells shapes or dashes apart.
    #[test]
    fn no_two_series_look_alike_without_colour() {
        let looks = Series::MODEL.map(look).map(|look| (look.shape, look.dashed));
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].iter().any(|other| other == look), "{look:?}");
        }
    }
}
