//! Rows that are values: of the ORDER, ORDER-LINE and HISTORY tables. Columns are separated by spaces; the last one of some
//! may hold spaces itself. Money is in cents.

use std::fmt::Write;

use claret_types::Bytes;

/// What never changes of an order, an element of the district's list: its number is its place there, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrderRow {
    /// The client's name for it, unique in the district.
    pub(super) name: Bytes,
    pub(super) customer: u32,
    pub(super) entry: u64,
    /// `O_OL_CNT`.
    pub(super) count: u32,
    pub(super) is_local: bool,
    /// The items of its lines: what Stock-Level asks for.
    pub(super) items: Vec<u32>,
}

impl OrderRow {
    pub(super) fn to_bytes(&self) -> Bytes {
        let OrderRow { name, customer, entry, count, is_local, items } = self;
        let mut row = format!("{name} {customer} {entry} {count} {}", u8::from(*is_local));
        for item in items {
            write!(row, " {item}").expect("a string grows");
        }
        Bytes::from(row)
    }

    pub(super) fn parse(row: &Bytes) -> Option<Self> {
        let mut words = row.as_str()?.split(' ');
        let name = Bytes::from(words.next()?);
        let (customer, entry) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (count, local) = (words.next()?.parse().ok()?, words.next()?);
        let items = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(OrderRow { name, customer, entry, count, is_local: local == "1", items })
    }
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineRow {
    pub(super) item: u32,
    /// The warehouse that supplies it.
    pub(super) supply: u32,
    pub(super) quantity: i64,
    pub(super) amount: i64,
    pub(super) dist: Bytes,
}

impl LineRow {
    pub(super) fn to_bytes(&self) -> Bytes {
        let LineRow { item, supply, quantity, amount, dist } = self;
        Bytes::from(format!("{item} {supply} {quantity} {amount} {dist}"))
    }

    pub(super) fn parse(row: &Bytes) -> Option<Self> {
        let mut words = row.as_str()?.splitn(5, ' ');
        Some(LineRow {
            item: words.next()?.parse().ok()?,
            supply: words.next()?.parse().ok()?,
            quantity: words.next()?.parse().ok()?,
            amount: words.next()?.parse().ok()?,
            dist: words.next()?.into(),
        })
    }
}

/// A payment, in the set of the district that was paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistoryRow {
    /// Who paid: warehouse, district and number.
    pub(super) customer: (u32, u32, u32),
    pub(super) date: u64,
    pub(super) amount: i64,
    /// The client's name for it: two alike are two.
    pub(super) name: Bytes,
    pub(super) data: Bytes,
}

impl HistoryRow {
    pub(super) fn to_bytes(&self) -> Bytes {
        let HistoryRow { customer: (w, d, c), date, amount, name, data } = self;
        Bytes::from(format!("{w} {d} {c} {date} {amount} {name} {data}"))
    }

    pub(super) fn parse(row: &Bytes) -> Option<Self> {
        let mut words = row.as_str()?.splitn(7, ' ');
        let mut number = || words.next()?.parse::<u32>().ok();
        let customer = (number()?, number()?, number()?);
        Some(HistoryRow {
            customer,
            date: words.next()?.parse().ok()?,
            amount: words.next()?.parse().ok()?,
            name: words.next()?.into(),
            data: words.next()?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let order = OrderRow {
            name: "3-7".into(),
            customer: 9,
            entry: 5,
            count: 2,
            is_local: true,
            items: vec![4, 8],
        };
        assert_eq!(OrderRow::parse(&order.to_bytes()), Some(order));
        let line = LineRow { item: 4, supply: 1, quantity: 5, amount: 250, dist: "abc".into() };
        assert_eq!(LineRow::parse(&line.to_bytes()), Some(line));
        let data = "a name    another".into();
        let paid = HistoryRow { customer: (1, 2, 3), date: 4, amount: 1_000, name: "L3".into(), data };
        assert_eq!(HistoryRow::parse(&paid.to_bytes()), Some(paid));
        for broken in ["", "x", "1 2", "1 2 3 4 x y z"] {
            assert_eq!(HistoryRow::parse(&broken.into()), None, "{broken}");
        }
    }
}
