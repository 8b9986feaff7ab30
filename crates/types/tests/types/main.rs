//! The data types: what users meet, the oracle that checks their specifications, and states of which a part is there.

mod commands;
mod contract;
mod custom_type;
mod document;
mod keyspace;
mod oracle;
mod ordered;
mod partial_states;
mod readme;
mod strings_and_hashes;
