//! Conditions: jumps instead of values.

use full_moon::ast::{BinOp, Expression, UnOp};

use crate::code::{Constant, Op};

use super::expression::bare;
use super::state::{Compiled, Compiler};

impl Compiler {
    /// Jumps that are taken when an expression is as true as `when`; else the code goes on.
    pub(super) fn condition(&mut self, expression: &Expression, when: bool) -> Compiled<Vec<usize>> {
        let mark = self.mark()?;
        let jumps = match bare(expression) {
            Expression::UnaryOperator { unop: UnOp::Not(_), expression } => {
                self.condition(expression, !when)?
            }
            Expression::BinaryOperator { lhs, binop, rhs }
                if matches!(binop, BinOp::And(_) | BinOp::Or(_)) =>
            {
                // `and` decides when the first is false, `or` when it is true.
                let decides = matches!(binop, BinOp::Or(_));
                let mut jumps = self.condition(lhs, decides)?;
                if decides == when {
                    jumps.extend(self.condition(rhs, when)?);
                    jumps
                } else {
                    let taken = self.condition(rhs, when)?;
                    self.land(&jumps)?;
                    taken
                }
            }
            Expression::BinaryOperator { lhs, binop, rhs } if is_comparison(binop) => {
                vec![self.comparison(lhs, binop, rhs, when)?]
            }
            other => self.plain_condition(other, when)?,
        };
        self.release(mark)?;
        Ok(jumps)
    }

    fn plain_condition(&mut self, expression: &Expression, when: bool) -> Compiled<Vec<usize>> {
        if let Some(constant) = self.constant_of(expression)? {
            let is_true = !matches!(constant, Constant::Nil | Constant::Bool(false));
            return if is_true == when { Ok(vec![self.jump()?]) } else { Ok(Vec::new()) };
        }
        let test = self.item(expression)?.register;
        Ok(vec![self.emit(Op::JumpIf { test, when, target: 0 })?])
    }

    /// A jump that is taken when a comparison answers `when`.
    pub(super) fn comparison(
        &mut self,
        lhs: &Expression,
        binop: &BinOp,
        rhs: &Expression,
        when: bool,
    ) -> Compiled<usize> {
        let mark = self.mark()?;
        let (left, _) = self.operand(lhs)?;
        let (right, _) = self.operand(rhs)?;
        self.at(binop.token());
        let op = match binop {
            BinOp::TwoEqual(_) => Op::Equal { when, left, right },
            BinOp::TildeEqual(_) => Op::Equal { when: !when, left, right },
            BinOp::LessThan(_) => Op::Less { when, left, right },
            BinOp::LessThanEqual(_) => Op::LessEqual { when, left, right },
            BinOp::GreaterThan(_) => Op::Less { when, left: right, right: left },
            BinOp::GreaterThanEqual(_) => Op::LessEqual { when, left: right, right: left },
            _ => return self.refused("this operator is not of Lua 5.1"),
        };
        self.emit(op)?;
        self.release(mark)?;
        self.jump()
    }
}

fn is_comparison(binop: &BinOp) -> bool {
    matches!(
        binop,
        BinOp::TwoEqual(_)
            | BinOp::TildeEqual(_)
            | BinOp::LessThan(_)
            | BinOp::LessThanEqual(_)
            | BinOp::GreaterThan(_)
            | BinOp::GreaterThanEqual(_)
    )
}
