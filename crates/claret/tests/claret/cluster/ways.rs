//! The ways to commit, on a cluster.

macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*
    };
}

claret_core::each_way!(rooms);
