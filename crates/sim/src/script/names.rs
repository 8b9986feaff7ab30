//! The names that a script uses: transactions by the names it gave them, operations as it typed them.

use std::collections::BTreeMap;

use claret_core::{AttemptId, TxId};
use claret_types::{Bytes, Method, Operation, TypeInfo, builtin_types};

use crate::event::Wording;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Names {
    txs: BTreeMap<TxId, String>,
    /// Operations as typed: the name, and what follows the key.
    operations: Vec<(Operation, String, String)>,
    /// The type that was last meant on a key.
    used: BTreeMap<Bytes, &'static str>,
}

impl Names {
    /// Gives an id a name. A transaction that gets a second id has a mark behind its name there.
    pub(super) fn name(&mut self, tx: TxId, name: &str) {
        if !self.txs.contains_key(&tx) {
            let ids = self.txs.values().filter(|known| known.trim_end_matches('\'') == name).count();
            self.txs.insert(tx, name.to_owned() + &"'".repeat(ids));
        }
    }

    /// Whether a script means this transaction by a name.
    pub(super) fn is(&self, tx: TxId, name: &str) -> bool {
        self.txs.get(&tx).is_some_and(|known| known.trim_end_matches('\'') == name)
    }

    /// Reads an operation, as in the shell: its name, the key, the arguments. `made_by` is the type of the
    /// record, if there is one: where several types have an operation of the name, it is the one that is meant,
    /// then one that was used on the key before, then the first. `counter.GET` says which.
    pub(super) fn read(
        &mut self,
        words: &[String],
        made_by: impl Fn(&Bytes) -> Option<&'static str>,
    ) -> Result<(Bytes, Operation), String> {
        let [name, rest @ ..] = words else { return Err("an operation is missing, as GET x".into()) };
        let [key, arguments @ ..] = rest else { return Err(format!("{name} lacks its key, as GET x")) };
        let key = Bytes::from(key);
        let prefer = [made_by(&key), self.used.get(&key).copied()];
        let (kind, method) = meant(name, &prefer)?;
        let values: Vec<Bytes> = arguments.iter().map(Bytes::from).collect();
        let op = (kind.parse)(method.name, &values)
            .map_err(|error| format!("{error}; usage: {} key {}", method.name, method.arguments))?;
        self.used.insert(key.clone(), kind.name);
        let behind = arguments.iter().map(|argument| format!(" {argument}")).collect();
        self.operations.push((op.clone(), method.name.to_owned(), behind));
        Ok((key, op))
    }
}

impl Wording for Names {
    /// The first attempt goes by the transaction's name.
    fn attempt(&self, attempt: AttemptId) -> String {
        let name = self.txs.get(&attempt.tx).cloned().unwrap_or_else(|| attempt.tx.to_string());
        if attempt.attempt == 1 { name } else { format!("{name}/{}", attempt.attempt) }
    }

    fn operation(&self, key: &Bytes, op: &Operation) -> String {
        match self.operations.iter().find(|(known, ..)| known == op) {
            Some((_, name, behind)) => format!("{name} {key}{behind}"),
            None => format!("{op:?} on '{key}'"),
        }
    }
}

/// The operation that a name means, given the types to prefer.
fn meant(
    name: &str,
    prefer: &[Option<&'static str>],
) -> Result<(&'static TypeInfo, &'static Method), String> {
    let of = |kind: &'static TypeInfo, name: &str| {
        let method = kind.methods.iter().find(|method| method.name.eq_ignore_ascii_case(name));
        method.map(|method| (kind, method))
    };
    let named: Vec<_> = builtin_types().iter().filter_map(|kind| of(kind, name)).collect();
    let preferred = prefer.iter().flatten().find_map(|kind| named.iter().find(|(it, _)| it.name == *kind));
    if let Some(found) = preferred.or(named.first()) {
        return Ok(*found);
    }
    let typed = name.split_once('.').and_then(|(kind, method)| {
        let kind = builtin_types().iter().find(|known| known.name.eq_ignore_ascii_case(kind))?;
        of(kind, method)
    });
    typed.ok_or_else(|| format!("'{name}' is no operation; 'claret shell' lists them with HELP"))
}
