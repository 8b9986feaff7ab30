//! The handle of documents.

use claret_types::{Bytes, Document, DocumentOp, JsonNumber};

use super::living::living;
use super::{AnswerIn, Record, Scope};
use crate::decode;
use crate::value::FromValue;
#[cfg(feature = "json")]
use crate::value::{IntoValue, Json, ValueError};

living!(DocumentRecord.0);

/// A JSON value whose places are read and written one by one. See [`Document`].
///
/// A path names one place: `$` is the root, `$.a.b` a member of a member, `$["a.b"]` one with other characters in its name. One
/// that names many places (wildcards, filters, `..`) or an element of an array is refused, and so is JSON that is none: with the
/// position.
///
/// ```
/// use claret::{Records, Store};
///
/// let store = Store::in_memory().blocking();
/// let cart = store.document("cart:7");
/// cart.set_json("$", r#"{"owner": "ada", "lines": {}, "total": 0}"#)?;
/// store.transaction(|tx| {
///     let cart = tx.document("cart:7");
///     cart.set_json("$.lines.book", r#"{"count": 2, "price": 950}"#)?;
///     Ok(cart.add("$.total", 1900)?)
/// })?;
/// assert_eq!(cart.keys("$.lines")?, Some(vec!["book".to_owned()]));
/// assert_eq!(cart.add_returning::<i64>("$.total", -900)?, 1000);
/// let line = cart.get_json("$.lines.book")?.expect("it is there");
/// assert_eq!(line, r#"{"count":2,"price":950}"#);
///
/// let error = cart.get_json("$.lines[*].price").expect_err("it names many places");
/// assert!(error.to_string().contains("'$.lines[*].price' is not a path that names one place"));
/// # Ok::<_, claret::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DocumentRecord<S>(pub(super) Record<S, Document>);

fn op(method: &str, path: impl Into<Bytes>) -> DocumentOp {
    DocumentOp::new(method, &[path.into()])
}

fn op_with(method: &str, path: impl Into<Bytes>, argument: impl Into<Bytes>) -> DocumentOp {
    DocumentOp::new(method, &[path.into(), argument.into()])
}

fn op_with_many(
    method: &str,
    path: impl Into<Bytes>,
    arguments: impl IntoIterator<Item = Bytes>,
) -> DocumentOp {
    DocumentOp::new(method, &std::iter::once(path.into()).chain(arguments).collect::<Vec<_>>())
}

impl<S: Scope> DocumentRecord<S> {
    /// `JSON.SET`: writes a value, given as JSON, at a place. The object that it is in has to be there.
    pub fn set_json(&self, path: impl Into<Bytes>, json: impl Into<Bytes>) -> S::Void {
        self.0.issue(op_with("JSON.SET", path, json))
    }

    /// `JSON.MERGE`: merges a patch, given as JSON, into a place: members that are `null` are removed (RFC 7396).
    pub fn merge_json(&self, path: impl Into<Bytes>, patch: impl Into<Bytes>) -> S::Void {
        self.0.issue(op_with("JSON.MERGE", path, patch))
    }

    /// `JSON.GET`: the JSON of what is at a place; without spaces, its members in bytewise order.
    pub fn get_json(&self, path: impl Into<Bytes>) -> AnswerIn<S, Option<String>> {
        self.0.read(op("JSON.GET", path), decode::optional())
    }

    /// `JSON.DEL`: removes a place and all that is in it.
    pub fn remove(&self, path: impl Into<Bytes>) -> S::Void {
        self.0.issue(op("JSON.DEL", path))
    }

    /// `JSON.DEL.RETURNING`: removes a place and all that is in it; whether there was something.
    pub fn remove_returning(&self, path: impl Into<Bytes>) -> AnswerIn<S, bool> {
        self.0.run(op("JSON.DEL.RETURNING", path))
    }

    /// `JSON.NUMINCRBY`: adds to the number at a place. Integers that are added to an integer share the lock.
    pub fn add(&self, path: impl Into<Bytes>, amount: impl Into<JsonNumber>) -> S::Void {
        self.0.issue(op_with("JSON.NUMINCRBY", path, amount.into().to_text()))
    }

    /// `JSON.NUMINCRBY.RETURNING`: adds to the number at a place; the sum.
    pub fn add_returning<V: FromValue>(
        &self,
        path: impl Into<Bytes>,
        amount: impl Into<JsonNumber>,
    ) -> AnswerIn<S, V> {
        self.0.read(op_with("JSON.NUMINCRBY.RETURNING", path, amount.into().to_text()), decode::one())
    }

    /// `JSON.STRAPPEND`: appends to the string at a place.
    pub fn append(&self, path: impl Into<Bytes>, text: &str) -> S::Void {
        self.0.issue(op_with("JSON.STRAPPEND", path, claret_types::JsonValue::Text(text.into()).to_text()))
    }

    /// `JSON.STRAPPEND.RETURNING`: appends to the string at a place; how many bytes it has.
    pub fn append_returning(&self, path: impl Into<Bytes>, text: &str) -> AnswerIn<S, u64> {
        let text = claret_types::JsonValue::Text(text.into()).to_text();
        self.0.run(op_with("JSON.STRAPPEND.RETURNING", path, text))
    }

    /// `JSON.ARRAPPEND`: appends values, given as JSON, to the array at a place.
    pub fn push_json(
        &self,
        path: impl Into<Bytes>,
        values: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> S::Void {
        let values = values.into_iter().map(Into::into).collect();
        self.0.issue_many(Ok(values), |values| op_with_many("JSON.ARRAPPEND", path, values))
    }

    /// `JSON.ARRAPPEND.RETURNING`: appends values, given as JSON, to the array at a place; how many it has. Of none, 0.
    pub fn push_json_returning(
        &self,
        path: impl Into<Bytes>,
        values: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> AnswerIn<S, u64> {
        let values = values.into_iter().map(Into::into).collect();
        let op = |values| op_with_many("JSON.ARRAPPEND.RETURNING", path, values);
        self.0.read_many(Ok(values), op, decode::count())
    }

    /// `JSON.TYPE`: `null`, `boolean`, `integer`, `number`, `string`, `array` or `object`, if there is something at a place.
    pub fn kind(&self, path: impl Into<Bytes>) -> AnswerIn<S, Option<String>> {
        self.0.read(op("JSON.TYPE", path), decode::optional())
    }

    /// `JSON.OBJKEYS`: the names in the object at a place, in bytewise order; `None` if there is none.
    pub fn keys(&self, path: impl Into<Bytes>) -> AnswerIn<S, Option<Vec<String>>> {
        self.0.read(op("JSON.OBJKEYS", path), decode::optional_each())
    }
}

/// The same with values of Rust, by serde.
///
/// ```
/// use claret::{Records, Store};
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Address { street: String, floor: Option<u32> }
///
/// let store = Store::in_memory().blocking();
/// let user = store.document("user:1");
/// let home = Address { street: "Elm".into(), floor: Some(3) };
/// user.set("$", &serde_json::json!({ "home": home, "tags": [] }))?;
/// user.push("$.tags", "new")?;
/// user.set("$.home.floor", &4)?;
/// assert_eq!(user.get("$.home")?, Some(Address { floor: Some(4), ..home }));
/// assert_eq!(user.get::<Vec<String>>("$.tags")?, Some(vec!["new".to_owned()]));
/// # Ok::<_, claret::Error>(())
/// ```
#[cfg(feature = "json")]
impl<S: Scope> DocumentRecord<S> {
    /// `JSON.SET`: writes a value at a place. The object that it is in has to be there.
    pub fn set<V: serde::Serialize + ?Sized>(&self, path: impl Into<Bytes>, value: &V) -> S::Void {
        self.0.issue_checked(op_of("JSON.SET", path, value))
    }

    /// `JSON.MERGE`: merges a patch into a place: members that are `null` are removed (RFC 7396).
    pub fn merge<V: serde::Serialize + ?Sized>(&self, path: impl Into<Bytes>, patch: &V) -> S::Void {
        self.0.issue_checked(op_of("JSON.MERGE", path, patch))
    }

    /// `JSON.GET`: what is at a place.
    pub fn get<V: serde::de::DeserializeOwned + 'static>(
        &self,
        path: impl Into<Bytes>,
    ) -> AnswerIn<S, Option<V>> {
        self.0.read(op("JSON.GET", path), decode::optional_json())
    }

    /// `JSON.ARRAPPEND`: appends a value to the array at a place.
    pub fn push<V: serde::Serialize + ?Sized>(&self, path: impl Into<Bytes>, value: &V) -> S::Void {
        self.0.issue_checked(op_of("JSON.ARRAPPEND", path, value))
    }

    /// `JSON.ARRAPPEND.RETURNING`: appends a value to the array at a place; how many it has.
    pub fn push_returning<V: serde::Serialize + ?Sized>(
        &self,
        path: impl Into<Bytes>,
        value: &V,
    ) -> AnswerIn<S, u64> {
        self.0.run_checked(op_of("JSON.ARRAPPEND.RETURNING", path, value))
    }
}

#[cfg(feature = "json")]
fn op_of<V: serde::Serialize + ?Sized>(
    method: &str,
    path: impl Into<Bytes>,
    value: &V,
) -> Result<DocumentOp, ValueError> {
    Ok(op_with(method, path, Json(value).into_value()?))
}
