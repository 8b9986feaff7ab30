//! What a text says of the commands that it calls: whether each of their arguments is sure to be a declared key. It is asked before a
//! script is given to a server, where one that uses other keys fails half way.
//!
//! Only what is written out counts: `redis.call('GET', KEYS[1])`. A text that does anything else with `redis` or `KEYS`, gives them
//! another name say, is not known.

use full_moon::ast::{
    Assignment, Ast, Call, Expression, FunctionArgs, FunctionCall, Index, LocalAssignment, Prefix, Suffix,
    UnOp, Var,
};
use full_moon::tokenizer::{Token, TokenReference};
use full_moon::visitors::Visitor;

use crate::literal;

/// An argument of `redis.call`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A string.
    Text(Box<[u8]>),
    /// `KEYS[...]`.
    Key,
    /// `unpack(KEYS)`.
    Keys,
    /// Anything else.
    Other,
}

/// What calls of a text are given.
pub(crate) type Calls = Vec<Box<[Given]>>;

/// The calls of a text, in no order that counts; `None`: it may have others.
pub(crate) fn calls(ast: &Ast) -> Option<Calls> {
    let mut finder = Finder::default();
    finder.visit_ast(ast);
    (finder.named == finder.known && !finder.is_unknown).then_some(finder.calls)
}

/// What `redis` has beside commands.
const HARMLESS: [&str; 14] = [
    "error_reply",
    "status_reply",
    "sha1hex",
    "log",
    "setresp",
    "LOG_DEBUG",
    "LOG_VERBOSE",
    "LOG_NOTICE",
    "LOG_WARNING",
    "REDIS_VERSION",
    "REDIS_VERSION_NUM",
    "replicate_commands",
    "breakpoint",
    "debug",
];

/// Names by which everything could be reached.
const ROOTS: [&str; 4] = ["_G", "getfenv", "setfenv", "rawset"];

#[derive(Default)]
struct Finder {
    calls: Vec<Box<[Given]>>,
    /// How often `redis` and `KEYS` are named.
    named: usize,
    /// How often of these they are used as is known.
    known: usize,
    is_unknown: bool,
}

impl Visitor for Finder {
    fn visit_identifier(&mut self, identifier: &Token) {
        let name = identifier.to_string();
        self.named += usize::from(matches!(name.as_str(), "redis" | "server" | "KEYS" | "unpack"));
        self.is_unknown |= ROOTS.contains(&name.as_str());
    }

    fn visit_function_call(&mut self, call: &FunctionCall) {
        let suffixes: Vec<&Suffix> = call.suffixes().collect();
        if is_named(call.prefix(), &["redis", "server"]) {
            match suffixes[..] {
                [Suffix::Index(Index::Dot { name, .. }), Suffix::Call(Call::AnonymousCall(args)), ..] => {
                    match text_of(name).as_str() {
                        "call" | "pcall" => {
                            self.calls.push(given(args));
                            self.known += 1;
                        }
                        name => self.known += usize::from(HARMLESS.contains(&name)),
                    }
                }
                _ => self.is_unknown = true,
            }
        }
        // `unpack(KEYS)`, `#KEYS` within its arguments and the like are seen where they stand.
        if is_named(call.prefix(), &["unpack"])
            && let [Suffix::Call(Call::AnonymousCall(args)), ..] = suffixes[..]
        {
            self.known += 1;
            if let [Expression::Var(Var::Name(name)), ..] = arguments(args)[..] {
                self.known += usize::from(text_of(name) == "KEYS");
            }
        }
    }

    fn visit_expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Var(Var::Expression(var)) if is_named(var.prefix(), &["KEYS"]) => {
                let mut suffixes = var.suffixes();
                let is_element = matches!(suffixes.next(), Some(Suffix::Index(Index::Brackets { .. })));
                self.known += usize::from(is_element && suffixes.next().is_none());
            }
            Expression::Var(Var::Expression(var)) if is_named(var.prefix(), &["redis", "server"]) => {
                if let Some(Suffix::Index(Index::Dot { name, .. })) = var.suffixes().next() {
                    self.known += usize::from(HARMLESS.contains(&text_of(name).as_str()));
                }
            }
            Expression::UnaryOperator { unop: UnOp::Hash(_), expression } => {
                if let Expression::Var(Var::Name(name)) = &**expression {
                    self.known += usize::from(text_of(name) == "KEYS");
                }
            }
            _ => {}
        }
    }

    fn visit_assignment(&mut self, assignment: &Assignment) {
        for target in assignment.variables() {
            let name = match target {
                Var::Name(name) => text_of(name),
                Var::Expression(var) => prefix_name(var.prefix()).unwrap_or_default(),
                _ => String::new(),
            };
            self.is_unknown |= matches!(name.as_str(), "redis" | "server" | "KEYS" | "unpack");
        }
    }

    fn visit_local_assignment(&mut self, assignment: &LocalAssignment) {
        let is_hidden = |name: &TokenReference| matches!(text_of(name).as_str(), "KEYS" | "redis" | "unpack");
        self.is_unknown |= assignment.names().iter().any(is_hidden);
    }
}

fn text_of(token: &TokenReference) -> String {
    token.token().to_string()
}

fn prefix_name(prefix: &Prefix) -> Option<String> {
    match prefix {
        Prefix::Name(name) => Some(text_of(name)),
        _ => None,
    }
}

fn is_named(prefix: &Prefix, names: &[&str]) -> bool {
    prefix_name(prefix).is_some_and(|name| names.contains(&name.as_str()))
}

fn arguments(args: &FunctionArgs) -> Vec<&Expression> {
    match args {
        FunctionArgs::Parentheses { arguments, .. } => arguments.iter().collect(),
        _ => Vec::new(),
    }
}

fn given(args: &FunctionArgs) -> Box<[Given]> {
    if let FunctionArgs::String(text) = args {
        return literal::string(text.token())
            .map_or_else(|_| Box::from([Given::Other]), |text| Box::from([Given::Text(text)]));
    }
    arguments(args).into_iter().map(given_as).collect()
}

fn given_as(expression: &Expression) -> Given {
    match expression {
        Expression::String(text) => literal::string(text.token()).map_or(Given::Other, Given::Text),
        Expression::Var(Var::Expression(var)) if is_named(var.prefix(), &["KEYS"]) => {
            let suffixes: Vec<&Suffix> = var.suffixes().collect();
            match suffixes[..] {
                [Suffix::Index(Index::Brackets { .. })] => Given::Key,
                _ => Given::Other,
            }
        }
        Expression::FunctionCall(call) if is_named(call.prefix(), &["unpack"]) => {
            let suffixes: Vec<&Suffix> = call.suffixes().collect();
            match suffixes[..] {
                [Suffix::Call(Call::AnonymousCall(args))] => match arguments(args)[..] {
                    [Expression::Var(Var::Name(name))] if text_of(name) == "KEYS" => Given::Keys,
                    _ => Given::Other,
                },
                _ => Given::Other,
            }
        }
        _ => Given::Other,
    }
}
