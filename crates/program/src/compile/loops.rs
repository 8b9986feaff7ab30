//! Loops.

use full_moon::ast::{Expression, GenericFor, NumericFor, Repeat, While};

use crate::code::Op;

use super::state::{Compiled, Compiler};

impl Compiler {
    pub(super) fn while_loop(&mut self, statement: &While) -> Compiled<()> {
        self.at(statement.while_token());
        let start = self.here()?;
        let left = self.condition(statement.condition(), false)?;
        self.enter(true)?;
        self.block(statement.block())?;
        let breaks = self.leave()?;
        self.emit(Op::Jump { target: start })?;
        self.land(&left)?;
        self.land(&breaks)
    }

    /// The condition sees the variables of the block.
    pub(super) fn repeat_loop(&mut self, statement: &Repeat) -> Compiled<()> {
        let start = self.here()?;
        self.enter(true)?;
        self.enter(false)?;
        self.block(statement.block())?;
        self.at(statement.until_token());
        let done = self.condition(statement.until(), true)?;
        self.close_block()?;
        self.emit(Op::Jump { target: start })?;
        self.land(&done)?;
        self.leave()?;
        let breaks = self.leave()?;
        self.land(&breaks)
    }

    pub(super) fn numeric_for(&mut self, statement: &NumericFor) -> Compiled<()> {
        self.at(statement.for_token());
        let line = self.line;
        self.enter(true)?;
        let base = self.push(statement.start())?;
        self.push(statement.end())?;
        match statement.step() {
            Some(step) => self.push(step)?,
            None => {
                let to = self.register()?;
                self.load_constant(crate::code::Constant::Number(1.0), to)?;
                to
            }
        };
        for hidden in 0..3 {
            self.declare("(for)", base + hidden)?;
        }
        self.line = line;
        let start = self.emit(Op::ForStart { base, target: 0 })?;
        let body = self.here()?;
        self.enter(false)?;
        let variable = self.register()?;
        self.declare(&statement.index_variable().token().to_string(), variable)?;
        self.block(statement.block())?;
        self.leave()?;
        self.line = line;
        self.land(&[start])?;
        self.emit(Op::ForNext { base, target: body })?;
        let breaks = self.leave()?;
        self.land(&breaks)
    }

    pub(super) fn generic_for(&mut self, statement: &GenericFor) -> Compiled<()> {
        self.at(statement.for_token());
        let line = self.line;
        self.enter(true)?;
        let expressions: Vec<&Expression> = statement.expressions().iter().collect();
        let base = self.exactly(&expressions, 3)?;
        for hidden in 0..3 {
            self.declare("(for)", base + hidden)?;
        }
        self.line = line;
        let start = self.jump()?;
        let body = self.here()?;
        self.enter(false)?;
        let count = statement.names().len();
        // The iterator and what it is given are copied behind what the loop keeps.
        self.room(count.clamp(3, usize::from(u8::MAX)) as u16)?;
        for name in statement.names() {
            self.at(name);
            let variable = self.register()?;
            self.declare(&name.token().to_string(), variable)?;
        }
        self.block(statement.block())?;
        self.leave()?;
        self.line = line;
        self.land(&[start])?;
        self.emit(Op::IterCall { base, count: count as u8 })?;
        self.emit(Op::IterNext { base, target: body })?;
        let breaks = self.leave()?;
        self.land(&breaks)
    }
}
