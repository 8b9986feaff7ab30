//! How large the runs of a report are.

/// Sizes and times of all runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) name: &'static str,
    /// Virtual time of each mode. At first processes find out whether batches are worth it (B10): the raw mix without skew has 210,000
    /// transactions a second in 0.02 s, 380,000 in 0.06 s and 545,000 in half a second.
    pub(super) virtual_seconds: f64,
    /// Virtual time before that in which [`Series::Claret`](super::figures::Series) finds out which records it orders: that changes every
    /// two seconds at most.
    pub(super) settling_seconds: f64,
    /// Real time of each mode on servers.
    pub(super) server_seconds: f64,
    /// Clients in figure 5.
    pub(super) clients: &'static [usize],
    /// Shares of adds in percent.
    pub(super) adds: &'static [f64],
    /// Skews.
    pub(super) alphas: &'static [f64],
    /// Clients of Rubis and Retwis.
    pub(super) app_clients: &'static [usize],
    /// Sets of the raw mix.
    pub(super) keys: usize,
    /// Auctions.
    pub(super) items: usize,
    /// And on servers, where loading them takes longer than measuring.
    pub(super) server_items: usize,
    /// 2^users in Retwis.
    pub(super) users: u32,
    /// And in that of the workshop paper.
    pub(super) workshop_users: u32,
    /// Transactions that are looked at for distributions.
    pub(super) drawn: usize,
}

impl Scale {
    /// The papers' sizes.
    pub(super) const FULL: Scale = Scale {
        name: "full",
        virtual_seconds: 0.5,
        settling_seconds: 3.0,
        server_seconds: 2.0,
        clients: &[8, 16, 32, 64, 128, 256, 384],
        adds: &[0.0, 20.0, 40.0, 50.0, 60.0, 80.0, 100.0],
        alphas: &[0.0, 0.3, 0.6, 0.8, 1.0, 1.2],
        app_clients: &[16, 64, 128, 256, 384],
        keys: 10_000,
        items: 30_000,
        server_items: 30_000,
        users: 16,
        workshop_users: 12,
        drawn: 400_000,
    };
    /// A few minutes on two cores for the model.
    pub(super) const QUICK: Scale = Scale {
        name: "quick",
        virtual_seconds: 0.3,
        server_seconds: 0.5,
        clients: &[8, 64, 256, 384],
        adds: &[0.0, 20.0, 50.0, 100.0],
        alphas: &[0.0, 0.6, 1.0, 1.2],
        app_clients: &[16, 64, 256, 384],
        server_items: 3_000,
        users: 12,
        drawn: 100_000,
        ..Scale::FULL
    };
    /// A few seconds, to test the report itself: its figures mean nothing.
    pub(super) const TINY: Scale = Scale {
        name: "tiny",
        virtual_seconds: 0.002,
        settling_seconds: 0.002,
        server_seconds: 0.05,
        clients: &[8, 16],
        adds: &[0.0, 50.0, 100.0],
        alphas: &[0.6, 1.2],
        app_clients: &[8, 16],
        keys: 100,
        items: 200,
        server_items: 200,
        users: 6,
        workshop_users: 5,
        drawn: 2_000,
    };

    /// The number of clients where a figure has one: the papers' 256, or the most there are.
    pub(super) fn many(&self) -> usize {
        self.clients.iter().copied().filter(|clients| *clients <= 256).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scale_has_the_points_that_figures_compare() {
        for scale in [Scale::FULL, Scale::QUICK, Scale::TINY] {
            assert!(scale.adds.contains(&50.0) && scale.alphas.contains(&0.6), "{}", scale.name);
            assert!(scale.app_clients.contains(&scale.many()), "{}", scale.name);
            assert!(scale.clients.is_sorted() && scale.adds.is_sorted() && scale.alphas.is_sorted());
        }
        assert_eq!((Scale::FULL.many(), Scale::QUICK.many(), Scale::TINY.many()), (256, 256, 16));
    }
}
