//! What the gateway counts, for `INFO gateway` and for Prometheus.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// How a command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Sent to a node as it is.
    Forwarded,
    /// A transaction of one command.
    Transaction,
    /// MULTI and EXEC.
    Exec,
    /// WATCH.
    Watch,
    /// Of all nodes.
    FanOut,
    /// On a connection of its own.
    OwnConnection,
    /// Answered by the gateway.
    Local,
}

impl Path {
    const ALL: [(Path, &'static str); 7] = [
        (Path::Forwarded, "forwarded"),
        (Path::Transaction, "transaction"),
        (Path::Exec, "exec"),
        (Path::Watch, "watch"),
        (Path::FanOut, "fan_out"),
        (Path::OwnConnection, "own_connection"),
        (Path::Local, "local"),
    ];
}

/// Upper ends of the latencies that are counted, in microseconds.
const STEPS_US: [u64; 12] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000, u64::MAX];

#[derive(Debug, Default)]
struct OfPath {
    done: AtomicU64,
    errors: AtomicU64,
    us: AtomicU64,
    /// The longest.
    us_max: AtomicU64,
    steps: [AtomicU64; STEPS_US.len()],
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    paths: [OfPath; Path::ALL.len()],
    pub(crate) connected: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) protocol_errors: AtomicU64,
    /// Logins that a node was to judge, those that it refused, and those for which too many waited.
    pub(crate) logins: AtomicU64,
    pub(crate) logins_refused: AtomicU64,
    pub(crate) logins_over: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// EXECs that answered nil.
    pub(crate) exec_nil: AtomicU64,
    /// EXECs that were aborted with an error.
    pub(crate) exec_aborted: AtomicU64,
    /// WATCHes that queued for a hot key.
    pub(crate) watch_queued: AtomicU64,
    /// Commands that waited for too long.
    pub(crate) late: AtomicU64,
    /// Those whose lock was taken back before the EXEC.
    pub(crate) watch_given_up: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) subscribed: AtomicU64,
    pub(crate) blocked: AtomicU64,
    /// What all connections have the gateway keep, in bytes.
    pub(crate) kept_bytes: AtomicU64,
    pub(crate) closed_for_bytes: AtomicU64,
    pub(crate) refused_for_bytes: AtomicU64,
    pub(crate) work_aside: AtomicU64,
    pub(crate) gave_way: AtomicU64,
    /// By the name of the command. As many as the table has.
    refused: Mutex<HashMap<&'static str, u64>>,
}

/// Its name, its value, its kind and what it counts.
type Counter = (&'static str, u64, &'static str, &'static str);

impl Metrics {
    pub(crate) fn done(&self, path: Path, since: Instant, is_error: bool) {
        let of = &self.paths[path as usize];
        let us = since.elapsed().as_micros() as u64;
        of.done.fetch_add(1, Ordering::Relaxed);
        of.errors.fetch_add(u64::from(is_error), Ordering::Relaxed);
        of.us.fetch_add(us, Ordering::Relaxed);
        of.us_max.fetch_max(us, Ordering::Relaxed);
        let step = STEPS_US.iter().position(|end| us <= *end).unwrap_or(STEPS_US.len() - 1);
        of.steps[step].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Commands that were carried out, in whatever way.
    pub(crate) fn commands(&self) -> u64 {
        self.paths.iter().map(|of| of.done.load(Ordering::Relaxed)).sum()
    }

    /// Those of them that were answered with an error.
    pub(crate) fn errors(&self) -> u64 {
        self.paths.iter().map(|of| of.errors.load(Ordering::Relaxed)).sum()
    }

    /// A command was refused: whether it is the first time.
    pub(crate) fn refuse(&self, name: &'static str) -> bool {
        let mut refused = self.refused.lock();
        let count = refused.entry(name).or_default();
        *count += 1;
        *count == 1
    }

    /// All counters with their names and what they count.
    fn counters(&self) -> impl Iterator<Item = Counter> {
        self.of_connections().into_iter().chain(self.of_commands()).chain(self.of_bounds())
    }

    fn of_connections(&self) -> [Counter; 4] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("connected_clients", of(&self.connected), "gauge", "Connections of clients."),
            ("connections_total", of(&self.accepted), "counter", "Connections that were accepted."),
            ("connections_rejected_total", of(&self.rejected), "counter", "Connections over the limit."),
            (
                "protocol_errors_total",
                of(&self.protocol_errors),
                "counter",
                "Connections closed for what is no request.",
            ),
        ]
    }

    fn of_commands(&self) -> [Counter; 14] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let refused = self.refused.lock().values().sum();
        [
            ("logins_total", of(&self.logins), "counter", "Logins that a node was to judge."),
            ("logins_refused_total", of(&self.logins_refused), "counter", "Logins that a node refused."),
            (
                "logins_over_total",
                of(&self.logins_over),
                "counter",
                "Logins that were refused because too many waited.",
            ),
            ("read_bytes_total", of(&self.bytes_in), "counter", "Bytes from clients."),
            ("written_bytes_total", of(&self.bytes_out), "counter", "Bytes to clients."),
            (
                "exec_nil_total",
                of(&self.exec_nil),
                "counter",
                "EXECs that answered nil: what was watched had changed.",
            ),
            (
                "exec_aborted_total",
                of(&self.exec_aborted),
                "counter",
                "EXECs of which nothing was done, for an error.",
            ),
            (
                "late_total",
                of(&self.late),
                "counter",
                "Commands that waited for as long as a client may wait.",
            ),
            ("watch_queued_total", of(&self.watch_queued), "counter", "WATCHes that queued for a hot key."),
            (
                "watch_given_up_total",
                of(&self.watch_given_up),
                "counter",
                "Those that lost their turn before EXEC.",
            ),
            ("unknown_total", of(&self.unknown), "counter", "Transactions whose outcome is not known."),
            ("subscribed_clients", of(&self.subscribed), "gauge", "Connections that listen to channels."),
            ("blocked_clients", of(&self.blocked), "gauge", "Connections that wait in a blocking command."),
            ("refused_total", refused, "counter", "Commands that the gateway refuses."),
        ]
    }

    /// What clients cost.
    fn of_bounds(&self) -> [Counter; 5] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            (
                "kept_bytes",
                of(&self.kept_bytes),
                "gauge",
                "Bytes that are kept for clients: requests, commands that wait, transactions, answers that nobody has read.",
            ),
            (
                "closed_for_bytes_total",
                of(&self.closed_for_bytes),
                "counter",
                "Connections that were closed because they, or all together, kept too many bytes.",
            ),
            (
                "refused_for_bytes_total",
                of(&self.refused_for_bytes),
                "counter",
                "Commands and EXECs of which nothing was done because they would have made too many bytes.",
            ),
            (
                "work_aside_total",
                of(&self.work_aside),
                "counter",
                "Pieces of long work that other threads did, so that no client waits for them.",
            ),
            (
                "gave_way_total",
                of(&self.gave_way),
                "counter",
                "Times that a client that sends much let others go on.",
            ),
        ]
    }

    /// The lines of `INFO gateway`.
    pub(crate) fn info(&self) -> String {
        let mut text = String::from("# Gateway\r\n");
        for (name, value, ..) in self.counters() {
            let _ = write!(text, "gateway_{name}:{value}\r\n");
        }
        for (path, name) in Path::ALL {
            let of = &self.paths[path as usize];
            let (done, us) = (of.done.load(Ordering::Relaxed), of.us.load(Ordering::Relaxed));
            let mean = if done == 0 { 0.0 } else { us as f64 / done as f64 };
            let errors = of.errors.load(Ordering::Relaxed);
            let _ = write!(
                text,
                "gateway_path_{name}:calls={done},usec={us},usec_per_call={mean:.2},errors={errors},p99_usec={}\r\n",
                of.percentile(0.99)
            );
        }
        for (name, count) in self.refused.lock().iter() {
            let _ = write!(text, "gateway_refused_{}:{count}\r\n", name.to_ascii_lowercase());
        }
        text
    }

    /// As Prometheus reads it.
    pub(crate) fn prometheus(&self) -> String {
        let mut text = String::new();
        for (name, value, kind, help) in self.counters() {
            let name = format!("claret_gateway_{name}");
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        let name = "claret_gateway_command_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} How long commands take, by how they are carried out.\n# TYPE {name} histogram"
        );
        for (path, label) in Path::ALL {
            let of = &self.paths[path as usize];
            let mut sum = 0;
            for (step, end) in of.steps.iter().zip(STEPS_US) {
                sum += step.load(Ordering::Relaxed);
                let end = if end == u64::MAX { "+Inf".to_owned() } else { format!("{}", end as f64 / 1e6) };
                let _ = writeln!(text, "{name}_bucket{{path=\"{label}\",le=\"{end}\"}} {sum}");
            }
            let us = of.us.load(Ordering::Relaxed) as f64 / 1e6;
            let _ =
                writeln!(text, "{name}_sum{{path=\"{label}\"}} {us}\n{name}_count{{path=\"{label}\"}} {sum}");
        }
        let name = "claret_gateway_errors_total";
        let _ =
            writeln!(text, "# HELP {name} Commands that were answered with an error.\n# TYPE {name} counter");
        for (path, label) in Path::ALL {
            let errors = self.paths[path as usize].errors.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{path=\"{label}\"}} {errors}");
        }
        text
    }
}

impl OfPath {
    /// The upper end of the step in which so many are done, in microseconds, or the longest that there was; 0 if there are none.
    fn percentile(&self, part: f64) -> u64 {
        let counts = self.steps.each_ref().map(|step| step.load(Ordering::Relaxed));
        let wanted = (counts.iter().sum::<u64>() as f64 * part).ceil() as u64;
        let mut sum = 0;
        for (count, end) in counts.iter().zip(STEPS_US) {
            sum += count;
            if sum >= wanted && wanted > 0 {
                return end.min(self.us_max.load(Ordering::Relaxed));
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_counted_is_shown_in_both_forms() {
        let metrics = Metrics::default();
        assert!(metrics.refuse("WAIT") && !metrics.refuse("WAIT"));
        metrics.done(Path::Exec, Instant::now(), true);
        metrics.done(Path::Watch, Instant::now() - Duration::from_secs(2), false);
        Metrics::count(&metrics.exec_nil);
        let info = metrics.info();
        assert!(
            info.contains("gateway_exec_nil_total:1\r\n") && info.contains("gateway_refused_wait:2\r\n"),
            "{info}"
        );
        assert!(info.contains("gateway_path_exec:calls=1,") && info.contains("errors=1,p99_usec="), "{info}");
        // What took longer than the last step was said to have taken an hour.
        let of_watch =
            info.lines().find(|line| line.starts_with("gateway_path_watch:")).expect("it is there");
        let (_, p99) = of_watch.split_once("p99_usec=").expect("its percentile");
        let p99: u64 = p99.parse().expect("a number");
        assert!((2_000_000..3_600_000_000).contains(&p99), "{of_watch}");
        let text = metrics.prometheus();
        assert!(
            text.contains("claret_gateway_command_seconds_bucket{path=\"exec\",le=\"0.0001\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("claret_gateway_refused_total 2\n") && text.contains("le=\"+Inf\"} 1\n"),
            "{text}"
        );
    }
}
