//! The ways to commit that can be taken out: a folder for each.

macro_rules! rooms {
    ($($kind:ident $way:ident: $Way:ident;)*) => {
        $(mod $way;)*
    };
}

claret_core::each_way!(rooms);
