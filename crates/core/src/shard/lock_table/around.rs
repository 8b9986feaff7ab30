//! What operations on one record use of the table around it, borrowed together.

use super::counts::Counts;
use super::executor::Executor;
use super::hot::Hot;
use super::idle::IdleLocks;
use super::lock::ways::ordered::clocks::Clocks;
use super::outbox::Outbox;
use crate::limits::Limits;
use crate::switches::Switches;

/// See the module's text.
pub(super) struct Around<'a> {
    pub(super) switches: &'a Switches,
    pub(super) limits: &'a Limits,
    pub(super) executor: &'a mut Executor,
    pub(super) idle: &'a mut IdleLocks,
    pub(super) clocks: &'a mut Clocks,
    pub(super) hot: &'a mut Hot,
    pub(super) outbox: &'a mut Outbox,
    pub(super) counts: &'a mut Counts,
}
