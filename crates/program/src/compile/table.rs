//! Tables as a script writes them.

use full_moon::ast::{Expression, Field, TableConstructor};

use crate::code::{Constant, OPEN, Op, Operand};

use super::expression::{Values, is_several};
use super::state::{Compiled, Compiler, name_of};

/// So many elements are computed before they are put into the table.
const BATCH: u8 = 50;

impl Compiler {
    /// A table in a register.
    pub(super) fn table(&mut self, table: &TableConstructor, to: u8) -> Compiled<()> {
        self.at(table.braces().tokens().0);
        let is_next = self.mark()? == u16::from(to) + 1 && !self.is_local(to)?;
        let place = if is_next { to } else { self.register()? };
        let elements = table.fields().iter().filter(|field| matches!(field, Field::NoKey(_))).count();
        let keys = table.fields().len() - elements;
        let small = |count: usize| count.min(usize::from(u16::MAX)) as u16;
        self.emit(Op::NewTable { to: place, array: small(elements), hash: small(keys) })?;
        let (mut first, mut count) = (1u32, 0u8);
        let mut fields = table.fields().iter().peekable();
        while let Some(field) = fields.next() {
            let Field::NoKey(expression) = field else {
                self.field(field, place)?;
                continue;
            };
            if fields.peek().is_none() && is_several(expression) {
                self.several(expression, Values::All)?;
                self.emit(Op::SetList { table: place, count: OPEN, first })?;
                count = 0;
                break;
            }
            self.push(expression)?;
            count += 1;
            if count == BATCH {
                self.emit(Op::SetList { table: place, count, first })?;
                self.release(u16::from(place) + 1)?;
                first += u32::from(count);
                count = 0;
            }
        }
        if count > 0 {
            self.emit(Op::SetList { table: place, count, first })?;
        }
        self.move_to(place, to)
    }

    fn field(&mut self, field: &Field, table: u8) -> Compiled<()> {
        let mark = self.mark()?;
        let (key, value): (Operand, &Expression) = match field {
            Field::NameKey { key, value, .. } => {
                self.at(key);
                (self.constant_operand(Constant::Text(name_of(key)))?, value)
            }
            Field::ExpressionKey { key, value, .. } => (self.operand(key)?.0, value),
            _ => return self.refused("this field is not of Lua 5.1"),
        };
        let value = self.operand(value)?.0;
        self.emit(Op::SetIndex { table, key, value })?;
        self.release(mark)
    }
}
