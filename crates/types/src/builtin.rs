//! The built-in types, as a list: what prompts, help and documentation are made from.
//!
//! The order is that of [`oracle::builtin`](crate::oracle::builtin). Where several types have an operation of one
//! name (GET), the first is the one meant unless something says otherwise.

use crate::{
    BoundedCounter, Counter, Dict, FloatCounter, List, Register, ScoredSet, Set, SummaryBag, TopK, TypeInfo,
    UidGenerator,
};

/// All built-in types.
pub fn builtin_types() -> &'static [&'static TypeInfo] {
    const TYPES: &[&TypeInfo] = &[
        TypeInfo::of::<Register>(),
        TypeInfo::of::<Counter>(),
        TypeInfo::of::<FloatCounter>(),
        TypeInfo::of::<BoundedCounter>(),
        TypeInfo::of::<Set>(),
        TypeInfo::of::<Dict>(),
        TypeInfo::of::<ScoredSet>(),
        TypeInfo::of::<TopK>(),
        TypeInfo::of::<SummaryBag>(),
        TypeInfo::of::<List>(),
        TypeInfo::of::<UidGenerator>(),
    ];
    TYPES
}

#[cfg(test)]
mod tests {
    use super::builtin_types;
    use crate::oracle;

    #[test]
    fn every_type_is_checked_by_the_oracle_and_in_its_order() {
        let listed: Vec<&str> = builtin_types().iter().map(|kind| kind.name).collect();
        let checked: Vec<&str> = oracle::builtin().iter().map(|check| check.name).collect();
        assert_eq!(listed, checked);
    }
}
