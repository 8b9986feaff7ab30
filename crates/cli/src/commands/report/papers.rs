//! What the papers on Claret publish as numbers, and where. Only numbers that their texts state are here: no point is read
//! off a plot.

use super::runs::Series;
use Series::{BoostPhase, Claret, None, Rw, RwPhase};

/// A number as it is stated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stated {
    Exactly(f64),
    About(f64),
    UpTo(f64),
}

impl Stated {
    pub(super) fn value(self) -> f64 {
        match self {
            Stated::Exactly(value) | Stated::About(value) | Stated::UpTo(value) => value,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Stated::Exactly(value) => value.to_string(),
            Stated::About(value) => format!("about {value}"),
            Stated::UpTo(value) => format!("up to {value}"),
        }
    }
}

/// What of ours is compared with it, by the panels of its figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    /// The peak throughput of the one mode over that of the other.
    Peaks(&'static [usize], Series, Series),
    /// The largest ratio of both at one point.
    Best(&'static [usize], Series, Series),
    /// The variation of throughput over time (standard deviation / mean) of the one over that of the other.
    Variation(usize, Series, Series),
}

/// A number, and where it is stated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// The figure of the full paper that it belongs to.
    pub(super) figure: &'static str,
    pub(super) what: &'static str,
    pub(super) stated: Stated,
    pub(super) ours: Measure,
    /// The paper, and the place in it.
    pub(super) source: (&'static str, &'static str),
}

/// A row of the table below: the figure, what is compared, the number, ours, the paper and the place in it.
type Row = (&'static str, &'static str, Stated, Measure, &'static str, &'static str);

/// Holt and others, *Claret: Using Data Types for Highly Concurrent Distributed Transactions*, the full paper.
const FULL: &str = "Claret (2015)";
/// Holt's dissertation, chapter 4.
const THESIS: &str = "Holt's dissertation (2016)";

use Measure::{Best, Peaks, Variation};
use Stated::{About, Exactly, UpTo};

#[rustfmt::skip]
const ROWS: [Row; 13] = [
    ("5", "raw mix: Claret / r/w locks", Exactly(2.6), Peaks(&[0], Claret, Rw), FULL, "caption of figure 5"),
    ("5", "raw mix: Claret / no transactions", Exactly(0.63), Peaks(&[0], Claret, None), FULL, "caption of figure 5; s.6.1"),
    ("7", "raw mix, best case: Claret / r/w locks", UpTo(49.0), Best(&[0, 1], Claret, Rw), FULL, "abstract, s.1; no figure is named"),
    ("7", "raw mix, best case: Claret / r/w locks", UpTo(50.0), Best(&[0, 1], Claret, Rw), THESIS, "s.4; no figure is named"),
    ("7", "raw mix, best case: Claret / no transactions", UpTo(1.2), Best(&[0, 1], Claret, None), FULL, "abstract; no figure is named"),
    ("9", "Rubis, best case: Claret / r/w locks", UpTo(4.3), Best(&[0, 1], Claret, Rw), FULL, "abstract, s.1; no figure is named"),
    ("9", "Rubis, bid-heavy: Claret / r/w locks", About(2.0), Peaks(&[1], Claret, Rw), FULL, "s.6.2 on figure 9"),
    ("9", "Rubis, bid-heavy: Claret / no transactions", Exactly(0.68), Peaks(&[1], Claret, None), FULL, "s.6.2 on figure 9"),
    ("11", "Rubis: variation over time, r/w / boosting, phased", Exactly(2.8), Variation(0, RwPhase, BoostPhase), FULL, "caption of figure 11"),
    ("13", "Retwis, best case: Claret / r/w locks, phased", UpTo(3.6), Best(&[0, 1], Claret, RwPhase), FULL, "abstract, s.1; no figure is named"),
    ("13", "Retwis, best case: Claret / no transactions", UpTo(0.82), Best(&[0, 1], Claret, None), FULL, "s.6.3 on figure 13"),
    ("13", "Retwis, post-heavy: boosting / r/w locks, phased", Exactly(2.0), Peaks(&[1], BoostPhase, RwPhase), THESIS, "caption of figure 4.7"),
    ("13", "Retwis, post-heavy: Claret / no transactions", About(0.7), Peaks(&[1], Claret, None), THESIS, "caption of figure 4.7: 30 % less"),
];

/// All of them.
pub(super) fn published() -> impl Iterator<Item = Published> {
    ROWS.into_iter().map(|(figure, what, stated, ours, paper, place)| Published {
        figure,
        what,
        stated,
        ours,
        source: (paper, place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_says_where_it_is_from_and_what_it_is() {
        for it in published() {
            assert!(!it.what.is_empty() && !it.source.1.is_empty() && it.stated.value() > 0.0, "{it:?}");
        }
        let texts: Vec<String> = published().take(4).map(|it| it.stated.text()).collect();
        assert_eq!(texts, ["2.6", "0.63", "up to 49", "up to 50"]);
    }
}
