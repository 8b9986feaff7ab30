//! Nothing but tests (`tests/tidy`): style that a machine can check, over the whole repository. It is a crate of its own so that
//! nothing else has to be compiled for it.
