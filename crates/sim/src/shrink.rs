//! Shrinks a failing run: one setting after another is lowered, as long as the run still fails. What is left is
//! easier to read.
//!
//! Every try is a run of its own from the same seed. It counts if it fails with the same words, whoever they are
//! about.

use crate::config::Config;
use crate::setting::Setting;
use crate::settings::settings;
use crate::{Failure, SimOptions, attempt};

/// So many runs are tried at most.
const RUNS_MAX: u32 = 600;

/// The smallest failing run found, with its timeline.
pub(crate) fn shrink(found: Box<Failure>, options: &SimOptions) -> Box<Failure> {
    let (manner, best) = (manner(&found.reason), found.config.clone());
    let mut shrinker = Shrinker { options: options.clone(), runs: 0, manner, best };
    while shrinker.pass() && shrinker.runs < RUNS_MAX {}
    let options = SimOptions { config: Some(shrinker.best), ..options.clone() };
    // Only a run that failed is kept, and runs repeat; so this is the failure.
    attempt(&options, true).err().unwrap_or(found)
}

/// Settings that say what is asked of a run, or what it may rely on, rather than what it does.
const KEPT: [&str; 4] = ["finish_us_max", "lease_us", "resend_us", "skew_us_max"];

fn names(config: &Config) -> Vec<&'static str> {
    settings(&mut config.clone()).into_iter().map(|(name, _)| name).collect()
}

/// The first plain words of a reason: without names and values.
fn manner(reason: &str) -> Vec<String> {
    let is_plain = |word: &&str| word.chars().all(|envelope| envelope.is_ascii_lowercase());
    let words = reason.split_whitespace().map(|word| word.trim_end_matches([',', ';', ':']));
    words.filter(is_plain).take(6).map(str::to_owned).collect()
}

struct Shrinker {
    options: SimOptions,
    runs: u32,
    manner: Vec<String>,
    best: Config,
}

impl Shrinker {
    /// Tries to lower each setting once. Returns whether anything came of it.
    fn pass(&mut self) -> bool {
        let mut smaller = false;
        for (place, name) in names(&self.best).into_iter().enumerate() {
            if KEPT.contains(&name) {
                continue;
            }
            let lower = lower_values(&mut settings(&mut self.best.clone())[place].1);
            smaller |= lower.into_iter().any(|value| self.fails_with(|config| set(config, place, value)));
        }
        for transaction in self.transactions() {
            smaller |= self.fails_with(|config| config.skip.push(transaction));
        }
        smaller
    }

    /// Transactions that are not left out yet, of the sessions that there are at first.
    fn transactions(&self) -> Vec<u64> {
        let each = u64::from(self.best.workers) * u64::from(self.best.transactions);
        let sessions = 0..u64::from(self.best.sessions);
        let all = sessions.flat_map(|session| (1..=each).map(move |number| session << 32 | number));
        all.filter(|transaction| !self.best.skip.contains(transaction)).collect()
    }

    fn fails_with(&mut self, change: impl FnOnce(&mut Config)) -> bool {
        let mut config = self.best.clone();
        change(&mut config);
        config.network.delay_us_min = config.network.delay_us_min.min(config.network.delay_us_max);
        if self.runs >= RUNS_MAX || config.check().is_err() {
            return false;
        }
        self.runs += 1;
        let options = SimOptions { config: Some(config.clone()), ..self.options.clone() };
        let fails = attempt(&options, false).is_err_and(|failure| manner(&failure.reason) == self.manner);
        if fails {
            self.best = config;
        }
        fails
    }
}

/// A value for a setting.
enum Value {
    Number(u64),
    Flag(bool),
    List(Vec<u64>),
}

/// What a setting may be lowered to, the lowest first.
fn lower_values(setting: &mut Setting<'_>) -> Vec<Value> {
    let numbers = |now: u64| -> Vec<Value> {
        let mut lower = vec![0, 1, now / 2, now - now.min(1)];
        lower.retain(|value| *value < now);
        lower.dedup();
        lower.into_iter().map(Value::Number).collect()
    };
    match setting {
        Setting::Small(now) => numbers(u64::from(**now)),
        Setting::Number(now) => numbers(**now),
        Setting::Size(now) => numbers(**now as u64),
        Setting::Flag(true) => vec![Value::Flag(false)],
        Setting::Flag(false) => Vec::new(),
        Setting::List(now) => {
            let without = |at: usize| {
                Value::List(now.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, it)| *it).collect())
            };
            (0..now.len()).map(without).collect()
        }
    }
}

fn set(config: &mut Config, place: usize, value: Value) {
    let mut all = settings(config);
    match (&mut all[place].1, value) {
        (Setting::Small(now), Value::Number(value)) => **now = value as u32,
        (Setting::Number(now), Value::Number(value)) => **now = value,
        (Setting::Size(now), Value::Number(value)) => **now = value as usize,
        (Setting::Flag(now), Value::Flag(value)) => **now = value,
        (Setting::List(now), Value::List(value)) => **now = value,
        _ => unreachable!("the value was made for the setting"),
    }
}
