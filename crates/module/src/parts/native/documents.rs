//! Documents: Redis hashes with a field for each place that holds something. The field of the root tells them from other hashes.

use claret_planted::{Bug, is_planted};
use claret_types::{
    Bytes, Document, DocumentEffect, DocumentNode, DocumentState, Effect, OpError, Operation, State,
};

use super::{OnServer, OpenKey, Record, Server};
use crate::ffi::Kind;
use crate::parts::equivalent::Equivalent;

/// The field that every document has.
const ROOT: &[u8] = b"$";

impl OnServer for Document {
    const KIND: Option<Kind> = None;

    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        looked_at(record, &[op], own)
    }

    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        Ok((looked_at(record, ops, own)?, ops.len()))
    }

    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError> {
        if open(record)?.is_none() {
            return Ok(None);
        }
        let flat: Vec<Bytes> = record.read(c"HGETALL", []).list().collect();
        let pairs = flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        Ok(Some(State::new::<Document>(DocumentState::whole(pairs)?)))
    }

    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
        for effect in effects {
            match effect.downcast::<Document>().expect("a document's") {
                DocumentEffect::Add(field, amount) => {
                    record.write(c"HINCRBY", [&field[..], amount.to_string().as_bytes()]);
                }
                // The root stays as long as there is a document, and the record's expiry with it.
                DocumentEffect::Change { put, removed } => {
                    write(record, put.iter().map(|(field, node)| (field, node)));
                    let gone: Vec<&[u8]> = removed.iter().map(|field| &field[..]).collect();
                    record.write_all(c"HDEL", 1, &gone);
                }
            }
        }
    }

    fn removes(effect: &DocumentEffect) -> usize {
        match effect {
            DocumentEffect::Change { removed, .. } => removed.len(),
            DocumentEffect::Add(..) => 0,
        }
    }

    fn equivalent(method: &'static str) -> Equivalent {
        match method {
            // What is in the place before goes.
            "JSON.SET" | "JSON.MERGE" => Equivalent::of("HSET").and("HDEL"),
            "JSON.STRAPPEND" | "JSON.STRAPPEND.RETURNING" | "JSON.ARRAPPEND" | "JSON.ARRAPPEND.RETURNING" => {
                Equivalent::of("HSET")
            }
            // A float is written.
            "JSON.NUMINCRBY" | "JSON.NUMINCRBY.RETURNING" => Equivalent::of("HINCRBY").and("HSET"),
            "JSON.DEL" | "JSON.DEL.RETURNING" => Equivalent::of("HDEL"),
            "JSON.GET" => Equivalent::of("HGETALL"),
            "JSON.TYPE" => Equivalent::of("HGET"),
            "JSON.OBJKEYS" => Equivalent::of("HKEYS"),
            _ => Equivalent::named(method),
        }
    }
}

/// For calls one after the other: the fields that they look at, or all if one looks into an object.
fn looked_at(
    record: &Record<'_, impl Server>,
    ops: &[&Operation],
    own: &[&Effect],
) -> Result<Option<State>, OpError> {
    let Some(key) = open(record)? else { return Ok(None) };
    let mut fields = vec![Bytes::from(ROOT)];
    for op in ops.iter().map(|op| op.downcast::<Document>().expect("a document's")) {
        for (field, within) in op.looks_at() {
            if within && !is_planted(Bug::MembersUnread) && is_object(&key, &field) {
                record.check_whole(Some(key))?;
                return Document::whole(record);
            }
            fields.push(field);
        }
    }
    for effect in own.iter().filter_map(|effect| effect.downcast::<Document>()) {
        match effect {
            DocumentEffect::Change { put, removed } => {
                fields.extend(put.iter().map(|(field, _)| field.clone()));
                fields.extend(removed.iter().cloned());
            }
            DocumentEffect::Add(field, _) => fields.push(field.clone()),
        }
    }
    fields.sort_unstable();
    fields.dedup();
    let text = |field: &Bytes| record.field(&key, field).map(|text| Bytes::from(text.as_ref()));
    let found = fields.into_iter().filter_map(|field| text(&field).map(|text| (field, text)));
    Ok(Some(State::new::<Document>(DocumentState::partial(found)?)))
}

/// Opens it; `None` when it is not there.
fn open<S: Server>(record: &Record<'_, S>) -> Result<Option<S::Key>, OpError> {
    let Some(key) = record.open(Kind::Hash)? else { return Ok(None) };
    match key.field(ROOT).is_some() || is_planted(Bug::RootlessTaken) {
        true => Ok(Some(key)),
        false => Err(record.wrong_type("hash without the field $", "document")),
    }
}

fn is_object(key: &impl OpenKey, field: &[u8]) -> bool {
    // Whoever wrote it with a plain command may have left spaces.
    key.field(field).is_some_and(|text| text.as_ref().trim_ascii().first() == Some(&b'{'))
}

fn write<'a>(
    record: &Record<'_, impl Server>,
    fields: impl IntoIterator<Item = (&'a Bytes, &'a DocumentNode)>,
) {
    let pairs: Vec<(&Bytes, Bytes)> =
        fields.into_iter().map(|(field, node)| (field, node.to_bytes())).collect();
    let words: Vec<&[u8]> = pairs.iter().flat_map(|(field, text)| [&field[..], &text[..]]).collect();
    record.write_all(c"HSET", 2, &words);
}
