//! The function that is being compiled: its code, its registers, and its constants.

use std::collections::HashMap;

use full_moon::tokenizer::TokenReference;

use crate::code::{Capture, Constant, Function, Naming, Op, Operand, Origin, REGISTERS_MAX, Unit};
use crate::text;

use super::CompileError;

/// Variables of one function that are in sight at once.
const LOCALS_MAX: usize = 200;

/// What compiling answers.
pub(super) type Compiled<T> = Result<T, CompileError>;

/// A constant as a key: numbers by their bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ConstantKey {
    Nil,
    Bool(bool),
    Number(u64),
    Text(Box<[u8]>),
}

/// A variable of the function.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub name: Box<str>,
    pub register: u8,
    pub is_captured: bool,
}

/// A block: which variables are its own, and where its loop is left.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub first_local: usize,
    pub is_loop: bool,
    pub breaks: Vec<usize>,
}

/// One function.
#[derive(Debug, Default)]
pub(super) struct FunctionState {
    pub function: Function,
    pub locals: Vec<Local>,
    pub blocks: Vec<Block>,
    constants: HashMap<ConstantKey, u32>,
    /// The next register that is free.
    next: u16,
}

/// How the script calls a value, if it has a name for it.
pub(super) type Name = Option<(Origin, Box<[u8]>)>;

/// A value in a register, and how the script calls it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub register: u8,
    pub name: Name,
}

/// Compiles a script: the functions that are open, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    pub unit: Unit,
    pub open: Vec<FunctionState>,
    pub line: u32,
    pub column: u32,
}

impl Compiler {
    /// An error where the compiler is.
    pub(super) fn refused<T>(&self, message: impl Into<String>) -> Compiled<T> {
        Err(CompileError { line: self.line.max(1), column: self.column.max(1), message: message.into() })
    }

    /// The function that is being compiled.
    pub(super) fn function(&mut self) -> Compiled<&mut FunctionState> {
        let (line, column) = (self.line, self.column);
        let none = || CompileError { line, column, message: "no function is open".into() };
        self.open.last_mut().ok_or_else(none)
    }

    /// What follows comes from this token.
    pub(super) fn at(&mut self, token: &TokenReference) {
        let start = token.token().start_position();
        if start.line() > 0 {
            self.line = start.line() as u32;
            self.column = start.character() as u32;
        }
    }

    /// Adds an instruction, and answers its place.
    pub(super) fn emit(&mut self, op: Op) -> Compiled<usize> {
        let line = self.line;
        let function = &mut self.function()?.function;
        function.code.push(op);
        function.lines.push(line);
        Ok(function.code.len() - 1)
    }

    /// The place of the next instruction.
    pub(super) fn here(&mut self) -> Compiled<u32> {
        Ok(self.function()?.function.code.len() as u32)
    }

    /// The name of an operand of the instruction that comes next.
    pub(super) fn name_next(&mut self, slot: u8, name: Name) -> Compiled<()> {
        let at = self.here()?;
        if let Some((origin, name)) = name {
            self.function()?.function.names.push(Naming { at, slot, origin, name });
        }
        Ok(())
    }

    /// Lets jumps go to the next instruction.
    pub(super) fn land(&mut self, jumps: &[usize]) -> Compiled<()> {
        let here = self.here()?;
        self.land_at(jumps, here)
    }

    /// Lets jumps go to a place.
    pub(super) fn land_at(&mut self, jumps: &[usize], place: u32) -> Compiled<()> {
        let function = &mut self.function()?.function;
        for jump in jumps {
            if let Some(
                Op::Jump { target }
                | Op::JumpIf { target, .. }
                | Op::ForStart { target, .. }
                | Op::ForNext { target, .. }
                | Op::IterNext { target, .. },
            ) = function.code.get_mut(*jump)
            {
                *target = place;
            }
        }
        Ok(())
    }

    /// A jump whose target is not known yet.
    pub(super) fn jump(&mut self) -> Compiled<usize> {
        self.emit(Op::Jump { target: 0 })
    }

    /// The first free register.
    pub(super) fn mark(&mut self) -> Compiled<u16> {
        Ok(self.function()?.next)
    }

    /// Frees the registers from here on.
    pub(super) fn release(&mut self, mark: u16) -> Compiled<()> {
        self.function()?.next = mark;
        Ok(())
    }

    /// Takes the next register.
    pub(super) fn register(&mut self) -> Compiled<u8> {
        self.registers(1)
    }

    /// Takes the next registers, and answers the first.
    pub(super) fn registers(&mut self, count: u16) -> Compiled<u8> {
        let state = self.function()?;
        let (first, next) = (state.next, state.next + count);
        if next > REGISTERS_MAX {
            return self.refused("function or expression too complex");
        }
        state.next = next;
        state.function.registers = state.function.registers.max(next);
        Ok(first as u8)
    }

    /// Sees to it that the function has so many registers from here on, without taking them.
    pub(super) fn room(&mut self, count: u16) -> Compiled<()> {
        let mark = self.mark()?;
        self.registers(count)?;
        self.release(mark)
    }

    /// Whether a register is that of a variable in sight.
    pub(super) fn is_local(&mut self, register: u8) -> Compiled<bool> {
        Ok(self.function()?.locals.last().is_some_and(|last| register <= last.register))
    }

    /// The number of a constant.
    pub(super) fn constant(&mut self, constant: Constant) -> Compiled<u32> {
        let key = match &constant {
            Constant::Nil => ConstantKey::Nil,
            Constant::Bool(bool) => ConstantKey::Bool(*bool),
            // Zeros are one constant whatever their sign, as in Lua: the first decides.
            Constant::Number(number) => ConstantKey::Number((number + 0.0).to_bits()),
            Constant::Text(text) => ConstantKey::Text(text.clone()),
        };
        let state = self.function()?;
        if let Some(index) = state.constants.get(&key) {
            return Ok(*index);
        }
        let index = state.function.constants.len() as u32;
        state.function.constants.push(constant);
        state.constants.insert(key, index);
        Ok(index)
    }

    /// A constant as an operand, in a register if its number is too large.
    pub(super) fn constant_operand(&mut self, constant: Constant) -> Compiled<Operand> {
        let index = self.constant(constant)?;
        match Operand::constant(index) {
            Some(operand) => Ok(operand),
            None => {
                let to = self.register()?;
                self.emit(Op::Constant { to, index })?;
                Ok(Operand::register(to))
            }
        }
    }

    /// The constant of a name.
    pub(super) fn name(&mut self, token: &TokenReference) -> Compiled<u32> {
        self.constant(Constant::Text(name_of(token)))
    }

    /// Puts a variable in sight. Its register is taken.
    pub(super) fn declare(&mut self, name: &str, register: u8) -> Compiled<()> {
        if self.function()?.locals.len() >= LOCALS_MAX {
            return self.refused("too many local variables (limit is 200)");
        }
        self.function()?.locals.push(Local { name: name.into(), register, is_captured: false });
        Ok(())
    }

    /// What the function captures under this name, if somebody around it has such a variable.
    pub(super) fn upvalue(&mut self, name: &str) -> Compiled<Option<u8>> {
        let levels = self.open.len();
        let Some(found) = (0..levels.saturating_sub(1)).rev().find(|level| self.has_at(*level, name)) else {
            return Ok(None);
        };
        let mut source = None;
        for level in found..levels {
            let Some(state) = self.open.get_mut(level) else { break };
            source = Some(match source {
                None => {
                    let Some(local) = state.locals.iter_mut().rfind(|local| *local.name == *name) else {
                        break;
                    };
                    local.is_captured = true;
                    Capture::Register(local.register)
                }
                Some(capture) => match capture_in(state, capture) {
                    Some(index) => Capture::Upvalue(index),
                    None => return self.refused("function has more than 200 upvalues"),
                },
            });
        }
        Ok(source.and_then(|capture| if let Capture::Upvalue(index) = capture { Some(index) } else { None }))
    }

    fn has_at(&self, level: usize, name: &str) -> bool {
        self.open.get(level).is_some_and(|state| state.locals.iter().any(|local| *local.name == *name))
    }
}

/// What a function captures, once for each variable.
fn capture_in(state: &mut FunctionState, capture: Capture) -> Option<u8> {
    let found = state.function.captures.iter().position(|known| *known == capture);
    let index = found.unwrap_or_else(|| {
        state.function.captures.push(capture);
        state.function.captures.len() - 1
    });
    u8::try_from(index).ok().filter(|index| usize::from(*index) < LOCALS_MAX)
}

/// The bytes of a name.
pub(super) fn name_of(token: &TokenReference) -> Box<[u8]> {
    text::bytes(&token.token().to_string()).into()
}
