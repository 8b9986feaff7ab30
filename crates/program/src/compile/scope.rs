//! Blocks and names: which variable a name means, and when a block's variables end.

use full_moon::ast::Block as Text;

use crate::code::{Constant, Op, Origin};

use super::state::{Block, Compiled, Compiler, FunctionState};

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    Local(u8),
    Upvalue(u8),
    Global,
}

impl Meaning {
    pub(super) fn origin(self) -> Origin {
        match self {
            Meaning::Local(_) => Origin::Local,
            Meaning::Upvalue(_) => Origin::Upvalue,
            Meaning::Global => Origin::Global,
        }
    }
}

/// Names of Lua that a program does not have, and what to write instead.
const MISSING: &[(&str, &str)] = &[
    ("load", "write the function itself"),
    ("loadstring", "write the function itself"),
    ("loadfile", "write the function itself"),
    ("dofile", "write its text into the script"),
    ("require", "write the module's text into the script"),
    ("module", "use a local table"),
    ("coroutine", "use a function that keeps its state in local variables"),
    ("collectgarbage", "memory is freed without being asked"),
    ("gcinfo", "memory is freed without being asked"),
    ("newproxy", "use a table with a metatable"),
    ("getfenv", "use a local table"),
    ("setfenv", "use a local table"),
    ("print", "return the value, or use redis.log"),
    ("io", "a script has no files"),
    ("package", "a script has no modules"),
    ("debug", "a script has no debugger"),
];

impl Compiler {
    /// What a name means here.
    pub(super) fn meaning(&mut self, name: &str) -> Compiled<Meaning> {
        let local =
            self.function()?.locals.iter().rfind(|local| *local.name == *name).map(|local| local.register);
        if let Some(register) = local {
            return Ok(Meaning::Local(register));
        }
        if let Some(index) = self.upvalue(name)? {
            return Ok(Meaning::Upvalue(index));
        }
        match MISSING.iter().find(|(missing, _)| *missing == name) {
            Some((_, instead)) => self.refused(format!("there is no {name}: {instead}")),
            None => Ok(Meaning::Global),
        }
    }

    /// Begins a block.
    pub(super) fn enter(&mut self, is_loop: bool) -> Compiled<()> {
        let state = self.function()?;
        let first_local = state.locals.len();
        state.blocks.push(Block { first_local, is_loop, breaks: Vec::new() });
        Ok(())
    }

    /// Ends a block: its variables are out of sight, their registers free. Answers the jumps that leave it as a loop.
    pub(super) fn leave(&mut self) -> Compiled<Vec<usize>> {
        self.close_block()?;
        let state = self.function()?;
        let block = state.blocks.pop().unwrap_or_default();
        let first = state.locals.get(block.first_local).map(|local| u16::from(local.register));
        state.locals.truncate(block.first_local);
        if let Some(register) = first {
            self.release(register)?;
        }
        Ok(block.breaks)
    }

    /// Ends what closures captured of the innermost block, if they did.
    pub(super) fn close_block(&mut self) -> Compiled<()> {
        let first = self.function()?.blocks.last().map_or(0, |block| block.first_local);
        self.close_from(first)
    }

    fn close_from(&mut self, first_local: usize) -> Compiled<()> {
        let locals = self.function()?.locals.get(first_local..).unwrap_or_default();
        if locals.iter().any(|local| local.is_captured)
            && let Some(from) = locals.first().map(|local| local.register)
        {
            self.emit(Op::Close { from })?;
        }
        Ok(())
    }

    /// Leaves the innermost loop.
    pub(super) fn break_loop(&mut self) -> Compiled<()> {
        let found = self.function()?.blocks.iter().rposition(|block| block.is_loop);
        let Some(at) = found else { return self.refused("no loop to break") };
        let first = self.function()?.blocks.get(at).map_or(0, |block| block.first_local);
        self.close_from(first)?;
        let jump = self.jump()?;
        if let Some(block) = self.function()?.blocks.get_mut(at) {
            block.breaks.push(jump);
        }
        Ok(())
    }

    /// A block in a scope of its own.
    pub(super) fn scoped(&mut self, block: &Text) -> Compiled<()> {
        self.enter(false)?;
        self.block(block)?;
        self.leave()?;
        Ok(())
    }

    /// Begins a function.
    pub(super) fn open_function(&mut self) {
        let mut state = FunctionState::default();
        // A function has at least what a call of an iterator needs.
        state.function.registers = 2;
        self.open.push(state);
    }

    /// Ends a function, and answers its number.
    pub(super) fn close_function(&mut self) -> Compiled<u32> {
        self.emit(Op::Return { from: 0, count: 0 })?;
        let Some(mut state) = self.open.pop() else { return self.refused("no function is open") };
        state.function.names.sort_by_key(|name| (name.at, name.slot));
        self.unit.functions.push(state.function);
        Ok(self.unit.functions.len() as u32 - 1)
    }

    /// Loads a global, or what `name` means otherwise.
    pub(super) fn load_meaning(&mut self, meaning: Meaning, name: Box<[u8]>, to: u8) -> Compiled<()> {
        match meaning {
            Meaning::Local(from) if from == to => {}
            Meaning::Local(from) => {
                self.emit(Op::Move { to, from })?;
            }
            Meaning::Upvalue(index) => {
                self.emit(Op::GetUpvalue { to, index })?;
            }
            Meaning::Global => {
                let name = self.constant(Constant::Text(name))?;
                self.emit(Op::GetGlobal { to, name })?;
            }
        }
        Ok(())
    }
}
