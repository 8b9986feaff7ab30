//! The ways to commit that can be taken out: a folder for each that a store can be asked for as a mode.

macro_rules! rooms {
    ($(round $_way:ident: $_Way:ident;)* $(process $way:ident: $Way:ident;)*) => {
        $(mod $way;)*
    };
}

claret_core::each_way!(rooms);
