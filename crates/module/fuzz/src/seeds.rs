//! Writes what the fuzzer begins with: envelopes of every kind, as files of `corpus/envelopes`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/envelopes");
    std::fs::create_dir_all(&folder)?;
    let envelopes = claret_module_fuzz::samples();
    let all = envelopes.concat();
    for (number, input) in envelopes.iter().chain([&all]).enumerate() {
        std::fs::write(folder.join(format!("sample-{number}")), input)?;
    }
    Ok(())
}
