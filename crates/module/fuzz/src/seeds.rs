//! Writes what the fuzzer begins with: letters of every kind, as files of `corpus/letters`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/letters");
    std::fs::create_dir_all(&folder)?;
    let letters = claret_module_fuzz::samples();
    let all = letters.concat();
    for (number, input) in letters.iter().chain([&all]).enumerate() {
        std::fs::write(folder.join(format!("sample-{number}")), input)?;
    }
    Ok(())
}
