//! The checks of the built-in types.

use super::Check;
use super::living::Living;

macro_rules! checks {
    ($($place:literal $kind:ident),* $(,)?) => {
        /// Each type by itself and with what can be done to records of any type.
        const CHECKS: &[Check] = &[
            $(Check::of::<crate::$kind>(),)*
            $(Check::of::<Living<crate::$kind>>(),)*
        ];
    };
}

crate::with_types!(checks);

/// The checks of all built-in types.
pub fn builtin() -> &'static [Check] {
    CHECKS
}
