//! The checker, where all is well and where bugs are planted.

mod embedded;
mod gateways;
