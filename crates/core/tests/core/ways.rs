//! The ways to commit, each in its folder: interleavings that break it, sprung by hand, and its bounds.

macro_rules! rooms {
    ($($kind:ident $way:ident: $Way:ident;)*) => {
        $(mod $way;)*
    };
}

claret_core::each_way!(rooms);
