//! The methods of a type: each operation described once as data.

/// Whether an operation reads or writes: its lock in the reader/writer baseline.
// P70.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Leaves the record as it is.
    Read,
    /// May change it.
    Write,
}

/// One operation of a type, described once as data: the shell, the help and the docs read it from here.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// The Redis name, in capitals. Where Redis has one name for a void operation and one that answers, the latter
    /// ends in `.RETURNING`.
    // P66.
    pub name: &'static str,
    /// The arguments after the key, in Redis's notation: `member [member ...]`.
    pub arguments: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// Its lock in the reader/writer baseline.
    pub access: Access,
    /// Whether it answers something. Void operations take their lock at commit and cost no round trip.
    // P66.
    pub returns: bool,
    /// Cost of executing and applying it.
    pub complexity: &'static str,
}

/// Finds a method in a table by its name: the last step of [`DataType::method`](crate::DataType::method).
///
/// # Panics
/// If it is not in the table: a mistake in the type, which its first call shows.
pub fn method_named(methods: &'static [Method], name: &str) -> &'static Method {
    // Mostly the compiler has each name once, and then its place tells.
    let is_same = |method: &&Method| std::ptr::eq(method.name, name);
    let found = methods.iter().find(is_same).or_else(|| methods.iter().find(|method| method.name == name));
    found.expect("every operation is in METHODS")
}
