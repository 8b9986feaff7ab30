//! What Claret is compared with: [`mutex`], what one would write by hand in one process, [`sqlite`], tables of a database file, and
//! [`redis`], what people do with plain commands on servers.

pub(crate) mod mutex;
pub(crate) mod redis;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(not(feature = "sqlite"))]
#[path = "sqlite_left_out.rs"]
pub(crate) mod sqlite;
