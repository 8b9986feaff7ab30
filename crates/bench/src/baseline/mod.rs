//! What Claret is compared with: [`mutex`], what one would write by hand in one process, and [`redis`], what people do with
//! plain commands on servers.

pub(crate) mod mutex;
pub(crate) mod redis;
