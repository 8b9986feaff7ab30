//! TPC-C (revision 5.11, clauses 1 and 2): a wholesaler's warehouses, their districts and their customers.
//!
//! All nine tables, the five transactions and their mix, without terminals and think times. The records, for warehouse `w`,
//! district `d`, customer `c`, item `i`:
//!
//! | key | type | table | holds |
//! |---|---|---|---|
//! | `warehouse:{w}` | Dict | WAREHOUSE | `ytd` and the rest of the row |
//! | `district:{w:d}` | Dict | DISTRICT | `ytd` and the rest of the row, without the next number |
//! | `customer:{w:d:c}` | Dict | CUSTOMER | the row, and `order`, the name of the latest order |
//! | `names:{w:d}` | Dict | | last name: its customers, by first name |
//! | `history:{w:d}` | Set | HISTORY | a member for each payment to the district |
//! | `orders:{w:d}` | List | ORDER | what never changes of an order; its number is its place, from 1 |
//! | `order:{w:d}:name` | Dict | ORDER, ORDER-LINE | `customer`, `carrier` once delivered, `1` to `15` the lines, `d1` to `d15` when they were delivered |
//! | `new:{w:d}` | List, as a Queue | NEW-ORDER | names of the orders that are not delivered |
//! | `item:i` | Dict | ITEM | the row |
//! | `stock:{w:i}` | Dict | STOCK | `ytd`, `order_cnt`, `remote_cnt`, the rest of the row |
//! | `quantity:{w:i}` | BoundedCounter | STOCK | `S_QUANTITY` |
//! | `tpcc:parameters` | Dict | | what was loaded: for a check without the run |
//!
//! An order's number is bound as it commits, so nothing can be named by it: orders are named by their clients. Whatever
//! is only added to is added to by increments; the stock turns on a ring (`BDECRBY.WRAP`).

mod calls;
mod client;
pub mod conditions;
mod hand;
mod load;
mod new_order;
mod order_status;
mod payment;
mod random;
mod rows;
mod scenario;
mod tables;
mod tally;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use claret_types::Reply;

use super::{Batches, Call, Client, Kind, Promise, Run, Violation, Workload, batches};
use client::TpccClient;
pub use scenario::TpccScenario;
pub use tables::{Options, Placing, Profile, Sizes, Tables};
use tally::Tally;

/// Its name.
pub(super) const NAME: &str = "tpcc";

/// The kind whose commits are counted by the minute.
pub const NEW_ORDER: &str = "new-order";

/// Kinds, in the order of [`Profile`].
const KINDS: &[Kind] = &[
    Kind::action(NEW_ORDER),
    Kind::action("payment"),
    Kind::action("order-status"),
    Kind::action("delivery"),
    Kind::action("stock-level"),
];

/// The workload.
#[derive(Debug)]
pub struct Tpcc {
    tables: Arc<Tables>,
}

impl Tpcc {
    /// With these parameters.
    pub fn new(options: Options) -> Self {
        Tpcc { tables: Arc::new(Tables::new(options)) }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn load(&self) -> Batches<'_> {
        batches(load::calls(&self.tables))
    }

    fn run(&self) -> Box<dyn Run> {
        Box::new(TpccRun {
            tables: self.tables.clone(),
            clients: AtomicU64::new(0),
            total: Arc::new(Mutex::new(Tally::new(&self.tables))),
        })
    }
}

struct TpccRun {
    tables: Arc<Tables>,
    /// How many clients there are so far: each has names of its own.
    clients: AtomicU64,
    total: Arc<Mutex<Tally>>,
}

impl Run for TpccRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        Box::new(TpccClient::new(self.tables.clone(), self.total.clone(), number, seed))
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).verify(&self.tables, promise, read)
    }
}
