//! Parameters, the sizes of the tables, and the names of their records.

use claret_types::Bytes;

use super::random::Constants;
use crate::workload::{Mix, names};

/// The transactions, by their index in [`Workload::kinds`](crate::workload::Workload::kinds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Profile {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// Shares in percent (clause 5.2.3).
const SHARES: [(Profile, f64); 5] = [
    (Profile::NewOrder, 45.0),
    (Profile::Payment, 43.0),
    (Profile::OrderStatus, 4.0),
    (Profile::Delivery, 4.0),
    (Profile::StockLevel, 4.0),
];

/// Districts of a warehouse, at any scale.
pub(super) const DISTRICTS: u32 = 10;

/// The most warehouses.
const WAREHOUSES_MAX: u32 = 100_000;

/// About what the records of a warehouse take, embedded, in bytes (`docs/workloads.md` has the measurement).
const BYTES_PER_ITEM: u64 = 500;
const BYTES_PER_STOCK: u64 = 1_600;
const BYTES_PER_CUSTOMER: u64 = 6_800;

/// On which shards the records of a warehouse are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// Wherever their keys fall; those of a district together.
    #[default]
    Spread,
    /// All on one, with a copy of the items.
    Warehouse,
}

impl Placing {
    /// Its name, as in `--place`.
    pub fn name(self) -> &'static str {
        match self {
            Placing::Spread => "spread",
            Placing::Warehouse => "warehouse",
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    /// Names the input and lists what there is.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "spread" => Ok(Placing::Spread),
            "warehouse" => Ok(Placing::Warehouse),
            other => Err(format!("there is no place '{other}'; the places are spread, warehouse")),
        }
    }
}

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// How many warehouses.
    pub warehouses: u32,
    /// Scale of items and customers: 1 is the standard's.
    pub scale: f64,
    /// On which shards a warehouse is.
    pub place: Placing,
    /// What the loaded rows are made from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { prefix: String::new(), warehouses: 1, scale: 1.0, place: Placing::Spread, seed: 1 }
    }
}

impl Options {
    /// Refuses numbers out of their range.
    ///
    /// # Errors
    /// Names the number and the range.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=WAREHOUSES_MAX).contains(&self.warehouses) {
            return Err(format!("--warehouses {}: from 1 to {WAREHOUSES_MAX}", self.warehouses));
        }
        if !(0.0..=1.0).contains(&self.scale) || self.scale == 0.0 {
            return Err(format!("--scale {}: more than 0, and 1 at most", self.scale));
        }
        Ok(())
    }

    /// How large the tables are.
    pub fn sizes(&self) -> Sizes {
        let scaled = |full: u32, least: u32| ((f64::from(full) * self.scale) as u32).clamp(least, full);
        let customers = scaled(3_000, 30);
        Sizes { items: scaled(100_000, 100), customers, delivered: customers * 7 / 10 }
    }

    /// About how many bytes the loaded records take.
    pub fn bytes(&self) -> u64 {
        let Sizes { items, customers, .. } = self.sizes();
        let [items, customers] = [items, customers].map(u64::from);
        let warehouses = u64::from(self.warehouses);
        let copies = match self.place {
            Placing::Spread => 1,
            Placing::Warehouse => warehouses,
        };
        let customers = customers * u64::from(DISTRICTS) * BYTES_PER_CUSTOMER;
        copies * items * BYTES_PER_ITEM + warehouses * (items * BYTES_PER_STOCK + customers)
    }
}

/// Sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Items, and so records of stock in each warehouse.
    pub items: u32,
    /// Customers of each district, and orders loaded there.
    pub customers: u32,
    /// How many of these orders are delivered: the first ones.
    pub delivered: u32,
}

impl Sizes {
    /// How many last names there are.
    pub(super) fn names(self) -> u32 {
        self.customers.min(1_000)
    }
}

/// What loading, clients and checks know of the tables.
#[derive(Debug)]
pub struct Tables {
    /// Parameters.
    pub options: Options,
    /// Sizes.
    pub sizes: Sizes,
    pub(super) at_load: Constants,
    pub(super) at_run: Constants,
    pub(super) mix: Mix<Profile>,
}

impl Tables {
    /// With these parameters.
    pub fn new(options: Options) -> Self {
        let (at_load, at_run) = Constants::new(options.seed);
        Tables { sizes: options.sizes(), options, at_load, at_run, mix: Mix::new(&SHARES) }
    }

    /// With other sizes and shares than those of the scale.
    pub(super) fn small(options: Options, sizes: Sizes, shares: &[(Profile, f64)]) -> Self {
        Tables { sizes, mix: Mix::new(shares), ..Tables::new(options) }
    }

    /// All districts: warehouse and number, from 1.
    pub(super) fn districts(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        (1..=self.options.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
    }

    /// The place of a district among all.
    pub(super) fn district_at(&self, (w, d): (u32, u32)) -> usize {
        ((w - 1) * DISTRICTS + d - 1) as usize
    }

    /// `table:{w:more}`, or `table:{w}:more` where a warehouse is on one shard; and `:name` behind it.
    fn key(&self, table: &str, w: u32, more: &[u32], name: Option<&Bytes>) -> Bytes {
        let mut key = Bytes::from(&self.options.prefix);
        key.extend(table.as_bytes());
        key.extend(b":{");
        let number = |key: &mut Bytes, number: u32| {
            key.extend(names::Digits::of(u64::from(number)).as_bytes());
        };
        number(&mut key, w);
        let is_whole = self.options.place == Placing::Warehouse;
        if is_whole {
            key.extend(b"}");
        }
        for part in more {
            key.extend(b":");
            number(&mut key, *part);
        }
        if !is_whole {
            key.extend(b"}");
        }
        if let Some(name) = name {
            key.extend(b":");
            key.extend(name);
        }
        key
    }

    pub(super) fn warehouse(&self, w: u32) -> Bytes {
        self.key("warehouse", w, &[], None)
    }

    pub(super) fn district(&self, (w, d): (u32, u32)) -> Bytes {
        self.key("district", w, &[d], None)
    }

    pub(super) fn customer(&self, (w, d): (u32, u32), c: u32) -> Bytes {
        self.key("customer", w, &[d, c], None)
    }

    pub(super) fn names(&self, (w, d): (u32, u32)) -> Bytes {
        self.key("names", w, &[d], None)
    }

    pub(super) fn history(&self, (w, d): (u32, u32)) -> Bytes {
        self.key("history", w, &[d], None)
    }

    pub(super) fn orders(&self, (w, d): (u32, u32)) -> Bytes {
        self.key("orders", w, &[d], None)
    }

    pub(super) fn order(&self, (w, d): (u32, u32), name: &Bytes) -> Bytes {
        self.key("order", w, &[d], Some(name))
    }

    pub(super) fn new_orders(&self, (w, d): (u32, u32)) -> Bytes {
        self.key("new", w, &[d], None)
    }

    pub(super) fn stock(&self, w: u32, item: u32) -> Bytes {
        self.key("stock", w, &[item], None)
    }

    pub(super) fn quantity(&self, w: u32, item: u32) -> Bytes {
        self.key("quantity", w, &[item], None)
    }

    /// An item, as a warehouse sees it.
    pub(super) fn item(&self, w: u32, item: u32) -> Bytes {
        match self.options.place {
            Placing::Spread => {
                let mut key = Bytes::from(&self.options.prefix);
                key.extend(&names::numbered("item:", u64::from(item)));
                key
            }
            Placing::Warehouse => self.key("item", w, &[item], None),
        }
    }

    pub(super) fn parameters(&self) -> Bytes {
        Bytes::from(format!("{}{}", self.options.prefix, PARAMETERS))
    }
}

/// What the key of the parameters ends with.
pub(super) const PARAMETERS: &str = "tpcc:parameters";

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(place: Placing) -> Tables {
        Tables::new(Options { prefix: "p:".into(), place, ..Options::default() })
    }

    #[test]
    fn keys_of_a_district_share_a_slot_and_those_of_a_warehouse_where_asked() {
        let spread = tables(Placing::Spread);
        assert_eq!(spread.orders((3, 4)), Bytes::from("p:orders:{3:4}"));
        assert_eq!(spread.order((3, 4), &"7-1".into()), Bytes::from("p:order:{3:4}:7-1"));
        assert_eq!(spread.customer((3, 4), 5), Bytes::from("p:customer:{3:4:5}"));
        assert_eq!(spread.item(3, 9), Bytes::from("p:item:9"));
        let whole = tables(Placing::Warehouse);
        assert_eq!(whole.order((3, 4), &"7-1".into()), Bytes::from("p:order:{3}:4:7-1"));
        assert_eq!((whole.item(3, 9), whole.stock(3, 9)), ("p:item:{3}:9".into(), "p:stock:{3}:9".into()));
        assert_eq!(whole.warehouse(3), spread.warehouse(3));
    }

    #[test]
    fn sizes_are_the_standards_at_scale_one() {
        let sizes = Options::default().sizes();
        assert_eq!((sizes.items, sizes.customers, sizes.delivered), (100_000, 3_000, 2_100));
        let small = Options { scale: 0.000_1, ..Options::default() }.sizes();
        assert_eq!((small.items, small.customers, small.delivered), (100, 30, 21));
    }
}
