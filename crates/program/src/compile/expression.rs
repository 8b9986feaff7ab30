//! Expressions: into a register, or as an operand where they are.

use full_moon::ast::{BinOp, Expression, UnOp, Var};
use full_moon::tokenizer::{Symbol, TokenReference, TokenType};

use crate::code::{Constant, OPEN, Op, Operand};
use crate::{literal, number};

use super::scope::Meaning;
use super::state::{Compiled, Compiler, Item, Name, name_of};

/// How many values an expression may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// So many.
    Just(u8),
    /// As many as there are.
    All,
}

/// An expression without brackets around it, and without a first part that decides nothing, as in `true and x`.
pub(super) fn bare(expression: &Expression) -> &Expression {
    let mut inner = expression;
    loop {
        inner = match inner {
            Expression::Parentheses { expression, .. } => expression,
            Expression::BinaryOperator { lhs, binop: BinOp::And(_), rhs }
                if literal_truth(lhs) == Some(true) =>
            {
                rhs
            }
            Expression::BinaryOperator { lhs, binop: BinOp::Or(_), rhs }
                if literal_truth(lhs) == Some(false) =>
            {
                rhs
            }
            other => return other,
        };
    }
}

/// Whether a literal is true.
fn literal_truth(expression: &Expression) -> Option<bool> {
    match expression {
        Expression::Number(_) | Expression::String(_) => Some(true),
        Expression::Symbol(token) if is_symbol(token, Symbol::True) => Some(true),
        Expression::Symbol(token) if is_symbol(token, Symbol::False) || is_symbol(token, Symbol::Nil) => {
            Some(false)
        }
        Expression::Parentheses { expression, .. } => literal_truth(expression),
        Expression::UnaryOperator { unop: UnOp::Not(_), expression } => {
            literal_truth(expression).map(|truth| !truth)
        }
        _ => None,
    }
}

fn is_arithmetic(binop: &BinOp) -> bool {
    matches!(
        binop,
        BinOp::Plus(_)
            | BinOp::Minus(_)
            | BinOp::Star(_)
            | BinOp::Slash(_)
            | BinOp::Percent(_)
            | BinOp::Caret(_)
    )
}

/// What arithmetic on two constants gives, if that is worth a constant.
fn folded(left: f64, binop: &BinOp, right: f64) -> Option<f64> {
    let number = match binop {
        BinOp::Plus(_) => left + right,
        BinOp::Minus(_) => left - right,
        BinOp::Star(_) => left * right,
        BinOp::Slash(_) if right != 0.0 => left / right,
        BinOp::Percent(_) if right != 0.0 => left - (left / right).floor() * right,
        BinOp::Caret(_) => left.powf(right),
        _ => return None,
    };
    (!number.is_nan()).then_some(number)
}

/// Whether an expression may become several values.
pub(super) fn is_several(expression: &Expression) -> bool {
    match expression {
        Expression::FunctionCall(_) => true,
        Expression::Symbol(token) => is_symbol(token, Symbol::Ellipsis),
        _ => false,
    }
}

fn is_symbol(token: &TokenReference, symbol: Symbol) -> bool {
    matches!(token.token_type(), TokenType::Symbol { symbol: found } if *found == symbol)
}

impl Compiler {
    /// The constant that an expression is, if it is one.
    pub(super) fn constant_of(&mut self, expression: &Expression) -> Compiled<Option<Constant>> {
        Ok(match bare(expression) {
            Expression::Number(token) => {
                self.at(token);
                let text = token.token().to_string();
                match number::from_text(text.as_bytes()) {
                    Some(number) => Some(Constant::Number(number)),
                    None => return self.refused(format!("malformed number near '{text}'")),
                }
            }
            Expression::String(token) => {
                self.at(token);
                match literal::string(token.token()) {
                    Ok(text) => Some(Constant::Text(text)),
                    Err(wrong) => return self.refused(wrong),
                }
            }
            Expression::Symbol(token) if is_symbol(token, Symbol::Nil) => Some(Constant::Nil),
            Expression::Symbol(token) if is_symbol(token, Symbol::True) => Some(Constant::Bool(true)),
            Expression::Symbol(token) if is_symbol(token, Symbol::False) => Some(Constant::Bool(false)),
            Expression::UnaryOperator { unop: UnOp::Minus(_), expression } => {
                self.number_of(expression)?.map(|number| Constant::Number(-number))
            }
            Expression::BinaryOperator { lhs, binop, rhs } if is_arithmetic(binop) => {
                match (self.number_of(lhs)?, self.number_of(rhs)?) {
                    (Some(left), Some(right)) => folded(left, binop, right).map(Constant::Number),
                    _ => None,
                }
            }
            _ => None,
        })
    }

    fn number_of(&mut self, expression: &Expression) -> Compiled<Option<f64>> {
        Ok(match self.constant_of(expression)? {
            Some(Constant::Number(number)) => Some(number),
            _ => None,
        })
    }

    /// Puts the value of an expression into a register.
    pub(super) fn expression(&mut self, expression: &Expression, to: u8) -> Compiled<()> {
        if let Some(constant) = self.constant_of(expression)? {
            return self.load_constant(constant, to);
        }
        let mark = self.mark()?;
        match expression {
            Expression::Parentheses { expression, .. } => self.expression(expression, to)?,
            Expression::BinaryOperator { lhs, binop, rhs } => self.binary(lhs, binop, rhs, to)?,
            Expression::UnaryOperator { unop, expression } => self.unary(unop, expression, to)?,
            Expression::Function(function) => {
                self.at(function.function_token());
                self.closure(function.body(), None, to)?;
            }
            Expression::TableConstructor(table) => self.table(table, to)?,
            Expression::FunctionCall(call) => {
                let item = self.chain(call.prefix(), call.suffixes(), Values::Just(1), None)?;
                self.move_to(item.register, to)?;
            }
            Expression::Var(Var::Name(token)) => {
                self.at(token);
                let meaning = self.meaning(&token.token().to_string())?;
                self.load_meaning(meaning, name_of(token), to)?;
            }
            Expression::Var(Var::Expression(var)) => {
                let item = self.chain(var.prefix(), var.suffixes(), Values::Just(1), Some(to))?;
                self.move_to(item.register, to)?;
            }
            Expression::Symbol(token) if is_symbol(token, Symbol::Ellipsis) => {
                self.at(token);
                self.check_variadic()?;
                self.emit(Op::Varargs { to, count: 1 })?;
            }
            _ => return self.refused("this expression is not of Lua 5.1"),
        }
        self.release(mark)
    }

    pub(super) fn check_variadic(&mut self) -> Compiled<()> {
        if self.function()?.function.is_variadic {
            return Ok(());
        }
        self.refused("cannot use '...' outside a vararg function near '...'")
    }

    pub(super) fn move_to(&mut self, from: u8, to: u8) -> Compiled<()> {
        if from != to {
            self.emit(Op::Move { to, from })?;
        }
        Ok(())
    }

    pub(super) fn load_constant(&mut self, constant: Constant, to: u8) -> Compiled<()> {
        match constant {
            Constant::Nil => self.emit(Op::Nil { from: to, count: 1 })?,
            Constant::Bool(value) => self.emit(Op::Bool { to, value })?,
            constant => {
                let index = self.constant(constant)?;
                self.emit(Op::Constant { to, index })?
            }
        };
        Ok(())
    }

    /// An expression in the next register.
    pub(super) fn push(&mut self, expression: &Expression) -> Compiled<u8> {
        // What a chain answers is in the next register already.
        let place = self.mark()?;
        let chained = match bare(expression) {
            Expression::FunctionCall(call) => {
                Some(self.chain(call.prefix(), call.suffixes(), Values::Just(1), None)?)
            }
            Expression::Var(Var::Expression(var)) => {
                Some(self.chain(var.prefix(), var.suffixes(), Values::Just(1), None)?)
            }
            _ => None,
        };
        if let Some(item) = chained {
            self.release(place)?;
            let to = self.register()?;
            self.move_to(item.register, to)?;
            return Ok(to);
        }
        let to = self.register()?;
        self.expression(expression, to)?;
        Ok(to)
    }

    /// An expression where it is, or in the next register, with its name.
    pub(super) fn item(&mut self, expression: &Expression) -> Compiled<Item> {
        match bare(expression) {
            Expression::Var(Var::Name(token)) => {
                self.at(token);
                self.named(token)
            }
            Expression::Var(Var::Expression(var)) => {
                self.chain(var.prefix(), var.suffixes(), Values::Just(1), None)
            }
            other => Ok(Item { register: self.push(other)?, name: None }),
        }
    }

    /// What a name means: a variable where it is, else in the next register.
    pub(super) fn named(&mut self, token: &TokenReference) -> Compiled<Item> {
        let meaning = self.meaning(&token.token().to_string())?;
        let name = name_of(token);
        let register = match meaning {
            Meaning::Local(register) => register,
            _ => {
                let to = self.register()?;
                self.load_meaning(meaning, name.clone(), to)?;
                to
            }
        };
        Ok(Item { register, name: Some((meaning.origin(), name)) })
    }

    /// An expression as an operand, and its name.
    pub(super) fn operand(&mut self, expression: &Expression) -> Compiled<(Operand, Name)> {
        if let Some(constant) = self.constant_of(expression)? {
            return Ok((self.constant_operand(constant)?, None));
        }
        let item = self.item(expression)?;
        Ok((Operand::register(item.register), item.name))
    }

    fn unary(&mut self, unop: &UnOp, expression: &Expression, to: u8) -> Compiled<()> {
        if matches!(unop, UnOp::Not(_)) {
            let from = self.item(expression)?.register;
            self.at(unop.token());
            self.emit(Op::Not { to, from })?;
            return Ok(());
        }
        let item = self.item(expression)?;
        self.at(unop.token());
        self.name_next(0, item.name)?;
        match unop {
            UnOp::Minus(_) => self.emit(Op::Negate { to, from: item.register })?,
            UnOp::Hash(_) => self.emit(Op::Length { to, from: item.register })?,
            _ => return self.refused("this operator is not of Lua 5.1"),
        };
        Ok(())
    }

    fn binary(&mut self, lhs: &Expression, binop: &BinOp, rhs: &Expression, to: u8) -> Compiled<()> {
        match binop {
            BinOp::And(_) | BinOp::Or(_) => self.logical(lhs, binop, rhs, to),
            BinOp::TwoDots(token) => self.concat(lhs, token, rhs, to),
            operator if is_arithmetic(operator) => self.arithmetic(lhs, binop, rhs, to),
            _ => self.compared(lhs, binop, rhs, to),
        }
    }

    fn arithmetic(&mut self, lhs: &Expression, binop: &BinOp, rhs: &Expression, to: u8) -> Compiled<()> {
        let (left, left_name) = self.operand(lhs)?;
        let (right, right_name) = self.operand(rhs)?;
        self.at(binop.token());
        self.name_next(0, left_name)?;
        self.name_next(1, right_name)?;
        let op = match binop {
            BinOp::Plus(_) => Op::Add { to, left, right },
            BinOp::Minus(_) => Op::Subtract { to, left, right },
            BinOp::Star(_) => Op::Multiply { to, left, right },
            BinOp::Slash(_) => Op::Divide { to, left, right },
            BinOp::Percent(_) => Op::Modulo { to, left, right },
            _ => Op::Power { to, left, right },
        };
        self.emit(op)?;
        Ok(())
    }

    /// `and`, `or`: the second expression is computed only if the first does not decide.
    fn logical(&mut self, lhs: &Expression, binop: &BinOp, rhs: &Expression, to: u8) -> Compiled<()> {
        // The second may use the variable that takes the result.
        let place = if self.is_local(to)? { self.register()? } else { to };
        self.expression(lhs, place)?;
        self.at(binop.token());
        let when = matches!(binop, BinOp::Or(_));
        let decided = self.emit(Op::JumpIf { test: place, when, target: 0 })?;
        self.expression(rhs, place)?;
        self.land(&[decided])?;
        self.move_to(place, to)
    }

    /// A comparison as a value.
    fn compared(&mut self, lhs: &Expression, binop: &BinOp, rhs: &Expression, to: u8) -> Compiled<()> {
        let is_so = self.comparison(lhs, binop, rhs, true)?;
        self.emit(Op::Bool { to, value: false })?;
        let end = self.jump()?;
        self.land(&[is_so])?;
        self.emit(Op::Bool { to, value: true })?;
        self.land(&[end])
    }

    /// All parts of a chain of `..` at once, so that each is copied once.
    fn concat(&mut self, lhs: &Expression, token: &TokenReference, rhs: &Expression, to: u8) -> Compiled<()> {
        let mut parts = vec![lhs];
        let mut rest = rhs;
        while let Expression::BinaryOperator { lhs, binop: BinOp::TwoDots(_), rhs } = rest {
            parts.push(lhs);
            rest = rhs;
        }
        parts.push(rest);
        let first = self.mark()? as u8;
        let mut names = Vec::new();
        for part in &parts {
            names.push(self.part(part)?);
        }
        self.at(token);
        for (slot, name) in names.into_iter().enumerate() {
            self.name_next(slot as u8, name)?;
        }
        self.emit(Op::Concat { to, first, count: parts.len().min(usize::from(OPEN)) as u8 })?;
        Ok(())
    }

    /// A part of a concatenation in the next register, and its name.
    fn part(&mut self, part: &Expression) -> Compiled<Name> {
        let to = self.mark()? as u8;
        let item = if self.constant_of(part)?.is_some() {
            Item { register: self.push(part)?, name: None }
        } else {
            self.item(part)?
        };
        self.move_to(item.register, to)?;
        self.release(u16::from(to))?;
        self.register()?;
        Ok(item.name)
    }
}
