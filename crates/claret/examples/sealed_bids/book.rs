//! A custom type: the book of a sealed-bid auction in which the highest bid wins and pays the second
//! highest (Vickrey, 1961). Native Redis type: hash.
//!
//! Bids are what an auction is flooded with in its last seconds, and they commute: nobody sees another's
//! bid, and of several bids of one bidder the highest counts, in whatever order they come. So a thousand
//! bids share the book's lock, and only closing waits for them. Ties go to the bidder whose name comes first
//! bytewise, since "who was first" would depend on the order. A lone bidder pays 1, the smallest bid there
//! can be.
//!
//! # Commutativity specification
//!
//! "b stands" means: has a bid in the book, the transaction's own earlier changes included.
//!
//! | operation | when | claims |
//! |---|---|---|
//! | `BID b n` (void) | b does not stand | `enter` on b |
//! | `BID b n` (void) | b stands below n | `raise` on b |
//! | `BID b n` (void) | b stands at n or above | `backed` on b |
//! | `WITHDRAW b` (void) | b stands | `withdraw` on b |
//! | `WITHDRAW b` (void) | b does not stand | `absent` on b |
//! | `STANDING b` | open | `look` on b |
//! | `BIDDERS` | open | `count` on the record |
//! | `STATUS` | open | `status` on the record |
//! | `CLOSE` | open | `close` on the record |
//! | `STANDING`, `BIDDERS`, `STATUS`, `CLOSE` | closed | nothing: a closed book never changes |
//! | `BID`, `WITHDRAW` | closed | refused |
//!
//! Claims on different bidders never conflict. On one bidder, or with the record:
//!
//! | | enter | raise | backed | withdraw | absent | look | count | status | close |
//! |---|---|---|---|---|---|---|---|---|---|
//! | enter | | | | x | x | x | x | | x |
//! | raise | | | | x | x | x | | | x |
//! | backed | | | | x | x | | | | x |
//! | withdraw | x | x | x | | | x | x | | x |
//! | absent | x | x | x | | | | | | x |
//! | look | x | x | | x | | | | | |
//! | count | x | | | x | | | | | |
//! | status | | | | | | | | | x |
//! | close | x | x | x | x | x | | | x | |
//!
//! Two that close at once agree on the verdict, so `close` does not conflict with itself.

use std::collections::BTreeMap;

use claret_types::{
    Access, Arguments, Bytes, Claims, DataType, Examples, Execution, Few, Method, Mode, Modes, OpError,
    Reply, Scope, Unique, arguments, few, modes,
};

/// The type. See the file's text for its commutativity.
pub struct BidBook;

/// Operations of [`BidBook`].
#[derive(Clone, Debug, PartialEq)]
pub enum BidOp {
    /// Bids an amount for a bidder; the bidder's highest counts.
    Bid(Bytes, u64),
    /// Takes a bidder's bid back.
    Withdraw(Bytes),
    /// Closes the book; winner and price, or nil without bids.
    Close,
    /// "open", or "closed" with winner and price.
    Status,
    /// How many bidders stand.
    Bidders,
    /// What a bidder stands at.
    Standing(Bytes),
}

/// Who won and what is paid; nobody, if nobody had bid.
pub type Verdict = Option<(Bytes, u64)>;

/// A book: the highest bid of each bidder, and the verdict once it is closed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Book {
    bids: BTreeMap<Bytes, u64>,
    closed: Option<Verdict>,
}

/// A change of a book.
#[derive(Clone, Debug, PartialEq)]
pub enum BookEffect {
    /// The bidder stands at the amount or above.
    Raise(Bytes, u64),
    /// The bidder stands at exactly this, or not at all.
    Put(Bytes, Option<u64>),
    /// The book is closed with this verdict, or open.
    Decide(Option<Verdict>),
}

const ENTER: Mode = Mode(0);
const RAISE: Mode = Mode(1);
const BACKED: Mode = Mode(2);
const WITHDRAW: Mode = Mode(3);
const ABSENT: Mode = Mode(4);
const LOOK: Mode = Mode(5);
const COUNT: Mode = Mode(6);
const STATUS: Mode = Mode(7);
const CLOSE: Mode = Mode(8);

/// What a lone bidder pays, and the least that can be bid.
const BID_MIN: u64 = 1;

const BID_METHOD: Method = Method {
    name: "BID",
    arguments: "bidder amount",
    summary: "bids; a bidder's highest counts",
    access: Access::Write,
    returns: false,
    complexity: "O(log n)",
};

const WITHDRAW_METHOD: Method = Method {
    name: "WITHDRAW",
    arguments: "bidder",
    summary: "takes a bidder's bid back",
    access: Access::Write,
    returns: false,
    complexity: "O(log n)",
};

const CLOSE_METHOD: Method = Method {
    name: "CLOSE",
    arguments: "",
    summary: "closes the book; the winner and the price",
    access: Access::Write,
    returns: true,
    complexity: "O(n)",
};

const STATUS_METHOD: Method = Method {
    name: "STATUS",
    arguments: "",
    summary: "open, or closed with the winner and the price",
    access: Access::Read,
    returns: true,
    complexity: "O(1)",
};

const BIDDERS_METHOD: Method = Method {
    name: "BIDDERS",
    arguments: "",
    summary: "how many have bid",
    access: Access::Read,
    returns: true,
    complexity: "O(1)",
};

const STANDING_METHOD: Method = Method {
    name: "STANDING",
    arguments: "bidder",
    summary: "the bidder's highest bid",
    access: Access::Read,
    returns: true,
    complexity: "O(log n)",
};

const METHODS: &[Method] =
    &[BID_METHOD, WITHDRAW_METHOD, CLOSE_METHOD, STATUS_METHOD, BIDDERS_METHOD, STANDING_METHOD];

impl DataType for BidBook {
    const NAME: &'static str = "sealed-bids";
    const SUMMARY: &'static str = "the book of a sealed-bid auction at the second price";
    const NATIVE: &'static str = "hash";
    const METHODS: &'static [Method] = METHODS;
    const MODES: Modes = Modes {
        names: &["enter", "raise", "backed", "withdraw", "absent", "look", "count", "status", "close"],
        conflicts: &[
            modes(&[WITHDRAW, ABSENT, LOOK, COUNT, CLOSE]),
            modes(&[WITHDRAW, ABSENT, LOOK, CLOSE]),
            modes(&[WITHDRAW, ABSENT, CLOSE]),
            modes(&[ENTER, RAISE, BACKED, LOOK, COUNT, CLOSE]),
            modes(&[ENTER, RAISE, BACKED, CLOSE]),
            modes(&[ENTER, RAISE, WITHDRAW]),
            modes(&[ENTER, WITHDRAW]),
            modes(&[CLOSE]),
            modes(&[ENTER, RAISE, BACKED, WITHDRAW, ABSENT, STATUS]),
        ],
        removing: modes(&[WITHDRAW]),
        clearing: 0,
    };

    type State = Book;
    type Op = BidOp;
    type Effect = BookEffect;

    fn parse(method: &str, given: Arguments<'_>) -> Result<BidOp, OpError> {
        match (method, given) {
            ("BID", [bidder, amount]) => Ok(BidOp::Bid(bidder.clone(), arguments::unsigned(amount)?)),
            ("WITHDRAW", [bidder]) => Ok(BidOp::Withdraw(bidder.clone())),
            ("CLOSE", []) => Ok(BidOp::Close),
            ("STATUS", []) => Ok(BidOp::Status),
            ("BIDDERS", []) => Ok(BidOp::Bidders),
            ("STANDING", [bidder]) => Ok(BidOp::Standing(bidder.clone())),
            _ => Err(OpError::misuse(METHODS, method)),
        }
    }

    fn method(op: &BidOp) -> &'static Method {
        match op {
            BidOp::Bid(..) => &METHODS[0],
            BidOp::Withdraw(_) => &METHODS[1],
            BidOp::Close => &METHODS[2],
            BidOp::Status => &METHODS[3],
            BidOp::Bidders => &METHODS[4],
            BidOp::Standing(_) => &METHODS[5],
        }
    }

    fn arguments(op: &BidOp) -> Few<Bytes> {
        match op {
            BidOp::Bid(bidder, amount) => few([bidder.clone(), arguments::of_unsigned(*amount)]),
            BidOp::Withdraw(bidder) | BidOp::Standing(bidder) => few([bidder.clone()]),
            BidOp::Close | BidOp::Status | BidOp::Bidders => Few::new(),
        }
    }

    fn check(op: &BidOp) -> Result<(), OpError> {
        match op {
            // A reply carries amounts as signed integers.
            BidOp::Bid(_, amount) if *amount < BID_MIN || i64::try_from(*amount).is_err() => {
                Err(OpError::Bound {
                    what: "a bid".into(),
                    given: amount.to_string(),
                    expected: "at least 1 and below 2^63".into(),
                })
            }
            _ => Ok(()),
        }
    }

    fn size(op: &BidOp) -> usize {
        match op {
            BidOp::Bid(bidder, _) | BidOp::Withdraw(bidder) | BidOp::Standing(bidder) => bidder.len(),
            BidOp::Close | BidOp::Status | BidOp::Bidders => 0,
        }
    }

    fn is_absent(book: &Book) -> bool {
        *book == Book::default()
    }

    fn footprint(op: &BidOp) -> Claims {
        let each = |bidder: &Bytes, modes: &[Mode]| {
            let mut claims = Claims::none();
            for mode in modes {
                claims.push(Scope::element(bidder), *mode);
            }
            claims
        };
        match op {
            BidOp::Bid(bidder, _) => each(bidder, &[ENTER, RAISE, BACKED]),
            BidOp::Withdraw(bidder) => each(bidder, &[WITHDRAW, ABSENT]),
            BidOp::Standing(bidder) => each(bidder, &[LOOK]),
            BidOp::Bidders => Claims::record(COUNT),
            BidOp::Status => Claims::record(STATUS),
            BidOp::Close => Claims::record(CLOSE),
        }
    }

    fn execute(book: &Book, op: &BidOp, _: Unique) -> Result<Execution<BookEffect>, OpError> {
        let open_only = |claims: Claims| if book.closed.is_some() { Claims::none() } else { claims };
        let execution = match op {
            BidOp::Bid(..) | BidOp::Withdraw(_) if book.closed.is_some() => {
                return Err(OpError::Custom("the auction is closed; its bids are final".into()));
            }
            BidOp::Bid(bidder, amount) => bid(book, bidder, *amount),
            BidOp::Withdraw(bidder) if book.bids.contains_key(bidder) => {
                Execution::void(BookEffect::Put(bidder.clone(), None), Claims::element(bidder, WITHDRAW))
            }
            BidOp::Withdraw(bidder) => Execution::read(Reply::Ok, Claims::element(bidder, ABSENT)),
            BidOp::Close => match &book.closed {
                Some(verdict) => Execution::read(shown(verdict), Claims::none()),
                None => {
                    let verdict = verdict(&book.bids);
                    let reply = shown(&verdict);
                    Execution::returning(reply, BookEffect::Decide(Some(verdict)), Claims::record(CLOSE))
                }
            },
            BidOp::Status => Execution::read(status(book), open_only(Claims::record(STATUS))),
            BidOp::Bidders => {
                Execution::read(Reply::count(book.bids.len()), open_only(Claims::record(COUNT)))
            }
            BidOp::Standing(bidder) => {
                let reply = book.bids.get(bidder).map_or(Reply::Nil, |amount| amount_shown(*amount));
                Execution::read(reply, open_only(Claims::element(bidder, LOOK)))
            }
        };
        Ok(execution)
    }

    fn apply(book: &mut Book, effect: BookEffect) -> BookEffect {
        match effect {
            BookEffect::Raise(bidder, amount) => {
                let before = book.bids.get(&bidder).copied();
                book.bids.insert(bidder.clone(), before.map_or(amount, |standing| standing.max(amount)));
                BookEffect::Put(bidder, before)
            }
            BookEffect::Put(bidder, Some(amount)) => {
                let before = book.bids.insert(bidder.clone(), amount);
                BookEffect::Put(bidder, before)
            }
            BookEffect::Put(bidder, None) => {
                let before = book.bids.remove(&bidder);
                BookEffect::Put(bidder, before)
            }
            BookEffect::Decide(verdict) => BookEffect::Decide(std::mem::replace(&mut book.closed, verdict)),
        }
    }
}

fn bid(book: &Book, bidder: &Bytes, amount: u64) -> Execution<BookEffect> {
    let mode = match book.bids.get(bidder) {
        Some(standing) if *standing >= amount => {
            return Execution::read(Reply::Ok, Claims::element(bidder, BACKED));
        }
        Some(_) => RAISE,
        None => ENTER,
    };
    Execution::void(BookEffect::Raise(bidder.clone(), amount), Claims::element(bidder, mode))
}

/// The highest bid wins at the second highest; of equal ones, that of the name that comes first.
fn verdict(bids: &BTreeMap<Bytes, u64>) -> Verdict {
    let mut best: Option<(&Bytes, u64)> = None;
    let mut second = BID_MIN;
    for (bidder, &amount) in bids {
        match best {
            Some((_, highest)) if amount <= highest => second = second.max(amount),
            _ => {
                second = best.map_or(second, |(_, highest)| highest);
                best = Some((bidder, amount));
            }
        }
    }
    best.map(|(winner, _)| (winner.clone(), second))
}

fn shown(verdict: &Verdict) -> Reply {
    match verdict {
        Some((winner, price)) => Reply::Array(vec![Reply::Bytes(winner.clone()), amount_shown(*price)]),
        None => Reply::Nil,
    }
}

fn status(book: &Book) -> Reply {
    match &book.closed {
        None => Reply::Array(vec![Reply::Bytes("open".into())]),
        Some(verdict) => Reply::Array(vec![Reply::Bytes("closed".into()), shown(verdict)]),
    }
}

fn amount_shown(amount: u64) -> Reply {
    Reply::Int(i64::try_from(amount).expect("a bid is checked to be below 2^63"))
}

impl Examples for BidBook {
    fn states() -> Vec<Book> {
        let open = |bids: &[(&str, u64)]| Book {
            bids: bids.iter().map(|(bidder, amount)| (Bytes::from(*bidder), *amount)).collect(),
            closed: None,
        };
        let mut closed = open(&[("ann", 5), ("bob", 3)]);
        closed.closed = Some(verdict(&closed.bids));
        vec![
            Book::default(),
            open(&[("ann", 5)]),
            open(&[("ann", 5), ("bob", 5)]),
            open(&[("ann", 3), ("bob", 7)]),
            closed,
            Book { bids: BTreeMap::new(), closed: Some(None) },
        ]
    }

    fn operations() -> Vec<BidOp> {
        let mut operations = vec![BidOp::Close, BidOp::Status, BidOp::Bidders];
        for bidder in ["ann", "bob"] {
            operations.push(BidOp::Bid(bidder.into(), 4));
            operations.push(BidOp::Bid(bidder.into(), 6));
            operations.push(BidOp::Withdraw(bidder.into()));
            operations.push(BidOp::Standing(bidder.into()));
        }
        operations
    }
}
