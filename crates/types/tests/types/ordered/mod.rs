//! The types whose content has an order or a summary: scored set, top k, list, summary bag, unique ids.

mod histories;
mod list;
mod record;
mod scored_set;
mod summary_bag;
mod topk;
mod uid;
