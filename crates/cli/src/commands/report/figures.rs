//! The figures: what each runs, and what to see in it. Numbers of figures are those of the full paper of 2015; `w1` and `w4` are
//! those of the workshop paper of the same year.

use claret_bench::workload::retwis::RetwisMix;
use claret_bench::workload::rubis::RubisMix;

use super::runs::{Job, Load, Series};
use super::scale::Scale;

/// What a panel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Throughput by something; the text is that of the axis.
    Throughput(&'static str),
    /// Median latency against throughput, a point for each number of clients.
    Latency,
    /// How often a lock was waited for or refused.
    Conflicts,
    /// Throughput over time.
    Trace,
}

/// One chart.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// Where each point stands on the axis, and what is run there.
    pub(super) points: Vec<(f64, Load, usize)>,
    pub(super) series: &'static [Series],
}

impl Panel {
    /// The same on servers.
    pub(super) fn on_servers(&self) -> Panel {
        // Without locks nothing waits for one.
        let series = if self.kind == Kind::Conflicts { &Series::SERVERS[1..] } else { &Series::SERVERS };
        Panel { series, ..self.clone() }
    }

    pub(super) fn job(&self, point: &(f64, Load, usize), series: Series) -> Job {
        Job { load: point.1, clients: point.2, series }
    }
}

/// What a figure draws.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Measured(Vec<Panel>),
    /// Figure 8.
    Bids,
    /// Figure 12.
    FollowersAndReposts,
}

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Where the papers have it.
    pub(super) place: &'static str,
    /// What the papers say that is no number.
    pub(super) said: &'static str,
    /// What to see in ours.
    pub(super) see: &'static str,
    pub(super) body: Body,
}

impl Figure {
    pub(super) fn panels(&self) -> &[Panel] {
        match &self.body {
            Body::Measured(panels) => panels,
            Body::Bids | Body::FollowersAndReposts => &[],
        }
    }
}

const CLIENTS: Kind = Kind::Throughput("clients");
/// The papers leave out what has no phases on Retwis, because too many transactions failed.
const PHASED: &[Series] =
    &[Series::None, Series::RwPhase, Series::BoostPhase, Series::Combining, Series::Claret];
const TRACED: &[Series] = &[Series::RwPhase, Series::BoostPhase, Series::Combining];

const HALF: Load = Load::RawMix { adds: 50.0, alpha: 0.6 };

/// All figures, in the order of the papers.
pub(super) fn figures(scale: &Scale) -> Vec<Figure> {
    let mut all = raw_mix(scale);
    all.extend(rubis(scale));
    all.extend(retwis(scale));
    all.extend(workshop(scale));
    all
}

/// What the figures run, each once.
pub(super) fn jobs<'a>(panels: impl Iterator<Item = &'a Panel>) -> Vec<Job> {
    let mut jobs = Vec::new();
    for panel in panels {
        for point in &panel.points {
            for series in panel.series {
                let job = panel.job(point, *series);
                if !jobs.contains(&job) {
                    jobs.push(job);
                }
            }
        }
    }
    jobs
}

fn by_adds(scale: &Scale, alpha: f64) -> Vec<(f64, Load, usize)> {
    scale.adds.iter().map(|adds| (*adds, Load::RawMix { adds: *adds, alpha }, scale.many())).collect()
}

fn by_alpha(scale: &Scale, adds: f64) -> Vec<(f64, Load, usize)> {
    scale.alphas.iter().map(|alpha| (*alpha, Load::RawMix { adds, alpha: *alpha }, scale.many())).collect()
}

fn by_clients(clients: &[usize], load: Load) -> Vec<(f64, Load, usize)> {
    clients.iter().map(|clients| (*clients as f64, load, *clients)).collect()
}

fn panel(
    title: &'static str,
    kind: Kind,
    points: Vec<(f64, Load, usize)>,
    series: &'static [Series],
) -> Panel {
    Panel { title, kind, points, series }
}

fn raw_mix(scale: &Scale) -> Vec<Figure> {
    let all = &Series::MODEL;
    let skew = Kind::Throughput("skew of the keys (Zipf alpha; 0 is uniform)");
    vec![
        Figure {
            id: "5",
            title: "Raw mix, more and more clients",
            place: "Claret (2015), figure 5; dissertation, figure 4.3",
            said: "Reader/writer locks peak with few clients; boosting helps somewhat, phases much more.",
            see: "Without phases a line stops moving to the right early and climbs; none is the bound to all others.",
            body: Body::Measured(vec![panel(
                "50 % adds, alpha 0.6",
                Kind::Latency,
                by_clients(scale.clients, HALF),
                all,
            )]),
        },
        Figure {
            id: "6",
            title: "Raw mix, the share of adds",
            place: "Claret (2015), figure 6; dissertation, figure 4.4",
            said: "From 20 % adds on throughput plummets without phases; with more adds boosting matters.",
            see: "Reader/writer locks only fall from left to right; where operations commute, adds alone are fast again.",
            body: Body::Measured(vec![panel(
                "alpha 0.6",
                Kind::Throughput("adds, % of operations"),
                by_adds(scale, 0.6),
                all,
            )]),
        },
        Figure {
            id: "7",
            title: "Raw mix, the skew of the keys",
            place: "Claret (2015), figure 7; dissertation, figure 4.5",
            said: "With skew boosting is essential; at extreme skew combining even passes the store without transactions.",
            see: "Adds alone keep most of their throughput at any skew; beside reads of the whole only Claret does, which orders the calls there.",
            body: Body::Measured(vec![
                panel("50 % adds", skew, by_alpha(scale, 50.0), all),
                panel("100 % adds (not in the papers)", skew, by_alpha(scale, 100.0), all),
            ]),
        },
    ]
}

fn rubis(scale: &Scale) -> Vec<Figure> {
    let (reads, bids) = (Load::Rubis(RubisMix::ReadHeavy), Load::Rubis(RubisMix::BidHeavy));
    let many = vec![(scale.many() as f64, bids, scale.many())];
    vec![
        Figure {
            id: "8",
            title: "Rubis, bids by item and over time",
            place: "Claret (2015), figure 8",
            said: "Bids by item follow a power law; bids come faster toward the close.",
            see: "A straight line on two logarithmic axes is a power law; most bids come in the last tenth.",
            body: Body::Bids,
        },
        Figure {
            id: "9",
            title: "Rubis, throughput",
            place: "Claret (2015), figure 9; dissertation, figure 4.7 (a)",
            said: "With many bids boosting keeps the throughput of the read-heavy mix; r/w locks do not.",
            see: "In both mixes boosting is above r/w locks, most of all with phases.",
            body: Body::Measured(vec![
                panel("read-heavy", CLIENTS, by_clients(scale.app_clients, reads), &Series::MODEL),
                panel("bid-heavy", CLIENTS, by_clients(scale.app_clients, bids), &Series::MODEL),
            ]),
        },
        Figure {
            id: "10",
            title: "Rubis, conflicts",
            place: "Claret (2015), figure 10; dissertation, figure 4.8",
            said: "Boosting removes most conflicts between bids, phases most of the rest.",
            see: "Requests that waited for a lock or were refused it, all pairs of transactions together.",
            body: Body::Measured(vec![panel(
                "bid-heavy: requests that met a conflict",
                Kind::Conflicts,
                many.clone(),
                &[
                    Series::Rw,
                    Series::RwPhase,
                    Series::Boost,
                    Series::BoostPhase,
                    Series::Combining,
                    Series::Claret,
                ],
            )]),
        },
        Figure {
            id: "11",
            title: "Rubis, throughput over time",
            place: "Claret (2015), figure 11",
            said: "Bursts of bids show as drops; boosting smooths them.",
            see: "Each line is one run in ten parts; the flatter it is, the less bursts of bids hurt.",
            body: Body::Measured(vec![panel("bid-heavy", Kind::Trace, many, TRACED)]),
        },
    ]
}

fn retwis(scale: &Scale) -> Vec<Figure> {
    let of = |mix| by_clients(scale.app_clients, Load::Retwis(mix, scale.users));
    vec![
        Figure {
            id: "12",
            title: "Retwis, followers by user and reposts by post",
            place: "Claret (2015), figure 12; workshop paper, figures 2 and 3",
            said: "Both follow a power law. A user has 16 followers on average; some posts reach over a quarter of all users.",
            see: "Both lines fall over several decades: a few users and posts have most of it.",
            body: Body::FollowersAndReposts,
        },
        Figure {
            id: "13",
            title: "Retwis, throughput",
            place: "Claret (2015), figure 13; dissertation, figure 4.7 (b)",
            said: "R/w locks keep up while most is reading; with many posts they fall off much more than boosting.",
            see: "Only modes with phases, as in the papers. Runs are short; over a second the modes with locks alone slow down.",
            body: Body::Measured(vec![
                panel("read-heavy", CLIENTS, of(RetwisMix::ReadHeavy), PHASED),
                panel("post-heavy", CLIENTS, of(RetwisMix::PostHeavy), PHASED),
            ]),
        },
    ]
}

fn workshop(scale: &Scale) -> Vec<Figure> {
    let adds = Kind::Throughput("adds, % of operations");
    let of = |mix| by_clients(scale.app_clients, Load::Retwis(mix, scale.workshop_users));
    vec![
        Figure {
            id: "w1",
            title: "Raw operations on sets, uniform and skewed",
            place: "Workshop paper (2015), figure 1",
            said: "Commutative transactions are always faster, most of all with updates and skew.",
            see: "With phases as without, locks that know the operations are never below the others; skew widens the gap.",
            body: Body::Measured(vec![
                panel("uniform", adds, by_adds(scale, 0.0), &Series::MODEL),
                panel("alpha 0.6", adds, by_adds(scale, 0.6), &Series::MODEL),
            ]),
        },
        Figure {
            id: "w4",
            title: "Retwis, 4,000 users",
            place: "Workshop paper (2015), figure 4",
            said: "The baseline falls over when posts spread; commutative transactions go on scaling.",
            see: "As figure 13, with fewer users and so more of them at each timeline.",
            body: Body::Measured(vec![
                panel("read-heavy", CLIENTS, of(RetwisMix::ReadHeavy), PHASED),
                panel("post-heavy", CLIENTS, of(RetwisMix::PostHeavy), PHASED),
            ]),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::papers::{Measure, published};

    /// Whatever is compared with a published number is run.
    #[test]
    fn every_published_number_has_a_figure_with_what_it_compares() {
        let all = figures(&Scale::TINY);
        for it in published() {
            let figure = all.iter().find(|figure| figure.id == it.figure).expect("a figure");
            let (panels, over, under) = match it.ours {
                Measure::Peaks(panels, over, under) | Measure::Best(panels, over, under) => {
                    (panels.to_vec(), over, under)
                }
                Measure::Variation(panel, over, under) => (vec![panel], over, under),
            };
            for panel in panels {
                let series = figure.panels()[panel].series;
                assert!(series.contains(&over) && series.contains(&under), "{it:?}");
            }
        }
    }

    #[test]
    fn what_several_figures_show_is_run_once() {
        let all = figures(&Scale::QUICK);
        let panels = || all.iter().flat_map(Figure::panels);
        let asked: usize = panels().map(|panel| panel.points.len() * panel.series.len()).sum();
        let jobs = jobs(panels());
        assert!(jobs.len() < asked);
        for (at, job) in jobs.iter().enumerate() {
            assert!(!jobs[..at].contains(job), "{job:?}");
        }
    }
}
