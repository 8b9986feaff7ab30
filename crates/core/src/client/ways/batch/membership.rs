//! What a transaction is in a batch, and how far it is.

/// How a transaction comes to its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Membership {
    /// By itself.
    Alone,
    /// It is gathered.
    Gathered,
    /// It is carried by this one.
    In(u64),
    /// It carries others, and is nobody's own.
    Carries,
}

/// How far one is that left on its own or with others in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Left {
    /// It has not, or has heard its end.
    No,
    /// It has, after so many times that the window was halved, and waited for nobody.
    Moves(u32),
    /// It has, and had to wait.
    Waited,
}
