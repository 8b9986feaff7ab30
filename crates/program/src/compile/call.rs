//! Calls, indexes, and the functions of a script.

use full_moon::ast::{Call, Expression, FunctionArgs, FunctionBody, Index, Parameter, Prefix, Suffix};
use full_moon::tokenizer::TokenReference;

use crate::code::{Constant, OPEN, Op, Operand, Origin};
use crate::literal;

use super::expression::{Values, is_several};
use super::state::{Compiled, Compiler, Item, name_of};

impl Compiler {
    /// A name or a bracket and what follows it. Calls leave their last values from the answered register on; the last index may go to
    /// the register `last`.
    pub(super) fn chain<'a>(
        &mut self,
        prefix: &Prefix,
        suffixes: impl Iterator<Item = &'a Suffix>,
        values: Values,
        last: Option<u8>,
    ) -> Compiled<Item> {
        let base = self.mark()?;
        let mut item = match prefix {
            Prefix::Name(token) => {
                self.at(token);
                self.named(token)?
            }
            Prefix::Expression(expression) => self.item(expression)?,
            _ => return self.refused("this is not of Lua 5.1"),
        };
        let mut suffixes = suffixes.peekable();
        while let Some(suffix) = suffixes.next() {
            let is_last = suffixes.peek().is_none();
            item = match suffix {
                Suffix::Index(index) => self.index(&item, index, base, last.filter(|_| is_last))?,
                Suffix::Call(call) => {
                    let values = if is_last { values } else { Values::Just(1) };
                    self.call(&item, call, base, values)?
                }
                _ => return self.refused("this is not of Lua 5.1"),
            };
        }
        Ok(item)
    }

    /// The first register that a chain uses for its own.
    fn base(&mut self, base: u16) -> Compiled<u8> {
        self.release(base)?;
        self.register()
    }

    fn index(&mut self, item: &Item, index: &Index, base: u16, last: Option<u8>) -> Compiled<Item> {
        let (key, name) = self.key(index)?;
        let to = match last {
            Some(to) => {
                self.release(base)?;
                to
            }
            None => self.base(base)?,
        };
        self.name_next(0, item.name.clone())?;
        self.emit(Op::GetIndex { to, table: item.register, key })?;
        Ok(Item { register: to, name: Some((Origin::Field, name)) })
    }

    /// The key of an index, and how errors call what is found there.
    pub(super) fn key(&mut self, index: &Index) -> Compiled<(Operand, Box<[u8]>)> {
        match index {
            Index::Dot { name, .. } => {
                self.at(name);
                let bytes = name_of(name);
                Ok((self.constant_operand(Constant::Text(bytes.clone()))?, bytes))
            }
            Index::Brackets { expression, .. } => {
                let name = match self.constant_of(expression)? {
                    Some(Constant::Text(text)) => text,
                    _ => Box::from(*b"?"),
                };
                Ok((self.operand(expression)?.0, name))
            }
            _ => self.refused("this index is not of Lua 5.1"),
        }
    }

    fn call(&mut self, item: &Item, call: &Call, base: u16, values: Values) -> Compiled<Item> {
        let (function, name, args, is_method) = match call {
            Call::AnonymousCall(args) => {
                let function = self.base(base)?;
                self.move_to(item.register, function)?;
                (function, item.name.clone(), &**args, false)
            }
            Call::MethodCall(method) => {
                self.at(method.name());
                let index = self.name(method.name())?;
                let function = self.base(base)?;
                self.register()?;
                self.name_next(0, item.name.clone())?;
                self.emit(Op::Method { to: function, object: item.register, name: index })?;
                (function, Some((Origin::Method, name_of(method.name()))), method.args(), true)
            }
            _ => return self.refused("this call is not of Lua 5.1"),
        };
        let line = self.args_line(args);
        let given = self.arguments(args)?;
        let arguments = match given {
            Values::Just(count) => Values::Just(count + u8::from(is_method)),
            Values::All => Values::All,
        };
        self.line = line;
        self.name_next(0, name)?;
        let results = open(values);
        self.emit(Op::Call { function, arguments: open(arguments), results })?;
        self.release(u16::from(function))?;
        // What a call answers takes registers even if nobody asked for them yet.
        self.register()?;
        if let Values::Just(count) = values {
            self.room(u16::from(count))?;
        }
        Ok(Item { register: function, name: None })
    }

    fn args_line(&mut self, args: &FunctionArgs) -> u32 {
        match args {
            FunctionArgs::Parentheses { parentheses, .. } => self.at(parentheses.tokens().0),
            FunctionArgs::String(token) => self.at(token),
            FunctionArgs::TableConstructor(table) => self.at(table.braces().tokens().0),
            _ => {}
        }
        self.line
    }

    /// Arguments in the next registers.
    fn arguments(&mut self, args: &FunctionArgs) -> Compiled<Values> {
        match args {
            FunctionArgs::Parentheses { arguments, .. } => {
                let arguments: Vec<&Expression> = arguments.iter().collect();
                self.all_values(&arguments)
            }
            FunctionArgs::String(token) => {
                let to = self.register()?;
                match literal::string(token.token()) {
                    Ok(text) => self.load_constant(Constant::Text(text), to)?,
                    Err(wrong) => return self.refused(wrong),
                }
                Ok(Values::Just(1))
            }
            FunctionArgs::TableConstructor(table) => {
                let to = self.register()?;
                self.table(table, to)?;
                Ok(Values::Just(1))
            }
            _ => self.refused("these arguments are not of Lua 5.1"),
        }
    }

    /// Expressions in the next registers; of the last, all its values.
    pub(super) fn all_values(&mut self, expressions: &[&Expression]) -> Compiled<Values> {
        let Some((last, before)) = expressions.split_last() else { return Ok(Values::Just(0)) };
        for expression in before {
            self.push(expression)?;
        }
        if is_several(last) {
            self.several(last, Values::All)?;
            return Ok(Values::All);
        }
        self.push(last)?;
        match u8::try_from(expressions.len()) {
            Ok(count) if count < OPEN - 1 => Ok(Values::Just(count)),
            _ => self.refused("function or expression too complex"),
        }
    }

    /// An expression that may become several values, from the next register on. The registers are not taken.
    pub(super) fn several(&mut self, expression: &Expression, values: Values) -> Compiled<()> {
        let mark = self.mark()?;
        match expression {
            Expression::FunctionCall(call) => {
                self.chain(call.prefix(), call.suffixes(), values, None)?;
            }
            Expression::Symbol(token) => {
                self.at(token);
                self.check_variadic()?;
                let count = open(values);
                self.room(if count == OPEN { 1 } else { u16::from(count).max(1) })?;
                self.emit(Op::Varargs { to: mark as u8, count })?;
            }
            _ => return self.refused("this is one value"),
        }
        self.release(mark)
    }

    /// Exactly so many values of expressions, in the next registers, which are taken.
    pub(super) fn exactly(&mut self, expressions: &[&Expression], count: usize) -> Compiled<u8> {
        let first = self.mark()? as u8;
        for (place, expression) in expressions.iter().enumerate() {
            let is_last = place + 1 == expressions.len();
            if is_last && is_several(expression) && count > place {
                let missing = u8::try_from(count - place).unwrap_or(OPEN);
                self.room(u16::from(missing))?;
                self.several(expression, Values::Just(missing))?;
                self.registers(u16::from(missing))?;
                return Ok(first);
            }
            if place < count {
                self.push(expression)?;
            } else {
                // More than there are variables: computed, and not kept.
                let mark = self.mark()?;
                self.push(expression)?;
                self.release(mark)?;
            }
        }
        let missing = count.saturating_sub(expressions.len());
        if missing > 0 {
            let missing = u8::try_from(missing).unwrap_or(OPEN);
            let from = self.registers(u16::from(missing))?;
            self.emit(Op::Nil { from, count: missing })?;
        }
        Ok(first)
    }

    /// A function, made into a closure in a register. Methods have a parameter `self`.
    pub(super) fn closure(
        &mut self,
        body: &FunctionBody,
        itself: Option<&TokenReference>,
        to: u8,
    ) -> Compiled<()> {
        let line = self.line;
        self.open_function();
        self.enter(false)?;
        let mut parameters = 0u8;
        if itself.is_some() {
            let register = self.register()?;
            self.declare("self", register)?;
            parameters += 1;
        }
        for parameter in body.parameters() {
            match parameter {
                Parameter::Name(token) => {
                    self.at(token);
                    let register = self.register()?;
                    self.declare(&token.token().to_string(), register)?;
                    parameters = parameters.saturating_add(1);
                }
                Parameter::Ellipsis(_) => self.function()?.function.is_variadic = true,
                _ => return self.refused("this parameter is not of Lua 5.1"),
            }
        }
        self.function()?.function.parameters = parameters;
        self.block(body.block())?;
        self.at(body.end_token());
        let end = self.line;
        let function = self.close_function()?;
        self.line = line;
        self.emit(Op::Closure { to, function })?;
        self.line = end;
        Ok(())
    }
}

/// How a count stands in an instruction.
pub(super) fn open(values: Values) -> u8 {
    match values {
        Values::Just(count) => count,
        Values::All => OPEN,
    }
}
