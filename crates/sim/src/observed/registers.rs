//! Registers: one value at a time, and each value is put there once.
//!
//! An overwritten value does not come back. So a reader of it comes before every transaction that overwrote it: one
//! that swapped it for its own, and one that began when its writer was done.

use std::collections::{BTreeMap, BTreeSet};

use claret_types::Bytes;

use super::{Act, Judge, Reason};

/// Who did what to one register.
#[derive(Default)]
struct Register {
    writers: BTreeMap<u64, usize>,
    /// Who saw what.
    readers: Vec<(usize, Option<u64>)>,
    /// Who put its own over what.
    swaps: Vec<(usize, u64)>,
}

impl<'a> Judge<'a> {
    /// Adds the edges of all registers.
    pub(super) fn add_registers(&mut self) -> Result<(), String> {
        let mut registers: BTreeMap<&'a Bytes, Register> = BTreeMap::new();
        for at in self.counted() {
            let keys: BTreeSet<&'a Bytes> = {
                let acts = self.history[at].acts.iter();
                acts.filter(|(_, act)| act.is_of_register()).map(|(key, _)| key).collect()
            };
            for key in keys {
                self.add_to_register(at, key, registers.entry(key).or_default())?;
            }
        }
        for (key, register) in registers {
            self.add_register(key, &register)?;
        }
        Ok(())
    }

    /// What one transaction did to a register: it sees what it put itself, and otherwise one value; only its last one is
    /// ever seen by others.
    fn add_to_register(&self, at: usize, key: &Bytes, register: &mut Register) -> Result<(), String> {
        let name = &self.history[at].name;
        let (mut own, mut seen) = (None, None);
        for (_, act) in self.history[at].acts.iter().filter(|(on, _)| on == key) {
            if let Act::Get(value) | Act::Swap { old: value, .. } = act {
                let expected = own.map(Some).or(seen);
                if expected.is_some_and(|expected| expected != *value) {
                    return Err(format!("{name} sees {value:?} in '{key}' where it saw or put {expected:?}"));
                }
                if own.is_none() {
                    seen = Some(*value);
                }
            }
            own = act.written().or(own);
        }
        register.writers.extend(own.map(|value| (value, at)));
        register.readers.extend(seen.map(|value| (at, value)));
        if let (Some(_), Some(Some(value))) = (own, seen) {
            register.swaps.push((at, value));
        }
        Ok(())
    }

    fn add_register(&mut self, key: &'a Bytes, register: &Register) -> Result<(), String> {
        let ends = self.ends.get(key).cloned().unwrap_or_default();
        for (reader, seen) in &register.readers {
            let Some(value) = seen else {
                let all = register.writers.iter();
                all.for_each(|(value, writer)| self.miss(*reader, key, *value, *writer));
                continue;
            };
            let Some(writer) = register.writers.get(value).copied() else {
                let name = &self.history[*reader].name;
                return Err(format!(
                    "{name} sees {value} in '{key}', over which its writer put another at once"
                ));
            };
            self.edge(writer, *reader, Reason::Saw(key.clone(), *value));
            let by_time = register.writers.values().filter(|later| self.is_before(writer, **later));
            let by_swap = register.swaps.iter().filter(|(_, old)| old == value).map(|(later, _)| later);
            let later: BTreeSet<usize> = by_time.chain(by_swap).copied().collect();
            later.iter().for_each(|later| self.edge(*reader, *later, Reason::Rewrote(key.clone(), *value)));
            let life = BTreeSet::from([writer, *reader]);
            let certain = ends.iter().filter(|(_, is_certain)| *is_certain);
            certain.for_each(|(end, _)| self.order_around(key, *end, &life));
        }
        Ok(())
    }
}
