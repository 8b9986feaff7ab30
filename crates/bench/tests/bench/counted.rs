//! What `tools/instructions` counts can be run.

use std::process::{Command, Stdio};

/// Bug: `claret` came to be a mode of the model as well, and the program that is counted took it for none of a store. Mend: it asks what
/// the mode is on a store.
#[test]
fn the_modes_that_are_counted_are_those_of_a_store() {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/instructions");
    let tool = std::fs::read_to_string(tool).expect("the tool");
    let modes = tool.lines().find_map(|line| line.strip_prefix("MODES = ")).expect("its modes");
    let modes: Vec<&str> = modes.split('"').skip(1).step_by(2).collect();
    assert_eq!(modes, ["none", "claret"]);
    let this = std::env::current_exe().expect("this program");
    let built = this.ancestors().nth(2).expect("where cargo builds");
    for mode in modes {
        let mut load = Command::new(built.join("examples/fixed_load"));
        load.args(["embedded", mode, "hot", "64", "64", "1"]).stdin(Stdio::null());
        let ran = load
            .output()
            .expect("it is there: `cargo build --workspace --all-targets` builds it, as ./check does");
        assert!(ran.status.success(), "{mode}: {}", String::from_utf8_lossy(&ran.stderr));
        assert!(String::from_utf8_lossy(&ran.stdout).contains("\"transactions\":64"), "{mode}");
    }
}
