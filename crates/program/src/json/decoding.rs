//! JSON to values.

use super::tokens::{Token, Tokens, unexpected};
use super::{DEPTH_MAX, JsonOptions};
use crate::data::{Budget, Data, of_bytes};

/// The value that a text says. A key that an object has twice is there twice.
///
/// # Errors
/// In the words of `cjson`: the text is no JSON, or is nested too deep. Or the budget is spent.
pub(crate) fn decode(text: &[u8], options: &JsonOptions, budget: &mut Budget) -> Result<Data, String> {
    // Whatever fails early has been looked at no further than to its end.
    budget.spend(of_bytes(text.len()))?;
    if matches!(text, [0, _, ..] | [_, 0, ..]) {
        return Err("JSON parser does not support UTF-16 or UTF-32".to_owned());
    }
    let tokens = Tokens { text, place: 0, begin: 0, options, budget };
    Reader { tokens, open: Vec::new() }.read()
}

/// A table of which a part is read.
enum Table {
    Array(Vec<Data>),
    /// With the key of the next value.
    Object(Vec<(Data, Data)>, Vec<u8>),
}

struct Reader<'a, 'b> {
    tokens: Tokens<'a, 'b>,
    open: Vec<Table>,
}

impl Reader<'_, '_> {
    fn read(mut self) -> Result<Data, String> {
        let mut token = self.tokens.next("value")?;
        loop {
            let value = match token {
                Token::ArrayBegin => {
                    self.deeper()?;
                    token = self.tokens.next("value")?;
                    if token != Token::ArrayEnd {
                        self.open.push(Table::Array(Vec::new()));
                        continue;
                    }
                    Data::Array(Vec::new())
                }
                Token::ObjectBegin => {
                    self.deeper()?;
                    token = self.tokens.next("object key string")?;
                    if token != Token::ObjectEnd {
                        let key = self.key(token)?;
                        self.open.push(Table::Object(Vec::new(), key));
                        token = self.tokens.next("value")?;
                        continue;
                    }
                    Data::Map(Vec::new())
                }
                Token::Text(text) => Data::Text(text),
                Token::Number(number) => Data::Number(number),
                Token::Bool(bool) => Data::Bool(bool),
                Token::Null => Data::Null,
                other => return self.refuse("value", &other),
            };
            match self.attach(value)? {
                Next::Value(next) => token = next,
                Next::Done(value) => return Ok(value),
            }
        }
    }

    /// Puts a value into the table that is open, and closes all that end behind it.
    fn attach(&mut self, mut value: Data) -> Result<Next, String> {
        while let Some(table) = self.open.pop() {
            self.tokens.budget.slot()?;
            match table {
                Table::Array(mut items) => {
                    items.push(value);
                    match self.tokens.next("comma or array end")? {
                        Token::Comma => {
                            self.open.push(Table::Array(items));
                            return self.tokens.next("value").map(Next::Value);
                        }
                        Token::ArrayEnd => value = Data::Array(items),
                        other => return self.refuse("comma or array end", &other),
                    }
                }
                Table::Object(mut pairs, key) => {
                    self.tokens.budget.slot()?;
                    pairs.push((Data::Text(key), value));
                    match self.tokens.next("comma or object end")? {
                        Token::Comma => {
                            let token = self.tokens.next("object key string")?;
                            let key = self.key(token)?;
                            self.open.push(Table::Object(pairs, key));
                            return self.tokens.next("value").map(Next::Value);
                        }
                        Token::ObjectEnd => value = Data::Map(pairs),
                        other => return self.refuse("comma or object end", &other),
                    }
                }
            }
        }
        match self.tokens.next("the end")? {
            Token::End => Ok(Next::Done(value)),
            other => self.refuse("the end", &other),
        }
    }

    /// The key, behind which there is a colon.
    fn key(&mut self, token: Token) -> Result<Vec<u8>, String> {
        let Token::Text(key) = token else { return self.refuse("object key string", &token) };
        match self.tokens.next("colon")? {
            Token::Colon => Ok(key),
            other => self.refuse("colon", &other),
        }
    }

    /// One more table may be open.
    fn deeper(&mut self) -> Result<(), String> {
        let depth = self.open.len().saturating_add(1);
        if depth > self.tokens.options.decode_max_depth.min(DEPTH_MAX) {
            let place = self.tokens.place;
            return Err(format!("Found too many nested data structures ({depth}) at character {place}"));
        }
        // Its first values have places before they are there.
        self.tokens.budget.slot()?;
        Ok(self.tokens.budget.slot()?)
    }

    fn refuse<T>(&self, expected: &str, found: &Token) -> Result<T, String> {
        Err(unexpected(expected, found.name(), self.tokens.begin))
    }
}

/// What follows a value.
enum Next {
    /// The first token of another one.
    Value(Token),
    /// Nothing: it is all of the text.
    Done(Data),
}
