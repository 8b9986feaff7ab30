//! Shards over records that a host has: they do what shards with records in memory do, message by message, whatever
//! the host loads for them (`random`); and what the host tells them holds (`hooks`, traps 17 and 18; `ends`).

mod ends;
mod hooks;
mod random;
mod store;
mod twins;
