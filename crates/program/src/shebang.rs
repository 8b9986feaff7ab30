//! The first line of a script: `#!lua name=... flags=...`.

/// What a script says of itself in its first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// It writes nothing.
    pub no_writes: bool,
    /// It may run while the server has no memory left.
    pub allow_oom: bool,
    /// It may run on a replica that does not know its master.
    pub allow_stale: bool,
    /// It does not run in a cluster.
    pub no_cluster: bool,
    /// It may use keys of several slots that it did not name.
    pub allow_cross_slot_keys: bool,
    /// Whether there was such a line. Redis treats scripts without one by its older rules.
    pub is_given: bool,
}

impl ScriptFlags {
    /// Sets what a flag's name says.
    ///
    /// # Errors
    ///
    /// There is no such flag.
    pub(crate) fn set(&mut self, name: &str) -> Result<(), String> {
        match name {
            "no-writes" => self.no_writes = true,
            "allow-oom" => self.allow_oom = true,
            "allow-stale" => self.allow_stale = true,
            "no-cluster" => self.no_cluster = true,
            "allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return Err(format!("Unexpected flag in script shebang: {name}")),
        }
        Ok(())
    }
}

/// The first line taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shebang {
    pub flags: ScriptFlags,
    pub name: Option<String>,
}

/// Reads the first line. The rest of the text keeps its line break, so that lines keep their numbers.
///
/// # Errors
///
/// Another engine, or what is not understood, in the words of Redis.
pub(crate) fn split(text: &[u8]) -> Result<(Shebang, &[u8]), String> {
    let mut shebang = Shebang::default();
    if !text.starts_with(b"#!") {
        return Ok((shebang, text));
    }
    shebang.flags.is_given = true;
    let end = text.iter().position(|byte| *byte == b'\n').ok_or("Invalid script shebang")?;
    let (line, rest) = text.split_at(end);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine.trim_start_matches("#!") != "lua" {
        return Err(format!("Unexpected engine in script shebang: {}", engine.trim_start_matches("#!")));
    }
    for word in words {
        if let Some(flags) = word.strip_prefix("flags=") {
            for name in flags.split(',').filter(|name| !name.is_empty()) {
                shebang.flags.set(name)?;
            }
        } else if let Some(name) = word.strip_prefix("name=") {
            shebang.name = Some(name.to_owned());
        } else {
            return Err(format!("Unknown lua shebang option: {word}"));
        }
    }
    Ok((shebang, rest))
}
