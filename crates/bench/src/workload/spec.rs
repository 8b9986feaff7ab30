//! A workload and its parameters, before it is made. It can be made several times, each with its own keys: runs on the same
//! server must not meet.

use super::{Workload, checkout, fair, hot, objects, rawmix, retwis, rubis, tpcc};

/// Which workload, with what parameters.
#[derive(Clone, Debug)]
pub enum WorkloadSpec {
    /// See [`rawmix`].
    RawMix(rawmix::Options),
    /// See [`hot`].
    Hot(hot::Options),
    /// See [`fair`].
    Fair(fair::Options),
    /// See [`rubis`].
    Rubis(rubis::Options),
    /// See [`retwis`].
    Retwis(retwis::Options),
    /// See [`checkout`].
    Checkout(checkout::Options),
    /// See [`objects`].
    Objects(objects::Options),
    /// See [`tpcc`].
    Tpcc(tpcc::Options),
}

impl WorkloadSpec {
    /// The name, as in `claret bench NAME`.
    pub fn name(&self) -> &'static str {
        match self {
            WorkloadSpec::RawMix(_) => rawmix::NAME,
            WorkloadSpec::Hot(_) => hot::NAME,
            WorkloadSpec::Fair(_) => fair::NAME,
            WorkloadSpec::Rubis(_) => rubis::NAME,
            WorkloadSpec::Retwis(_) => retwis::NAME,
            WorkloadSpec::Checkout(_) => checkout::NAME,
            WorkloadSpec::Objects(_) => objects::NAME,
            WorkloadSpec::Tpcc(_) => tpcc::NAME,
        }
    }

    /// Whether each record that it asks something of is one value.
    pub(crate) fn has_values(&self) -> bool {
        match self {
            WorkloadSpec::RawMix(_)
            | WorkloadSpec::Hot(_)
            | WorkloadSpec::Fair(_)
            | WorkloadSpec::Checkout(_)
            | WorkloadSpec::Objects(_) => true,
            WorkloadSpec::Rubis(_) | WorkloadSpec::Retwis(_) | WorkloadSpec::Tpcc(_) => false,
        }
    }

    /// The workload with `before` in front of all its keys.
    pub fn make(&self, before: &str) -> Box<dyn Workload> {
        let in_front = |prefix: &String| format!("{before}{prefix}");
        match self.clone() {
            WorkloadSpec::RawMix(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(rawmix::RawMix::new(rawmix::Options { prefix, ..options }))
            }
            WorkloadSpec::Hot(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(hot::Hot::new(hot::Options { prefix, ..options }))
            }
            WorkloadSpec::Fair(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(fair::Fair::new(&fair::Options { prefix, ..options }))
            }
            WorkloadSpec::Rubis(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(rubis::Rubis::new(rubis::Options { prefix, ..options }))
            }
            WorkloadSpec::Retwis(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(retwis::Retwis::new(retwis::Options { prefix, ..options }))
            }
            WorkloadSpec::Checkout(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(checkout::Checkout::new(checkout::Options { prefix, ..options }))
            }
            WorkloadSpec::Objects(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(objects::Objects::new(objects::Options { prefix, ..options }))
            }
            WorkloadSpec::Tpcc(options) => {
                let prefix = in_front(&options.prefix);
                Box::new(tpcc::Tpcc::new(tpcc::Options { prefix, ..options }))
            }
        }
    }
}
