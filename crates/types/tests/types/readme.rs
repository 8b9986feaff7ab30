//! The table of types in README.md is what the types say of themselves: `UPDATE=1` writes it.

use std::fs;
use std::path::Path;

use claret_types::{BuiltIn, with_types};

const HEAD: &str = "| type | for | stored in Redis as | these share the lock |\n|---|---|---|---|\n";

fn row<T: BuiltIn>(name: &str) -> String {
    let link = format!("[{name}](docs/types.md#{})", name.to_lowercase());
    format!("| {link} | {} | {} | {} |\n", T::SUMMARY, T::NATIVE, T::SHARING)
}

#[test]
fn the_table_of_types_is_what_they_say() {
    macro_rules! rows {
        ($($place:literal $kind:ident),* $(,)?) => { [$(row::<claret_types::$kind>(stringify!($kind))),*] };
    }
    let table = with_types!(rows).concat();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = fs::read_to_string(&path).expect("it is there");
    let (before, rest) = page.split_once(HEAD).expect("it has the table");
    let (_, behind) = rest.split_once("\n\n").expect("something is behind the table");
    let written = format!("{before}{HEAD}{table}\n{behind}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &written).expect("written");
    }
    let page = fs::read_to_string(&path).expect("it is there");
    assert!(
        page == written,
        "README.md has another table: UPDATE=1 cargo test -p claret-types --test types readme"
    );
}
