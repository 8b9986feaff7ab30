//! Connections to real servers, without Claret's module, and to servers that say whatever they like.

mod commands;
mod forward;
mod hostile;
mod redirects;
mod rig;
mod time;
