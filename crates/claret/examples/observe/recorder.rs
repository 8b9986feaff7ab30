//! The smallest recorder of metrics: it keeps them, and shows them as Prometheus reads them. A program would take one of
//! those that exist, such as `metrics-exporter-prometheus`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit,
};

/// See the module's text. Clones share what they keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Unit and text of a metric.
    described: BTreeMap<String, (Option<Unit>, String)>,
    /// By name and labels.
    values: BTreeMap<String, f64>,
}

impl Recorder {
    /// All that was described, and all values that were ever changed.
    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().expect("nobody panics here");
        let mut lines = Vec::new();
        for (name, (unit, text)) in &kept.described {
            let unit = unit.map_or("no unit", |unit| unit.as_str());
            lines.push(format!("# HELP {name} {text} ({unit})"));
        }
        lines.extend(kept.values.iter().map(|(name, value)| format!("{name} {value}")));
        lines.join("\n")
    }

    fn describe(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        let described = (unit, text.into_owned());
        self.0.lock().expect("nobody panics here").described.insert(name.as_str().to_owned(), described);
    }

    fn cell(&self, key: &Key, suffix: &str) -> Cell {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        Cell { recorder: self.clone(), name: format!("{}{suffix}{labels}", key.name()) }
    }
}

/// One value.
struct Cell {
    recorder: Recorder,
    name: String,
}

impl Cell {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        let mut kept = self.recorder.0.lock().expect("nobody panics here");
        change(kept.values.entry(self.name.clone()).or_default());
    }
}

impl CounterFn for Cell {
    fn increment(&self, by: u64) {
        self.change(|value| *value += by as f64);
    }

    fn absolute(&self, to: u64) {
        self.change(|value| *value = value.max(to as f64));
    }
}

impl GaugeFn for Cell {
    fn increment(&self, by: f64) {
        self.change(|value| *value += by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| *value -= by);
    }

    fn set(&self, to: f64) {
        self.change(|value| *value = to);
    }
}

/// How many there were, and their sum.
struct Sum {
    count: Cell,
    sum: Cell,
}

impl HistogramFn for Sum {
    fn record(&self, one: f64) {
        self.count.change(|count| *count += 1.0);
        self.sum.change(|sum| *sum += one);
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(name, unit, text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(name, unit, text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(name, unit, text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(self.cell(key, "")))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(self.cell(key, "")))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let (count, sum) = (self.cell(key, "_count"), self.cell(key, "_sum"));
        Histogram::from_arc(Arc::new(Sum { count, sum }))
    }
}
