//! Prints the report of a check in words.

use claret_checker::{Report, Through};

use crate::output;

/// Prints it.
pub(super) fn tell(report: &Report) {
    let Report { rounds, committed, void, unknown, judged, edges, list_transactions, .. } = report;
    let Report { transfers, totals, changes, ids, ends, plain, longest_ms, .. } = report;
    output::say!("{committed} transactions committed, {void} did not, {unknown} nobody knows");
    let because = report.void_because.iter().map(|(why, count)| format!("{count} {why:?}"));
    let because: Vec<String> = because.collect();
    if !because.is_empty() {
        output::say!("why they did not: {}; the longest took {longest_ms} ms", because.join(", "));
    }
    output::say!(
        "{judged} judged by what they saw, over {edges} edges; {list_transactions} on lists judged by adya"
    );
    output::say!("{transfers} transfers between accounts, {totals} totals read");
    output::say!("{changes} changes of bounded counters, {ids} unique numbers");
    if *plain > 0 {
        output::say!("{plain} of all these by plain commands");
    }
    let Through { gateways, committed, multi, watch, scripts, nil, left, restarts } = report.through_gateways;
    if gateways > 0 {
        output::say!(
            "{committed} of all these through {gateways} gateways: {multi} by MULTI, {scripts} by scripts, {watch} by WATCH and MULTI, where {nil} EXECs \
             answered nil; {left} connections were left in the midst, {restarts} gateways began again"
        );
    }
    if !report.struck.is_empty() {
        output::say!(
            "seed {}, {rounds} rounds; {ends} records ended while they were in use or before they were read",
            report.seed
        );
        output::say!("{:<12} {:>6}  locks free within", "fault", "struck");
        for (fault, count) in &report.struck {
            let free = report.free_after_ms.get(fault).copied().unwrap_or_default();
            output::say!("{fault:<12} {count:>6}  {free} ms");
        }
    }
    output::say!(
        "{} of {} planted anomalies found, {} of {} by adya",
        report.found,
        report.planted,
        report.found_by_adya,
        report.planted_on_lists
    );
    for anomaly in &report.not_found {
        output::say!("  {anomaly}");
    }
    output::say!("{} anomalies", report.anomalies.len());
    for anomaly in &report.anomalies {
        output::say!("  {}", output::escaped(anomaly));
    }
}
