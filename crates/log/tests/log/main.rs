//! The log on disks that lie.

mod disk;
mod host;
mod lying_disk;
