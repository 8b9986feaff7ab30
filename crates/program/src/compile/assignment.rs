//! Assignments.

use full_moon::ast::{Assignment, Expression, Index, LocalAssignment, Prefix, Suffix, Var, VarExpression};
use full_moon::tokenizer::TokenReference;

use crate::code::{Constant, Op, Operand};

use super::expression::Values;
use super::scope::Meaning;
use super::state::{Compiled, Compiler, Item, Name, name_of};

/// Where a value goes.
#[derive(Debug)]
pub(super) enum Place {
    Local(u8),
    Upvalue(u8),
    Global(u32),
    Index { table: u8, key: Operand, name: Name },
}

impl Compiler {
    /// `local a, b = ...`. The variables are in sight behind it.
    pub(super) fn local_assignment(&mut self, statement: &LocalAssignment) -> Compiled<()> {
        let names: Vec<&TokenReference> = statement.names().iter().collect();
        let expressions: Vec<&Expression> = statement.expressions().iter().collect();
        let first = self.exactly(&expressions, names.len())?;
        for (place, name) in names.into_iter().enumerate() {
            self.at(name);
            self.declare(&name.token().to_string(), first + place as u8)?;
        }
        Ok(())
    }

    /// `a, b.c = ...`.
    pub(super) fn assignment(&mut self, statement: &Assignment) -> Compiled<()> {
        let variables: Vec<&Var> = statement.variables().iter().collect();
        let expressions: Vec<&Expression> = statement.expressions().iter().collect();
        let mark = self.mark()?;
        if let ([variable], [expression]) = (variables.as_slice(), expressions.as_slice()) {
            let place = self.place(variable, false)?;
            self.assign_one(&place, expression)?;
            return self.release(mark);
        }
        let mut places = Vec::new();
        for variable in &variables {
            places.push(self.place(variable, true)?);
        }
        let first = self.exactly(&expressions, places.len())?;
        for (at, place) in places.iter().enumerate().rev() {
            self.store(place, Operand::register(first + at as u8))?;
        }
        self.release(mark)
    }

    fn assign_one(&mut self, place: &Place, expression: &Expression) -> Compiled<()> {
        match place {
            Place::Local(register) => self.expression(expression, *register),
            Place::Index { .. } => {
                let value = self.operand(expression)?.0;
                self.store(place, value)
            }
            _ => {
                let register = self.item(expression)?.register;
                self.store(place, Operand::register(register))
            }
        }
    }

    /// Where an assignment to a variable goes. With several, tables and keys are copied first: one of the others may be such a variable.
    pub(super) fn place(&mut self, variable: &Var, is_one_of_several: bool) -> Compiled<Place> {
        match variable {
            Var::Name(token) => {
                self.at(token);
                Ok(match self.meaning(&token.token().to_string())? {
                    Meaning::Local(register) => Place::Local(register),
                    Meaning::Upvalue(index) => Place::Upvalue(index),
                    Meaning::Global => Place::Global(self.constant(Constant::Text(name_of(token)))?),
                })
            }
            Var::Expression(expression) => self.index_place(expression, is_one_of_several),
            _ => self.refused("this variable is not of Lua 5.1"),
        }
    }

    fn index_place(&mut self, expression: &VarExpression, is_one_of_several: bool) -> Compiled<Place> {
        let suffixes: Vec<&Suffix> = expression.suffixes().collect();
        let Some((Suffix::Index(index), before)) = suffixes.split_last() else {
            return self.refused("cannot assign to this");
        };
        let mut item = self.prefix(expression.prefix(), before)?;
        if is_one_of_several {
            item.register = self.copy(item.register)?;
        }
        let mut key = self.key(index)?.0;
        if is_one_of_several
            && let Index::Brackets { .. } = index
            && let Ok(register) = u8::try_from(key.0)
        {
            key = Operand::register(self.copy(register)?);
        }
        Ok(Place::Index { table: item.register, key, name: item.name })
    }

    /// A chain without its last part.
    fn prefix(&mut self, prefix: &Prefix, suffixes: &[&Suffix]) -> Compiled<Item> {
        self.chain(prefix, suffixes.iter().copied(), Values::Just(1), None)
    }

    fn copy(&mut self, register: u8) -> Compiled<u8> {
        if !self.is_local(register)? {
            return Ok(register);
        }
        let to = self.register()?;
        self.emit(Op::Move { to, from: register })?;
        Ok(to)
    }

    /// Stores a value that is there.
    pub(super) fn store(&mut self, place: &Place, value: Operand) -> Compiled<()> {
        let from = u8::try_from(value.0).unwrap_or_default();
        match place {
            Place::Local(to) => self.move_to(from, *to)?,
            Place::Upvalue(index) => {
                self.emit(Op::SetUpvalue { index: *index, from })?;
            }
            Place::Global(name) => {
                self.emit(Op::SetGlobal { from, name: *name })?;
            }
            Place::Index { table, key, name } => {
                self.name_next(0, name.clone())?;
                self.emit(Op::SetIndex { table: *table, key: *key, value })?;
            }
        }
        Ok(())
    }
}
