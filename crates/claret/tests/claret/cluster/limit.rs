//! A limit on each test, which begins when the module is built.

use claret_rig::{Module, TestLimit};

/// Until it is dropped, the test may go on.
pub(crate) fn of_test() -> TestLimit {
    Module::of_sources().expect("the module");
    TestLimit::begin()
}
