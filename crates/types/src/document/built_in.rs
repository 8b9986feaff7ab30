//! How documents are kept on a server, described in words, and loaded in part.

use std::collections::BTreeSet;

use super::path::ROOT;
use super::{Document, DocumentEffect, DocumentOp, DocumentState, Node};
use crate::builtin::{BuiltIn, Native};
use crate::words::pairs;
use crate::{Bytes, OpError};

impl BuiltIn for Document {
    const SHARING: &'static str = "different places; increments of one integer";
    const READS_ALL: &'static [&'static str] = &["JSON.GET"];

    fn native(state: &DocumentState) -> Native {
        Native::Hash(state.fields().map(|(field, node)| (field.clone(), node.to_bytes())).collect())
    }

    fn of_words(words: &[Bytes]) -> Result<Option<DocumentState>, OpError> {
        let fields = pairs(words)?.map(|pair| (pair[0].clone(), pair[1].clone()));
        if words.is_empty() { Ok(None) } else { DocumentState::whole(fields).map(Some) }
    }

    fn elements(state: &DocumentState) -> usize {
        state.len()
    }

    fn part(whole: &DocumentState, op: &DocumentOp, own: &[&DocumentEffect]) -> DocumentState {
        let looks_at = op.looks_at();
        let is_object = |field: &Bytes| whole.get(field) == Some(&Node::Object);
        if looks_at.iter().any(|(field, within)| *within && is_object(field)) {
            return whole.clone();
        }
        let root = Bytes::from(ROOT);
        let mut names: BTreeSet<&Bytes> = looks_at.iter().map(|(field, _)| field).chain([&root]).collect();
        for effect in own {
            match effect {
                DocumentEffect::Add(field, _) => drop(names.insert(field)),
                DocumentEffect::Change { put, removed } => {
                    names.extend(put.iter().map(|(field, _)| field).chain(removed));
                }
            }
        }
        whole.only(|field| names.contains(field))
    }
}
