//! What the machine may rely on is checked once, before a program runs: no instruction names a register, a constant, a captured
//! variable, a function or a place in the code that is not there.

use crate::code::{CONSTANTS_FROM, Capture, Function, OPEN, Op, Operand, REGISTERS_MAX, Unit};

/// Checks all functions of a script.
///
/// # Errors
///
/// What is wrong, and where.
pub(crate) fn verify(unit: &Unit) -> Result<(), String> {
    let entry = unit.functions.last().ok_or("no function")?;
    if !entry.captures.is_empty() {
        return Err("the script itself captures".into());
    }
    for (number, function) in unit.functions.iter().enumerate() {
        Check { unit, function, number }.all().map_err(|wrong| format!("function {number}: {wrong}"))?;
    }
    Ok(())
}

struct Check<'a> {
    unit: &'a Unit,
    function: &'a Function,
    number: usize,
}

impl Check<'_> {
    fn all(&self) -> Result<(), String> {
        let function = self.function;
        if function.registers > REGISTERS_MAX || u16::from(function.parameters) > function.registers {
            return Err("its registers".into());
        }
        if function.lines.len() != function.code.len() || u32::try_from(function.code.len()).is_err() {
            return Err("its lines".into());
        }
        if !matches!(function.code.last(), Some(Op::Return { .. } | Op::Jump { .. })) {
            return Err("it has no end".into());
        }
        for (at, op) in function.code.iter().enumerate() {
            self.one(*op, at).map_err(|()| format!("instruction {at}: {op:?}"))?;
        }
        Ok(())
    }

    fn one(&self, op: Op, at: usize) -> Result<(), ()> {
        match op {
            Op::Nil { from, count } => self.several(from, count),
            Op::Bool { to, .. } | Op::NewTable { to, .. } | Op::Close { from: to } => self.register(to),
            Op::Constant { to, index } => self.register(to).and(self.constant(index)),
            Op::Move { to, from }
            | Op::Negate { to, from }
            | Op::Not { to, from }
            | Op::Length { to, from } => self.register(to).and(self.register(from)),
            Op::GetUpvalue { to, index } | Op::SetUpvalue { index, from: to } => {
                self.register(to).and(self.upvalue(index))
            }
            Op::GetGlobal { to, name } | Op::SetGlobal { from: to, name } => {
                self.register(to).and(self.constant(name))
            }
            Op::GetIndex { to, table, key } => {
                self.register(to).and(self.register(table)).and(self.operand(key))
            }
            Op::SetIndex { table, key, value } => {
                self.register(table).and(self.operand(key)).and(self.operand(value))
            }
            Op::Method { to, object, name } => {
                self.several(to, 2).and(self.register(object)).and(self.constant(name))
            }
            Op::SetList { table, count, .. } => self.with_values(table, count),
            Op::Add { to, left, right }
            | Op::Subtract { to, left, right }
            | Op::Multiply { to, left, right }
            | Op::Divide { to, left, right }
            | Op::Modulo { to, left, right }
            | Op::Power { to, left, right } => {
                self.register(to).and(self.operand(left)).and(self.operand(right))
            }
            Op::Concat { to, first, count } => {
                self.register(to).and(self.several(first, count)).and(more(count))
            }
            Op::Equal { left, right, .. }
            | Op::Less { left, right, .. }
            | Op::LessEqual { left, right, .. } => {
                self.operand(left).and(self.operand(right)).and(self.jump_behind(at))
            }
            _ => self.transfer(op),
        }
    }

    /// Instructions that go elsewhere, call, or make closures.
    fn transfer(&self, op: Op) -> Result<(), ()> {
        match op {
            Op::Jump { target } => self.target(target),
            Op::JumpIf { test, target, .. } => self.register(test).and(self.target(target)),
            Op::Call { function, arguments, results } => {
                self.with_values(function, arguments)?;
                if results == OPEN { Ok(()) } else { self.several(function, results) }
            }
            Op::TailCall { function, arguments } => self.with_values(function, arguments),
            Op::Return { from, count } => {
                if count == OPEN {
                    self.register(from)
                } else {
                    self.several(from, count)
                }
            }
            Op::Varargs { to, count } => {
                if count == OPEN {
                    self.register(to)
                } else {
                    self.several(to, count)
                }
            }
            Op::Closure { to, function } => self.register(to).and(self.closure(function)),
            Op::ForStart { base, target } | Op::ForNext { base, target } => {
                self.several(base, 4).and(self.target(target))
            }
            // The call itself needs three registers for the iterator and what it is given.
            Op::IterCall { base, count } => {
                self.several(base, count.checked_add(3).ok_or(())?).and(self.several(base, 6))
            }
            Op::IterNext { base, target } => self.several(base, 4).and(self.target(target)),
            _ => Err(()),
        }
    }

    fn register(&self, register: u8) -> Result<(), ()> {
        held(u16::from(register) < self.function.registers)
    }

    fn several(&self, from: u8, count: u8) -> Result<(), ()> {
        held(u16::from(from) + u16::from(count) <= self.function.registers)
    }

    /// `count` values behind a register, or all there are.
    fn with_values(&self, register: u8, count: u8) -> Result<(), ()> {
        self.register(register)?;
        if count == OPEN { Ok(()) } else { self.several(register, count.checked_add(1).ok_or(())?) }
    }

    fn constant(&self, index: u32) -> Result<(), ()> {
        held((index as usize) < self.function.constants.len())
    }

    fn operand(&self, operand: Operand) -> Result<(), ()> {
        match operand.0.checked_sub(CONSTANTS_FROM) {
            Some(constant) => self.constant(u32::from(constant)),
            None => held(operand.0 < self.function.registers),
        }
    }

    fn upvalue(&self, index: u8) -> Result<(), ()> {
        held(usize::from(index) < self.function.captures.len())
    }

    fn target(&self, target: u32) -> Result<(), ()> {
        held((target as usize) < self.function.code.len())
    }

    fn jump_behind(&self, at: usize) -> Result<(), ()> {
        held(
            matches!(self.function.code.get(at + 1), Some(Op::Jump { .. }))
                && at + 2 < self.function.code.len(),
        )
    }

    /// A function is made by one that comes after it, and takes what that one has.
    fn closure(&self, function: u32) -> Result<(), ()> {
        let number = function as usize;
        held(number < self.number)?;
        let made = self.unit.functions.get(number).ok_or(())?;
        made.captures.iter().try_for_each(|capture| match *capture {
            Capture::Register(register) => self.register(register),
            Capture::Upvalue(index) => self.upvalue(index),
        })
    }
}

fn held(is_so: bool) -> Result<(), ()> {
    is_so.then_some(()).ok_or(())
}

fn more(count: u8) -> Result<(), ()> {
    held(count >= 1)
}

#[cfg(test)]
mod tests;
