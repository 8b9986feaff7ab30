//! The state machines through their messages: locks, transactions, records that a host has, the wire, and the traps of the protocol.

mod allocations;
mod behind;
mod bounds;
mod changes;
mod forgetting;
mod harness;
mod linear;
mod locks;
mod members;
mod moved;
mod nesting;
mod optimistic;
mod per_message;
mod reads;
mod records;
mod top;
mod traps;
mod ways;
mod wire;
