//! Scripts of Redis (Lua 5.1) as programs: compiled, verified, and carried out with bounds on steps and memory.
//!
//! There is no I/O here. A run stops at each command that its script calls, and goes on when it is told the answer. All that it has is
//! data, so it may be kept, moved, or dropped at each stop.
//!
//! ```
//! use std::sync::Arc;
//! use claret_program::{Answer, Limits, Pause, Program, Run, Start};
//!
//! let program = Arc::new(Program::compile(b"return redis.call('incr', KEYS[1]) * 2").unwrap());
//! let start = Start { keys: vec![b"counter".to_vec()], args: Vec::new(), ..Start::default() };
//! let mut run = Run::new(program, start);
//! let Pause::Call(call) = run.resume(1_000) else { panic!("it calls a command") };
//! assert_eq!(call.words, [b"incr".to_vec(), b"counter".to_vec()]);
//! run.answered(Answer::Int(21));
//! assert_eq!(run.resume(1_000), Pause::Done(Answer::Int(42)));
//! ```

// | file | what |
// |---|---|
// | `run`, `functions` | a run as its host sees it; libraries of functions |
// | `answer` | answers of commands as values, and values as answers |
// | `library/` | the functions that scripts have |
// | `machine/` | frames, instructions, errors |
// | `heap`, `table`, `value` | what scripts work on |
// | `compile/`, `verify`, `code` | from text to checked instructions |
// | `text`, `literal`, `shebang`, `calls` | the text itself, and what it says of its commands |
// | `pattern`, `format`, `number`, `json`, `msgpack`, `packing`, `bits`, `data` | what library functions compute |

mod answer;
mod bits;
mod calls;
mod code;
mod compile;
mod data;
mod fault;
mod format;
mod functions;
mod heap;
mod json;
mod library;
mod literal;
mod machine;
mod msgpack;
mod number;
mod packing;
mod pattern;
mod program;
mod run;
mod shebang;
mod table;
mod text;
mod value;
mod verify;

pub use answer::Answer;
pub use calls::Given;
pub use compile::CompileError;
pub use functions::{Function, Library, LoadError};
pub use program::Program;
pub use run::{Call, Failure, FailureKind, Limits, Pause, Run, Start};
pub use shebang::ScriptFlags;

/// The SHA-1 of a text in lower-case hexadecimal digits, as servers name scripts.
#[must_use]
pub fn sha1_hex(text: &[u8]) -> String {
    library::digest(text)
}
