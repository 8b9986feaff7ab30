//! Writes what the fuzzers begin with: conversations that work, as files of `corpus/TARGET`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in ["requests", "conversation"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in claret_gateway::fuzzing::seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("{number:02}")), seed)?;
        }
    }
    Ok(())
}
