//! Redis commands on a store of Claret: one table names each command and what carries it out, in a transaction, in a batch, or alone.
//!
//! Answers and errors are values. There are no connections here, and no RESP: who reads and writes that, as the gateway does, finds a
//! command by its name and hands over its words.
//!
//! ```
//! use claret_commands::{Answer, Unbounded, named};
//!
//! # async fn shown() -> Result<(), claret_commands::Fault> {
//! let store = claret::Store::in_memory();
//! let append = named(b"append").expect("a command");
//! let answer = append.alone(&store, &Unbounded, &["greeting".into(), "hello".into()]).await?;
//! assert_eq!(answer, Answer::Int(5));
//! # Ok(()) }
//! # pollster::block_on(shown()).unwrap();
//! ```
//!
//! Some commands are operations that are known up front ([`Command::calls`]). The others a server does in one step, and here they are
//! steps of a transaction: they read under a lock (`execute_for_update`, because a write follows), compute, and issue what changes. So
//! all of it is done, or nothing.
//!
//! An operation that cannot be done dooms its transaction. So a command does none that may fail where a server would succeed: what holds
//! another type is put anew, or asked by an operation that is *tried*, whose failure is an answer.

// The files, from the top: each uses those beneath it.
//
// | file | what |
// |---|---|
// | `plan`, `by_server` | carrying out one command, or several together |
// | `eval` | scripts for programs in Rust |
// | `script`, `ids`, `sites` | carrying out scripts |
// | `question` | what a transaction asks that is not about a key of its own |
// | `table/` | the table, and where a command has its keys |
// | `blocking` | pops that wait |
// | `strings`, `hashes`, `lists`, `sets`, `scored`, `hyperloglog`, `places`, `keys` | the commands |
// | `scan`, `random` | what several families share |
// | `steps`, `calls`, `kind` | what commands are made of |
// | `words`, `runner`, `answer`, `fault` | what goes in and comes out |

mod answer;
mod blocking;
mod by_server;
mod calls;
mod eval;
mod fault;
mod hashes;
mod hyperloglog;
mod ids;
mod keys;
mod kind;
mod lists;
mod places;
mod plan;
mod question;
mod random;
mod runner;
mod scan;
mod scored;
mod script;
mod sets;
mod sites;
mod steps;
mod strings;
mod table;
mod words;

pub use answer::{Answer, ELEMENT_BYTES};
pub use blocking::Waiting;
pub use calls::Calls;
pub use eval::Eval;
pub use fault::{Fault, of_changed, of_store};
pub use kind::Kind;
pub use plan::{Plan, Told};
pub use question::Question;
pub use runner::{Later, Made, Runner, Unbounded};
pub use scan::check_cursor;
pub use script::{Evaluation, Library, Script, digest_of};
pub use table::{Command, Keys, NoKeys, Places, Way, all, named};
pub use words::{PATTERN_BYTES_MAX, pattern};
