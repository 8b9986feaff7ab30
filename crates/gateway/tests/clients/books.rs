//! What programs say that they did, what the server has in the end, and what of the two does not agree.

use std::collections::{BTreeMap, BTreeSet};

use claret_rig::connect;

/// What both accounts have together.
pub(crate) const TOTAL: i64 = 2_000;

/// How many there are to sell.
pub(crate) const STOCK: i64 = 100_000;

/// Where the server is.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Of a server or a gateway on this machine.
    pub(crate) fn local(port: u16) -> Self {
        Address { host: "127.0.0.1".to_owned(), port }
    }

    /// A connection of the tests' own.
    pub(crate) fn connection(&self) -> redis::Connection {
        connect(&format!("redis://{}:{}", self.host, self.port)).expect("the server answers")
    }
}

/// The line that a program prints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The client with its version.
    pub(crate) client: String,
    /// What its ids begin with.
    pub(crate) worker: String,
    /// How often it was to do its work.
    pub(crate) count: u64,
    pub(crate) committed: u64,
    pub(crate) attempts: u64,
    pub(crate) unknown_ids: BTreeSet<String>,
    pub(crate) errors: Vec<String>,
}

impl Outcome {
    /// Of what a program printed. An error names what is not as it should be.
    pub(crate) fn parse(worker: &str, count: u64, printed: &str) -> Result<Self, String> {
        let line =
            printed.lines().rev().find(|line| line.starts_with('{')).ok_or("it printed no line of JSON")?;
        let line: serde_json::Value =
            serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let number = |name: &str| line[name].as_u64().ok_or(format!("{name} is no number: {line}"));
        let texts = |name: &str| -> Result<Vec<String>, String> {
            let list = line[name].as_array().ok_or(format!("{name} is no list: {line}"))?;
            Ok(list.iter().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).collect())
        };
        let unknown_ids: BTreeSet<String> = texts("unknown_ids")?.into_iter().collect();
        if number("unknown")? != unknown_ids.len() as u64 {
            return Err(format!("it counts other unknown ones than it names: {line}"));
        }
        Ok(Outcome {
            client: line["client"].as_str().ok_or("it names no client")?.to_owned(),
            worker: worker.to_owned(),
            count,
            committed: number("committed")?,
            attempts: number("attempts")?,
            unknown_ids,
            errors: texts("errors")?,
        })
    }
}

/// What the server has when all programs have ended, read at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub(crate) ada: i64,
    pub(crate) bob: i64,
    pub(crate) ledger: BTreeMap<String, i64>,
    pub(crate) transfers: Vec<String>,
    pub(crate) stock: i64,
    pub(crate) sold: i64,
    pub(crate) sales: Vec<String>,
}

impl Books {
    /// As they are before the work.
    pub(crate) fn open(address: &Address) {
        let mut pipe = redis::pipe();
        pipe.cmd("DEL").arg(&["ledger", "transfers", "sales"]).ignore();
        pipe.set("account:ada", TOTAL / 2).ignore().set("account:bob", TOTAL / 2).ignore();
        pipe.set("stock:1", STOCK).ignore().set("sold:1", 0).ignore();
        pipe.exec(&mut address.connection()).expect("the server takes what the work begins with");
    }

    /// As they are now.
    pub(crate) fn read(address: &Address) -> Self {
        let mut pipe = redis::pipe();
        pipe.atomic().get("account:ada").get("account:bob").hgetall("ledger").lrange("transfers", 0, -1);
        pipe.get("stock:1").get("sold:1").lrange("sales", 0, -1);
        let (ada, bob, ledger, transfers, stock, sold, sales) =
            pipe.query(&mut address.connection()).expect("the server tells what it has");
        Books { ada, bob, ledger, transfers, stock, sold, sales }
    }

    /// What is wrong after transfers.
    pub(crate) fn problems_of_transfers(&self, outcomes: &[Outcome]) -> Vec<String> {
        let mut problems = problems_of_ids("transfers", &self.transfers, outcomes);
        if self.ada + self.bob != TOTAL {
            problems.push(format!("ada has {} and bob {}, which do not make {TOTAL}", self.ada, self.bob));
        }
        let moved: i64 = self.ledger.values().sum();
        if self.ada != TOTAL / 2 - moved {
            problems.push(format!("ada has {}, and the ledger has it that {moved} left it", self.ada));
        }
        let (listed, entered): (BTreeSet<&String>, BTreeSet<&String>) =
            (self.transfers.iter().collect(), self.ledger.keys().collect());
        let alone = listed.symmetric_difference(&entered);
        problems.extend(alone.map(|id| format!("{id} is in one of list and ledger alone")));
        problems
    }

    /// What is wrong after sales.
    pub(crate) fn problems_of_sales(&self, outcomes: &[Outcome]) -> Vec<String> {
        let mut problems = problems_of_ids("sales", &self.sales, outcomes);
        if self.stock + self.sold != STOCK {
            problems.push(format!("{} left and {} sold, of {STOCK}", self.stock, self.sold));
        }
        if self.sold != self.sales.len() as i64 {
            problems.push(format!("{} sold, and {} sales", self.sold, self.sales.len()));
        }
        problems
    }
}

/// Each id that was committed is there once, one that is unknown at most once, and no other is there.
fn problems_of_ids(list: &str, ids: &[String], outcomes: &[Outcome]) -> Vec<String> {
    let mut times = BTreeMap::new();
    for id in ids {
        *times.entry(id.as_str()).or_insert(0) += 1;
    }
    let mut problems = Vec::new();
    for outcome in outcomes {
        let who = &outcome.client;
        problems.extend(outcome.errors.iter().map(|error| format!("{who}, {}: {error}", outcome.worker)));
        if outcome.committed + outcome.unknown_ids.len() as u64 != outcome.count {
            problems.push(format!(
                "{who}, {}: {} committed and {} unknown, of {}",
                outcome.worker,
                outcome.committed,
                outcome.unknown_ids.len(),
                outcome.count
            ));
        }
        for id in (0..outcome.count).map(|number| format!("{}-{number}", outcome.worker)) {
            match (times.remove(id.as_str()).unwrap_or(0), outcome.unknown_ids.contains(&id)) {
                (1, _) | (0, true) => {}
                (found, _) => problems.push(format!("{who}: {id} is {found} times among {list}")),
            }
        }
    }
    problems.extend(times.keys().map(|id| format!("{id} is among {list}, and nobody did that")));
    problems
}

/// Books and what programs said, which agree, to be made wrong.
#[cfg(test)]
fn right() -> (Books, Vec<Outcome>) {
    let ids = || vec!["a-0".to_owned(), "a-1".to_owned()];
    let books = Books {
        ada: TOTAL / 2 - 3,
        bob: TOTAL / 2 + 3,
        ledger: BTreeMap::from([("a-0".to_owned(), 5), ("a-1".to_owned(), -2)]),
        transfers: ids(),
        stock: STOCK - 2,
        sold: 2,
        sales: ids(),
    };
    let outcome = Outcome { worker: "a".into(), count: 2, committed: 2, attempts: 2, ..Outcome::default() };
    (books, vec![outcome])
}

#[test]
fn books_that_do_not_agree_are_found() {
    let (books, outcomes) = right();
    assert_eq!(books.problems_of_transfers(&outcomes), Vec::<String>::new());
    assert_eq!(books.problems_of_sales(&outcomes), Vec::<String>::new());
    type Spoil = fn(&mut Books);
    let wrong: [(&str, Spoil); 9] = [
        ("which do not make", |books| books.bob += 1),
        ("the ledger has it", |books| (books.ada, books.bob) = (books.ada + 1, books.bob - 1)),
        ("a-1 is 0 times among transfers", |books| books.transfers.truncate(1)),
        ("a-0 is 2 times among transfers", |books| books.transfers.push("a-0".to_owned())),
        ("b-0 is among transfers, and nobody", |books| books.transfers.push("b-0".to_owned())),
        ("a-1 is in one of list and ledger alone", |books| books.ledger.retain(|id, _| id != "a-1")),
        ("1 sold, of", |books| books.sold = 1),
        ("a-1 is 0 times among sales", |books| books.sales.truncate(1)),
        ("3 sold, and 2 sales", |books| (books.stock, books.sold) = (STOCK - 3, 3)),
    ];
    for (words, spoil) in wrong {
        let (mut books, outcomes) = right();
        spoil(&mut books);
        let found = [books.problems_of_transfers(&outcomes), books.problems_of_sales(&outcomes)].concat();
        assert!(found.iter().any(|problem| problem.contains(words)), "{words}: {found:?}");
    }
}

#[test]
fn an_unknown_outcome_may_be_either_and_not_both() {
    let (mut books, mut outcomes) = right();
    outcomes[0].committed = 1;
    outcomes[0].unknown_ids.insert("a-1".to_owned());
    assert_eq!(books.problems_of_sales(&outcomes), Vec::<String>::new());
    books.sales.push("a-1".to_owned());
    (books.stock, books.sold) = (STOCK - 3, 3);
    assert_eq!(books.problems_of_sales(&outcomes).len(), 1, "it was sold twice");
    books.sales.truncate(1);
    (books.stock, books.sold) = (STOCK - 1, 1);
    assert_eq!(books.problems_of_sales(&outcomes), Vec::<String>::new());
    outcomes[0].unknown_ids.clear();
    assert_eq!(books.problems_of_sales(&outcomes).len(), 2, "it is neither done nor unknown: {outcomes:?}");
}

#[test]
fn what_a_program_prints_is_read_or_refused() {
    let line = r#"{"client":"c 1","mode":"watch","committed":1,"unknown":1,"attempts":3,"unknown_ids":["a-1"],"errors":[]}"#;
    let outcome = Outcome::parse("a", 2, &format!("a warning\n{line}\n")).expect("it is right");
    assert_eq!((outcome.client.as_str(), outcome.committed, outcome.attempts), ("c 1", 1, 3));
    for wrong in [
        "",
        "{",
        &line.replace("\"unknown\":1", "\"unknown\":2"),
        &line.replace("\"errors\":[]", "\"errors\":1"),
    ] {
        assert!(Outcome::parse("a", 2, wrong).is_err(), "{wrong}");
    }
}
