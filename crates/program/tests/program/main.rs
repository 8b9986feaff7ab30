//! Scripts, as the host of a run sees them.

mod bounds;
mod generator;
mod host;
mod hostile;
mod language;
mod libraries;
mod oracle;
mod scripts;
