//! The `claret` program.

fn main() {}
