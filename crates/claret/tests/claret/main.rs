//! Stores in the process, in a folder and on real clusters, as programs use them.

mod any_host;
mod at_commit;
mod attempts;
mod bad_input;
mod blocking;
mod cluster;
mod concurrency;
mod durable;
mod errors;
mod faulty;
mod hostile;
mod nesting;
mod optimistic;
mod outcomes;
mod ports;
mod records;
mod schema;
mod spawned;
mod ticket_shop;
mod time;
mod transactions;
mod values;
mod ways;
