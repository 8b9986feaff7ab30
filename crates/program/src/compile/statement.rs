//! Statements.

use full_moon::ast::{Block, Expression, FunctionDeclaration, If, LastStmt, LocalFunction, Return, Stmt};

use crate::code::{Constant, OPEN, Op, Operand, Origin};

use super::assignment::Place;
use super::call::open;
use super::expression::Values;
use super::scope::Meaning;
use super::state::{Compiled, Compiler, Item, name_of};

impl Compiler {
    /// The script itself.
    pub(crate) fn script(&mut self, block: &Block) -> Compiled<()> {
        self.line = 1;
        self.open_function();
        self.function()?.function.is_variadic = true;
        self.enter(false)?;
        self.block(block)?;
        self.close_function()?;
        Ok(())
    }

    /// The statements of a block, in the scope that is open.
    pub(super) fn block(&mut self, block: &Block) -> Compiled<()> {
        for statement in block.stmts() {
            self.statement(statement)?;
        }
        match block.last_stmt() {
            None => Ok(()),
            Some(LastStmt::Break(token)) => {
                self.at(token);
                self.break_loop()
            }
            Some(LastStmt::Return(statement)) => self.return_values(statement),
            Some(_) => self.refused("this statement is not of Lua 5.1"),
        }
    }

    fn statement(&mut self, statement: &Stmt) -> Compiled<()> {
        match statement {
            Stmt::Assignment(statement) => self.assignment(statement),
            Stmt::LocalAssignment(statement) => self.local_assignment(statement),
            Stmt::Do(statement) => self.scoped(statement.block()),
            Stmt::FunctionCall(call) => {
                let mark = self.mark()?;
                self.chain(call.prefix(), call.suffixes(), Values::Just(0), None)?;
                self.release(mark)
            }
            Stmt::FunctionDeclaration(statement) => self.function_declaration(statement),
            Stmt::LocalFunction(statement) => self.local_function(statement),
            Stmt::If(statement) => self.if_statement(statement),
            Stmt::While(statement) => self.while_loop(statement),
            Stmt::Repeat(statement) => self.repeat_loop(statement),
            Stmt::NumericFor(statement) => self.numeric_for(statement),
            Stmt::GenericFor(statement) => self.generic_for(statement),
            _ => self.refused("this statement is not of Lua 5.1"),
        }
    }

    fn if_statement(&mut self, statement: &If) -> Compiled<()> {
        self.at(statement.if_token());
        let mut ends = Vec::new();
        let mut next = self.condition(statement.condition(), false)?;
        self.scoped(statement.block())?;
        for branch in statement.else_if().into_iter().flatten() {
            ends.push(self.jump()?);
            self.land(&next)?;
            self.at(branch.else_if_token());
            next = self.condition(branch.condition(), false)?;
            self.scoped(branch.block())?;
        }
        if let Some(block) = statement.else_block() {
            ends.push(self.jump()?);
            self.land(&next)?;
            next = Vec::new();
            self.scoped(block)?;
        }
        self.land(&next)?;
        self.land(&ends)
    }

    fn local_function(&mut self, statement: &LocalFunction) -> Compiled<()> {
        self.at(statement.name());
        let register = self.register()?;
        self.declare(&statement.name().token().to_string(), register)?;
        self.closure(statement.body(), None, register)
    }

    /// `function a.b:c() ... end`.
    fn function_declaration(&mut self, statement: &FunctionDeclaration) -> Compiled<()> {
        self.at(statement.function_token());
        let mark = self.mark()?;
        let name = statement.name();
        let mut path: Vec<_> = name.names().iter().collect();
        path.extend(name.method_name());
        let Some((last, before)) = path.split_last() else {
            return self.refused("a function without a name");
        };
        let place = match before.split_first() {
            None => match self.meaning(&last.token().to_string())? {
                Meaning::Local(register) => Place::Local(register),
                Meaning::Upvalue(index) => Place::Upvalue(index),
                Meaning::Global => Place::Global(self.name(last)?),
            },
            Some((first, fields)) => {
                let mut item = self.named(first)?;
                for field in fields {
                    let key = self.constant_operand(Constant::Text(name_of(field)))?;
                    let to = self.register()?;
                    self.name_next(0, item.name)?;
                    self.emit(Op::GetIndex { to, table: item.register, key })?;
                    item = Item { register: to, name: Some((Origin::Field, name_of(field))) };
                }
                let key = self.constant_operand(Constant::Text(name_of(last)))?;
                Place::Index { table: item.register, key, name: item.name }
            }
        };
        let to = self.register()?;
        self.closure(statement.body(), name.method_name(), to)?;
        self.store(&place, Operand::register(to))?;
        self.release(mark)
    }

    fn return_values(&mut self, statement: &Return) -> Compiled<()> {
        self.at(statement.token());
        let mark = self.mark()?;
        let expressions: Vec<&Expression> = statement.returns().iter().collect();
        if let [Expression::FunctionCall(call)] = expressions.as_slice() {
            let item = self.chain(call.prefix(), call.suffixes(), Values::All, None)?;
            self.tail_call()?;
            self.emit(Op::Return { from: item.register, count: OPEN })?;
            return self.release(mark);
        }
        if let [expression] = expressions.as_slice()
            && !super::expression::is_several(expression)
        {
            let from = self.item(expression)?.register;
            self.emit(Op::Return { from, count: 1 })?;
            return self.release(mark);
        }
        let values = self.all_values(&expressions)?;
        self.emit(Op::Return { from: mark.min(u16::from(u8::MAX)) as u8, count: open(values) })?;
        self.release(mark)
    }

    /// The call that was just added takes the place of its function.
    fn tail_call(&mut self) -> Compiled<()> {
        if let Some(op) = self.function()?.function.code.last_mut()
            && let Op::Call { function, arguments, .. } = *op
        {
            *op = Op::TailCall { function, arguments };
        }
        Ok(())
    }
}
