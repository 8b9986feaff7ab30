//! The ways to commit, on a cluster.

macro_rules! rooms {
    ($($way:ident: $Way:ident;)*) => {
        $(mod $way;)*
    };
}

claret_core::each_way!(rooms);
