//! The ways to commit, set by the builder.

macro_rules! rooms {
    ($(round $way:ident: $_Way:ident;)* $(process $_way:ident: $_Process:ident;)*) => {
        $(mod $way;)*
    };
}

claret_core::each_way!(rooms);
