//! What `claret top` shows: each node is asked for its counters, its hot keys and who waits there for whom; rates are differences
//! of two readings.
//!
//! | file | what |
//! |---|---|
//! | `asking` | the nodes, their connections, and what went wrong with each |
//! | `answer` | what a node answers, read with the suspicion due to any peer |
//! | `report` | two readings as rates and lists; its form as JSON |
//! | `page` | the report as lines of text, cut to a terminal's size |
//! | `screen` | a terminal that is drawn on, and is as before afterwards |

pub(crate) mod answer;
pub(crate) mod asking;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod screen;
