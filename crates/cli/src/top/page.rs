//! A report as lines of text, whole or cut to the size of a terminal.

use super::answer::Attempt;
use super::report::{HotKey, Mode, Rates, Report, Shard, Wait};
use crate::table::{Column, aligned, grouped, latency};

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Title,
    Head,
    Row,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// So many characters of a key, of the modes of a lock, and of what is wrong with a node where there is room for all.
const KEY_WIDTH: usize = 40;
const MODES_WIDTH: usize = 28;

/// The report as lines: as many as there are, or as fit. `rows`: keys and waits, at most.
pub(crate) fn page(report: &Report, rows: usize, room: Option<Room>) -> Vec<Line> {
    let key_width = room.map_or(KEY_WIDTH, |room| (room.width / 4).clamp(8, KEY_WIDTH));
    let shards = shards(report);
    let keys = section(keys(report, rows, key_width), "no operation had to wait lately");
    let waits = section(waits(report, rows, key_width), "nobody waits");
    let mut lines = vec![Line { kind: Kind::Title, text: title(report) }];
    lines.extend(notes(report));
    let Some(Room { width, height }) = room else {
        for section in [shards, keys, waits] {
            lines.push(blank());
            lines.extend(section);
        }
        return lines;
    };
    // Shards have a third of the height at most, waits as much of the rest as keys, or what these leave.
    let left = height.saturating_sub(lines.len() + 3);
    let of_shards = shards.len().min((left / 3).max(3));
    let left = left.saturating_sub(of_shards);
    let of_waits = waits.len().min((left / 2).max(left.saturating_sub(keys.len())));
    let of_keys = left - of_waits;
    for (section, most) in [(shards, of_shards), (keys, of_keys), (waits, of_waits)] {
        lines.push(blank());
        lines.extend(section.into_iter().take(most));
    }
    lines.truncate(height);
    lines.iter_mut().for_each(|line| line.text = line.text.chars().take(width).collect());
    lines
}

fn blank() -> Line {
    row(String::new())
}

fn row(text: String) -> Line {
    Line { kind: Kind::Row, text }
}

/// A table, or what is said where it is empty.
fn section(table: Vec<String>, empty: &str) -> Vec<Line> {
    match table.len() {
        0 | 1 => vec![row(empty.to_owned())],
        _ => headed(table),
    }
}

fn headed(table: Vec<String>) -> Vec<Line> {
    let kind = |at| if at == 0 { Kind::Head } else { Kind::Row };
    table.into_iter().enumerate().map(|(at, text)| Line { kind: kind(at), text }).collect()
}

fn title(report: &Report) -> String {
    let cluster = &report.cluster;
    let over =
        report.seconds.map_or("no rates yet".to_owned(), |seconds| format!("rates over {seconds:.1} s"));
    format!("claret top  {}  {} of {} shards  {over}", report.store, cluster.answered, cluster.shards)
}

/// What an operator has to know of what is not shown.
fn notes(report: &Report) -> Vec<Line> {
    let hidden = report.cluster.hidden_keys;
    let told = format!("{} hot keys are hidden: this user may not run TYPE on them", grouped(hidden));
    if hidden > 0 { vec![row(told)] } else { Vec::new() }
}

fn shards(report: &Report) -> Vec<Line> {
    use Column::{Left, Right};
    let columns = [
        Left("SHARD"),
        Right("TX/S"),
        Right("COMMIT/S"),
        Right("ABORT/S"),
        Right("OP/S"),
        Right("FRAME/S"),
        Right("OP/FRAME"),
        Right("GRANT/S"),
        Right("WAIT/S"),
        Right("OPEN"),
        Right("HELD"),
        Left("STATE"),
    ];
    let cluster = &report.cluster;
    let (open, held) = (Some(cluster.open_attempts), Some(cluster.held_keys));
    let idle = cluster.answered - cluster.serving;
    let state = match (cluster.shards - cluster.answered, idle) {
        (0, 0) => "ok".to_owned(),
        (missing, 0) => format!("{missing} not shown"),
        (0, idle) => format!("{idle} of them: no transactions"),
        (missing, idle) => format!("{missing} not shown, {idle} others: no transactions"),
    };
    let mut rows = vec![shard_row("all", &cluster.rates, open, held, state)];
    rows.extend(report.shards.iter().map(|shard| {
        let Shard { node, error, not_served, rates, open_attempts, held_keys, .. } = shard;
        let state = error.as_ref().or(not_served.as_ref()).map_or("ok", String::as_str).to_owned();
        let mut row = shard_row(node, rates, *open_attempts, *held_keys, state);
        // One of its shards counts a transaction: that tells nothing of this one.
        row[1].clear();
        row
    }));
    headed(aligned(&columns, &rows))
}

fn shard_row(name: &str, rates: &Rates, open: Option<u64>, held: Option<u64>, state: String) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or("-".to_owned(), grouped);
    vec![
        name.to_owned(),
        rate(rates.transactions_per_second),
        rate(rates.commits_per_second),
        rate(rates.aborts_per_second),
        rate(rates.operations_per_second),
        rate(rates.frames_per_second),
        rate(rates.operations_per_frame),
        rate(rates.grants_per_second),
        rate(rates.waits_per_second),
        number(open),
        number(held),
        state,
    ]
}

/// A rate in few digits.
fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 100.0 => format!("{rate:.1}"),
        Some(rate) => grouped(rate.round() as u64),
    }
}

/// A row for each operation; what is of the key as a whole stands in its first.
fn keys(report: &Report, rows_max: usize, key_width: usize) -> Vec<String> {
    use Column::{Left, Right};
    let columns = [
        Left("KEY"),
        Left("OPERATION"),
        Right("WAIT/S"),
        Right("RECENT"),
        Right("WAIT"),
        Left("WANTED"),
        Right("HOLD"),
        Left("HELD"),
        Right("JOINED"),
        Right("WAITED"),
        Right("LINE"),
        Left("TYPE"),
        Left("SHARD"),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for key in &report.keys {
        let mut of_key = vec![cut(&key.key, key_width)];
        let operations: Vec<[String; 3]> = key
            .operations
            .iter()
            .map(|it| [it.operation.clone(), rate(it.waits_per_second), grouped(it.recent_waits)])
            .collect();
        let none = || ["-".to_owned(), rate(key.waits_per_second), grouped(0)];
        of_key.extend(operations.first().cloned().unwrap_or_else(none));
        of_key.extend(whole(key));
        rows.push(of_key);
        rows.extend(operations.into_iter().skip(1).map(|it| {
            let mut row = vec![String::new()];
            row.extend(it);
            row
        }));
    }
    rows.truncate(rows_max);
    aligned(&columns, &rows)
}

/// What is of a key, whatever the operation.
fn whole(key: &HotKey) -> [String; 9] {
    let waited = if key.waiters == 0 { "-".to_owned() } else { latency(key.waited_ms * 1e3) };
    [
        grouped(key.waiters),
        modes(&key.wanted),
        grouped(key.holders),
        modes(&key.held),
        grouped(key.joined),
        waited,
        grouped(key.in_line),
        key.kind.clone().unwrap_or_else(|| "-".to_owned()),
        key.node.clone(),
    ]
}

fn modes(modes: &[Mode]) -> String {
    let one = |Mode { mode, claims }: &Mode| format!("{mode} {}", grouped(*claims));
    match modes {
        [] => "-".to_owned(),
        modes => cut(&modes.iter().map(one).collect::<Vec<_>>().join(", "), MODES_WIDTH),
    }
}

fn waits(report: &Report, rows_max: usize, key_width: usize) -> Vec<String> {
    use Column::{Left, Right};
    let columns =
        [Right("WAITED"), Left("KEY"), Left("WAITER"), Left("OPERATION"), Left("WAITS FOR"), Left("SHARD")];
    let row = |wait: &Wait| {
        let holder = wait.holder.as_ref().map_or("others who wait".to_owned(), attempt);
        vec![
            latency(wait.waited_ms * 1e3),
            cut(&wait.key, key_width),
            attempt(&wait.waiter),
            wait.operation.clone(),
            holder,
            wait.node.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = report.waits.iter().take(rows_max).map(row).collect();
    aligned(&columns, &rows)
}

/// The name that `CLARET.RESOLVE` takes, and whose it is.
fn attempt(it: &Attempt) -> String {
    let voted = if it.has_voted { " voted" } else { "" };
    format!("{}{voted} {}@{}", it.attempt, it.user, it.address)
}

/// The beginning of a text that is too long.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{kept}..")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::answer::Waited;
    use super::super::report::tests::{answer, key, reading};
    use super::*;

    fn report(keys: u64) -> Report {
        let began = Instant::now();
        let keys_at = |total| (0..keys).map(|at| key(&format!("key-{at}"), total, 1_500 + at)).collect();
        let before = reading(began, vec![Ok(answer(0, 0, keys_at(1))), Err("down".into())]);
        let later = vec![Ok(answer(1_000_000, 1_234, keys_at(5))), Err("down".into())];
        Report::between(
            "redis://h",
            Some(&before),
            &reading(began + Duration::from_secs(1), later),
            (300, 300),
        )
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn everything_is_on_the_page() {
        let text = text(&page(&report(1), 16, None));
        let expected = "\
claret top  redis://h  1 of 2 shards  rates over 1.0 s

SHARD           TX/S  COMMIT/S  ABORT/S   OP/S  FRAME/S  OP/FRAME  GRANT/S  WAIT/S  OPEN  HELD  STATE
all            1,234     2,468        0  4,936    1,234       4.0    3,702   1,234     0     2  1 not shown
10.0.0.0:7000            2,468        0  4,936    1,234       4.0    3,702   1,234     0     2  ok
10.0.0.1:7000                -        -      -        -         -        -       -     -     -  down

KEY    OPERATION  WAIT/S  RECENT  WAIT  WANTED      HOLD  HELD   JOINED  WAITED  LINE  TYPE  SHARD
key-0  SADD          4.0       5     1  read-all 1     3  add 3       0  1.5 ms     0  set   10.0.0.0:7000

WAITED  KEY    WAITER                          OPERATION  WAITS FOR                       SHARD
1.5 ms  key-0  5.1/1 shop@10.0.0.9:4000        GET        4.1/1 shop@10.0.0.9:4000        10.0.0.0:7000
";
        let same = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(same(&text), same(expected), "{text}");
    }

    /// Bug: a shard that refused every transaction for lack of its replicas had the state `ok`.
    #[test]
    fn a_shard_that_serves_nothing_says_why() {
        let why = "no transactions are served here, because 0 of its 1 replicas are connected";
        let idle = super::super::answer::Answer { not_served: Some(why.into()), ..answer(1, 1, vec![]) };
        let now = reading(Instant::now(), vec![Ok(answer(1, 1, vec![])), Ok(idle), Err("down".into())]);
        let text = text(&page(&Report::between("s", None, &now, (16, 16)), 16, None));
        let state = |line: usize| text.lines().nth(line).unwrap_or_default().to_owned();
        assert!(state(3).ends_with("1 not shown, 1 others: no transactions"), "{text}");
        assert!(state(4).ends_with("ok") && state(5).ends_with(why) && state(6).ends_with("down"), "{text}");
    }

    #[test]
    fn operations_of_one_key_stand_below_each_other() {
        let began = Instant::now();
        let mut both = key("k", 4, 1);
        both.waits.push(Waited { method: "SCARD".into(), recent: 9, total: 9 });
        let report =
            Report::between("s", None, &reading(began, vec![Ok(answer(1, 1, vec![both]))]), (16, 16));
        let text = text(&page(&report, 16, None));
        let at = |line: usize| text.lines().nth(line).unwrap_or_default().to_owned();
        assert!(at(7).starts_with("k    SCARD ") && at(8).starts_with("     SADD "), "{text}");
    }

    #[test]
    fn where_nothing_waits_it_says_so() {
        let text = text(&page(&report(0), 16, None));
        assert!(text.contains("no operation had to wait lately") && text.contains("nobody waits"), "{text}");
    }

    #[test]
    fn it_fits_any_terminal() {
        let report = report(200);
        for (width, height) in [(80, 24), (200, 60), (20, 5), (1, 1), (0, 0), (500, 3)] {
            let lines = page(&report, 500, Some(Room { width, height }));
            assert!(lines.len() <= height, "{} lines in {height}", lines.len());
            assert!(lines.iter().all(|line| line.text.chars().count() <= width));
        }
        let lines = page(&report, 500, Some(Room { width: 200, height: 40 }));
        assert_eq!(lines.len(), 40, "no room is left");
        assert_eq!(
            lines.iter().filter(|line| line.kind == Kind::Head).count(),
            3,
            "of each something is shown"
        );
    }
}
