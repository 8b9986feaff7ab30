//! TPC-C in the faulty simulator (`claret sim --workload tpcc`): the same clients on small tables, and the conditions at the end.
//!
//! A condition is a sum or a count over records of many transactions. So it shows what is half done, done twice or lost without
//! knowing how the store came to it.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use claret_sim::model::{self, Call as SimCall};
use claret_sim::{Read, Scenario};

use super::client::TpccClient;
use super::tables::{Options, Profile, Sizes, Tables};
use super::tally::Tally;
use super::{NAME, conditions, load};
use crate::workload::Call;
use crate::workload::simulated::{Simulated, given};

/// Tables so small that many meet: a run of the simulator has some fifty transactions.
const SIZES: Sizes = Sizes { items: 20, customers: 6, delivered: 4 };

/// Shares in percent: more of those that few would have.
const SHARES: [(Profile, f64); 5] = [
    (Profile::NewOrder, 35.0),
    (Profile::Payment, 30.0),
    (Profile::OrderStatus, 8.0),
    (Profile::Delivery, 17.0),
    (Profile::StockLevel, 10.0),
];

/// The workload as the simulator runs it.
#[derive(Debug)]
pub struct TpccScenario {
    tables: Arc<Tables>,
}

impl TpccScenario {
    /// With so many warehouses.
    pub fn new(warehouses: u32) -> Self {
        let options = Options { warehouses, ..Options::default() };
        TpccScenario { tables: Arc::new(Tables::small(options, SIZES, &SHARES)) }
    }
}

impl Scenario for TpccScenario {
    fn name(&self) -> &'static str {
        NAME
    }

    fn load(&self) -> Box<dyn Iterator<Item = SimCall> + '_> {
        Box::new(load::calls(&self.tables).map(given))
    }

    fn client(&self, number: u64, seed: u64) -> Box<dyn model::Client> {
        // What is acknowledged is not summed up: of some transactions nobody hears the end.
        let total = Arc::new(Mutex::new(Tally::new(&self.tables)));
        let client = TpccClient::new(self.tables.clone(), total, number, seed);
        Box::new(Simulated::new(Box::new(client), Rc::default()))
    }

    fn check(&self, read: Read<'_>) -> Result<Vec<String>, String> {
        let mut read = |calls: Vec<Call>| calls.into_iter().map(|call| read(&given(call))).collect();
        let broken = conditions::check(&self.tables, &mut read)?;
        Ok(broken.iter().map(ToString::to_string).collect())
    }
}
