//! Small documents for the oracle: an object in an object, a number that is added to, and what is around them.

use super::{Document, DocumentOp, DocumentState, NEAR};
use crate::{Bytes, Examples};

fn document(fields: &[(&str, &str)]) -> DocumentState {
    let fields = fields.iter().map(|(field, text)| (Bytes::from(*field), Bytes::from(*text)));
    DocumentState::whole(fields).expect("a document")
}

fn call(line: &str) -> DocumentOp {
    let mut words = line.split(' ').map(Bytes::from);
    let name = words.next().expect("a name");
    DocumentOp::new(name.as_str().expect("text"), &words.collect::<Vec<_>>())
}

impl Examples for Document {
    fn states() -> Vec<DocumentState> {
        let far = NEAR.to_string();
        vec![
            document(&[]),
            document(&[("$", "{}")]),
            document(&[("$", "{}"), ("$.a", "{}"), ("$.a.b", "1")]),
            document(&[("$", "{}"), ("$.a", "{}"), ("$.a.b", "\"s\""), ("$.a.c", "[1]")]),
            document(&[("$", "{}"), ("$.a", "1")]),
            document(&[("$", "{}"), ("$.a", "{}"), ("$.a.b", &far)]),
            document(&[("$", "7")]),
        ]
    }

    fn operations() -> Vec<DocumentOp> {
        [
            "JSON.SET $ {}",
            "JSON.SET $.a 1",
            "JSON.SET $.a {\"b\":1}",
            "JSON.SET $.a.b 1",
            "JSON.SET $.a.c [1]",
            "JSON.GET $",
            "JSON.GET $.a",
            "JSON.GET $.a.b",
            "JSON.DEL $",
            "JSON.DEL $.a",
            "JSON.DEL $.a.b",
            "JSON.DEL $.a.c",
            "JSON.DEL.RETURNING $",
            "JSON.DEL.RETURNING $.a.b",
            "JSON.NUMINCRBY $.a.b 1",
            "JSON.NUMINCRBY $.a.b -2",
            "JSON.NUMINCRBY $.a.b 985.6906946328695",
            "JSON.NUMINCRBY.RETURNING $.a.b 1",
            "JSON.STRAPPEND $.a.b \"x\"",
            "JSON.STRAPPEND.RETURNING $.a.b \"\"",
            "JSON.ARRAPPEND $.a.c 2",
            "JSON.ARRAPPEND.RETURNING $.a.c 3 4",
            "JSON.TYPE $.a",
            "JSON.TYPE $.a.b",
            "JSON.OBJKEYS $",
            "JSON.OBJKEYS $.a",
            "JSON.MERGE $ {\"a\":{\"b\":null}}",
            "JSON.MERGE $.a {\"b\":1,\"c\":2}",
            "JSON.MERGE $.a {}",
        ]
        .map(call)
        .into()
    }
}
