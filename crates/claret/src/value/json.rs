//! Values as JSON.

use claret_types::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FromValue, IntoValue, ValueError};

/// A value that is written as JSON. See [`IntoValue`].
///
/// ```
/// use claret::{Json, Records, Store};
///
/// #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Guest { name: String, seats: u32 }
///
/// let store = Store::in_memory().blocking();
/// let ada = Guest { name: "ada".into(), seats: 2 };
/// store.register("guest:1").set(Json(&ada))?;
/// let Some(Json(read)) = store.register("guest:1").get::<Json<Guest>>()? else { unreachable!("just written") };
/// assert_eq!(read, ada);
/// # Ok::<_, claret::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoValue for Json<T> {
    fn into_value(self) -> Result<Bytes, ValueError> {
        let text = serde_json::to_vec(&self.0);
        text.map(Bytes::from).map_err(|error| ValueError::new(format!("one without JSON ({error})"), "JSON"))
    }
}

impl<T: DeserializeOwned + 'static> FromValue for Json<T> {
    fn from_value(value: Bytes) -> Result<Self, ValueError> {
        serde_json::from_slice(&value).map(Json).map_err(|error| {
            let kind = std::any::type_name::<T>();
            ValueError::of(&value, format!("JSON of {kind} ({error})"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn json_reads_back() {
        let prices = Json(BTreeMap::from([("ada".to_owned(), vec![1, 2])]));
        let written = prices.clone().into_value().expect("it has a form");
        assert_eq!(written, r#"{"ada":[1,2]}"#.into());
        assert_eq!(Json::from_value(written), Ok(prices));
    }

    #[test]
    fn what_is_no_json_of_the_type_names_the_type_and_the_place() {
        let error = Json::<Vec<u32>>::from_value("[1,".into()).expect_err("it ends too early");
        assert_eq!(
            error.to_string(),
            "the value is text of 3 bytes, and JSON of alloc::vec::Vec<u32> \
             (EOF while parsing a value at line 1 column 3) was asked for"
        );
        let without_text_for_keys = Json(BTreeMap::from([(vec![1], 2)]));
        let error = without_text_for_keys.into_value().expect_err("its keys are lists");
        assert_eq!(
            error.to_string(),
            "the value is one without JSON (key must be a string), and JSON was asked for"
        );
    }
}
