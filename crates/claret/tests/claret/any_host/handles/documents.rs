//! Documents, on any host: places that are written side by side, read back as values of Rust, moved, and refused.

use claret::{Error, OpError, Records, Store, errors::ExecuteError};
use serde::{Deserialize, Serialize};

use super::in_time;

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}document:{name}");
    in_time(values(store, &key("values"))).await;
    in_time(in_a_transaction(store, &key("tx"))).await;
    in_time(side_by_side(store, &key("many"))).await;
    in_time(it_moves(store, &key("moved"))).await;
    in_time(refusals(store, &key("refused"))).await;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    count: u32,
    price: Option<i64>,
}

async fn values(store: &Store, key: &str) {
    let cart = store.document(key);
    assert_eq!(cart.get::<Line>("$").await.expect("an answer"), None);
    let line = Line { count: 2, price: Some(950) };
    cart.set("$", &serde_json::json!({ "lines": { "book": line }, "tags": [], "note": "" }))
        .await
        .expect("set");
    assert_eq!(cart.get("$.lines.book").await.expect("an answer"), Some(line));
    cart.merge("$.lines", &serde_json::json!({ "book": { "price": null }, "pen": { "count": 1 } }))
        .await
        .expect("merged");
    assert_eq!(cart.get("$.lines.book.count").await.expect("an answer"), Some(2));
    assert_eq!(
        cart.keys("$.lines").await.expect("an answer"),
        Some(vec!["book".to_owned(), "pen".to_owned()])
    );
    assert_eq!(cart.push_returning("$.tags", "new").await.expect("an answer"), 1);
    cart.push_json("$.tags", ["1", "null"]).await.expect("pushed");
    cart.push_json("$.tags", [""; 0]).await.expect("nothing to do");
    assert_eq!(cart.push_json_returning("$.tags", ["[]"]).await.expect("an answer"), 4);
    assert_eq!(cart.append_returning("$.note", "it's \"here\"").await.expect("an answer"), 11);
    assert_eq!(cart.add_returning::<i64>("$.lines.pen.count", 4).await.expect("an answer"), 5);
    assert_eq!(cart.add_returning::<f64>("$.lines.pen.count", 0.25).await.expect("an answer"), 5.25);
    assert_eq!(cart.kind("$.lines.pen.count").await.expect("an answer"), Some("number".to_owned()));
    assert!(cart.remove_returning("$.lines.book").await.expect("an answer"));
    cart.remove("$.lines.pen").await.expect("removed");
    let left = r#"{"lines":{},"note":"it's \"here\"","tags":["new",1,null,[]]}"#;
    assert_eq!(cart.get_json("$").await.expect("an answer"), Some(left.to_owned()));
}

/// It sees its own writes, and leaves nothing if it is given up.
async fn in_a_transaction(store: &Store, key: &str) {
    let seen = store.transaction(|tx| async move {
        let doc = tx.document(key);
        doc.set_json("$", r#"{"a": {"b": 1}}"#)?;
        doc.add("$.a.b", 2)?;
        doc.remove("$.a.b")?;
        doc.set("$.a.c", &true)?;
        Ok((doc.get_json("$.a").await?, doc.kind("$.a.c").await?))
    });
    let (a, kind) = seen.await.expect("committed");
    assert_eq!((a.as_deref(), kind.as_deref()), (Some(r#"{"c":true}"#), Some("boolean")));
    let given_up = store.transaction(|tx| async move {
        tx.document(key).remove("$")?;
        assert_eq!(tx.document(key).get_json("$").await?, None);
        Err::<(), _>(claret::Abort::because("no"))
    });
    given_up.await.expect_err("given up");
    assert_eq!(
        store.document(key).get_json("$").await.expect("an answer").as_deref(),
        Some(r#"{"a":{"c":true}}"#)
    );
}

/// Each adds to one number and writes a place of its own.
async fn side_by_side(store: &Store, key: &str) {
    store.document(key).set_json("$", r#"{"sum": 0, "of": {}}"#).await.expect("set");
    let tasks = (0..16).map(|number| {
        let (store, key) = (store.clone(), key.to_owned());
        tokio::spawn(async move {
            let added = store.transaction(|tx| {
                let doc = tx.document(&key);
                async move {
                    doc.add("$.sum", number)?;
                    Ok(doc.set(format!("$.of.n{number}"), &number)?)
                }
            });
            added.await.expect("committed");
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    assert_eq!(store.document(key).get("$.sum").await.expect("an answer"), Some(120));
    assert_eq!(store.document(key).keys("$.of").await.expect("an answer").map(|of| of.len()), Some(16));
}

async fn it_moves(store: &Store, from: &str) {
    let to = format!("{from}:to");
    store.document(from).set_json("$", r#"{"a.b": {"c": [1]}}"#).await.expect("set");
    assert!(store.rename(from, &to).await.expect("moved"));
    assert_eq!(store.document(from).get_json("$").await.expect("an answer"), None);
    store.document(&to).push("$[\"a.b\"].c", &2).await.expect("it is a document still");
    let moved = store.document(&to).get_json("$").await.expect("an answer");
    assert_eq!(moved.as_deref(), Some(r#"{"a.b":{"c":[1,2]}}"#));
}

/// Bad input is refused before anything is sent, and by name; what cannot be done changes nothing.
async fn refusals(store: &Store, key: &str) {
    let doc = store.document(key);
    let reason = |error: Error| match error {
        Error::Execute(ExecuteError::Invalid { key: named, error }) => {
            assert_eq!(named, key.into());
            error
        }
        other => panic!("{other:?}"),
    };
    doc.set_json("$", r#"{"n": 1, "s": "x"}"#).await.expect("set");
    let error = reason(doc.set_json("$.n[*]", "1").await.expect_err("a wildcard"));
    assert!(error.to_string().contains("'$.n[*]' is not a path that names one place"), "{error}");
    let error = reason(doc.set_json("$.n", "{\"a\":}").await.expect_err("no JSON"));
    assert!(error.to_string().contains("is not JSON (expected value at line 1 column 6)"), "{error}");
    let error = reason(doc.add("$.n", f64::NAN).await.expect_err("not finite"));
    assert!(matches!(&error, OpError::Argument { given, .. } if given == "null"), "{error}");
    let error = reason(doc.add("$.s", 1).await.expect_err("a string"));
    assert!(error.to_string().contains("a value of type string at $.s"), "{error}");
    let error = reason(doc.set_json("$.x.y", "1").await.expect_err("no object"));
    assert!(error.to_string().contains("set an object at $.x first"), "{error}");
    let error = doc.get::<u32>("$.s").await.expect_err("no number");
    assert!(matches!(error, Error::Execute(ExecuteError::Value { .. })), "{error:?}");
    store.set(key).add("m").await.expect_err("it is no set");
    assert_eq!(doc.get_json("$").await.expect("an answer").as_deref(), Some(r#"{"n":1,"s":"x"}"#));
}
