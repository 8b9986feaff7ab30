//! Random scripts: expressions, tables, strings, loops, closures, errors and commands. They end, and what they answer does not depend on
//! the order of keys.

/// Makes a script from a seed.
pub(crate) struct Generator {
    state: u64,
    depth: u32,
    names: u32,
}

const STRINGS: [&str; 10] =
    ["''", "'a'", "'10'", "'abc'", "'0x1f'", "'k1'", "'a=1,b=2'", "'hello world'", "' 7 '", "'x\\0y'"];
const PATTERNS: [&str; 8] = ["'%w+'", "'(%w)(%w)'", "'l+'", "'^h'", "'()'", "'[a-m]'", "'%d'", "'.-o'"];
const NUMBERS: [&str; 10] = ["0", "1", "2", "-1", "3.5", "10", "1e3", "255", "0.1", "7"];
const OPERATORS: [&str; 14] = ["+", "-", "*", "/", "%", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"];

impl Generator {
    /// A generator.
    pub(crate) fn new(seed: u64) -> Generator {
        Generator {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1,
            depth: 0,
            names: 0,
        }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }

    fn one_of(&mut self, words: &[&str]) -> String {
        let at = self.next(words.len() as u64) as usize;
        words.get(at).copied().unwrap_or_default().to_owned()
    }

    /// A whole script, which shows its variables at its end.
    pub(crate) fn script(&mut self) -> String {
        let mut script = String::from(
            "local function show(v) local t=type(v) if t=='table' then local s='{' for i=1,#v do s=s..show_in(v[i])..',' end return s..'}' end \
             if t=='function' then return 'f' end return tostring(v) end\n",
        );
        script = script.replace("show_in", "tostring");
        for _ in 0..3 + self.next(5) {
            let statement = self.statement();
            // Most errors are caught, so that the script goes on.
            let is_caught = !statement.starts_with("local") && self.next(8) > 0;
            script.push_str(&if is_caught {
                format!("pcall(function() {statement} end)")
            } else {
                statement
            });
            script.push('\n');
        }
        let shown: Vec<String> = (0..self.names).map(|name| format!("show(v{name})")).collect();
        script.push_str(&format!("return {{{}}}", shown.join(",")));
        // What the tables hold is shown by their elements only if they are no tables.
        script.replace(
            "tostring(v[i])",
            "(type(v[i])=='table' and 't' or type(v[i])=='function' and 'f' or tostring(v[i]))",
        )
    }

    fn variable(&mut self) -> String {
        if self.names == 0 {
            return "KEYS".into();
        }
        let name = self.next(u64::from(self.names));
        format!("v{name}")
    }

    fn block(&mut self) -> String {
        let names = self.names;
        let count = 1 + self.next(2);
        let block: Vec<String> = (0..count).map(|_| self.statement()).collect();
        self.names = names;
        block.join(" ")
    }

    fn statement(&mut self) -> String {
        self.depth += 1;
        let kind = if self.depth > 3 { self.next(4) } else { self.next(13) };
        let statement = match kind {
            0 | 1 => {
                let value = self.safe();
                let name = self.names;
                self.names += 1;
                format!("local v{name} = {value}")
            }
            2 if self.names > 0 => format!("{} = {}", self.variable(), self.expression()),
            3 => {
                format!("redis.call('set',{},{})", self.one_of(&["'a'", "'b'", "KEYS[1]"]), self.expression())
            }
            4 => format!("if {} then {} else {} end", self.expression(), self.block(), self.block()),
            5 => {
                let name = self.names;
                self.names += 1;
                let body = self.block();
                let (limit, step) = (self.next(5), self.one_of(&["1", "2", "0.5"]));
                self.names = name;
                format!("for v{name} = 1,{limit},{step} do {body} end")
            }
            6 => {
                let list = self.expression();
                let name = self.names;
                self.names += 2;
                let body = self.block();
                self.names = name;
                format!("for v{name},v{} in ipairs({list}) do {body} end", name + 1)
            }
            7 => {
                let (limit, body) = (1 + self.next(4), self.block());
                format!("do local n=0 while n<{limit} do n=n+1 {body} end end")
            }
            8 => {
                let (limit, body) = (1 + self.next(4), self.block());
                format!("do local n=0 repeat n=n+1 {body} until n>={limit} end")
            }
            9 => {
                let name = self.names;
                self.names += 1;
                let (body, value) = (self.block(), self.expression());
                format!(
                    "local v{name}; do local p,q=pcall(function(...) {body} return {value} end,1,'z') v{name}=q end"
                )
            }
            10 => format!(
                "do local t={} if type(t)=='table' then t[#t+1]={} end end",
                self.variable(),
                self.expression()
            ),
            11 => {
                let (value, other) = (self.safe(), self.safe());
                let name = self.names;
                self.names += 2;
                format!("local v{name},v{} = {value},{other}", name + 1)
            }
            _ => {
                let name = self.names;
                self.names += 1;
                let (body, value) = (self.block(), self.expression());
                format!("local function v{name}(a,b) {body} return {value} end")
            }
        };
        self.depth -= 1;
        statement
    }

    fn expression(&mut self) -> String {
        self.depth += 1;
        let kind = if self.depth > 5 { self.next(5) } else { self.next(22) };
        let expression = match kind {
            0 => self.one_of(&NUMBERS),
            1 => self.one_of(&STRINGS),
            2 => self.one_of(&["nil", "true", "false"]),
            3 | 4 => self.variable(),
            5..=8 => {
                let operator = self.one_of(&OPERATORS);
                format!("({} {operator} {})", self.expression(), self.expression())
            }
            9 => format!("({} {})", self.one_of(&["-", "not", "#"]), self.expression()),
            10 => {
                let count = self.next(4);
                // Without holes: which border is the length depends on the table's inside.
                let items: Vec<String> =
                    (0..count).map(|_| format!("({} or 0)", self.expression())).collect();
                format!("{{{}}}", items.join(","))
            }
            11 => format!("({})[{}]", self.variable(), self.expression()),
            12 => format!("tostring({})", self.plain()),
            13 => format!("tonumber({})", self.expression()),
            14 => {
                let function = self.one_of(&["upper", "lower", "len", "reverse", "byte"]);
                format!("string.{function}({})", self.expression())
            }
            15 => format!(
                "string.sub({},{},{})",
                self.expression(),
                self.one_of(&NUMBERS),
                self.one_of(&NUMBERS)
            ),
            16 => {
                let function = self.one_of(&["find", "match"]);
                format!("(string.{function}({},{}))", self.one_of(&STRINGS), self.one_of(&PATTERNS))
            }
            17 => format!(
                "(string.gsub({},{},{}))",
                self.one_of(&STRINGS),
                self.one_of(&PATTERNS),
                self.plain()
            ),
            18 => format!("math.{}({})", self.one_of(&["floor", "abs", "ceil", "max"]), self.expression()),
            19 => format!("redis.call('get',{})", self.one_of(&["'a'", "'b'", "KEYS[1]"])),
            20 => format!(
                "(function(...) return {} end)({})",
                self.one_of(&["...", "select('#',...)", "(...)"]),
                self.expression()
            ),
            _ => format!("select(2,pcall(function() return {} end))", self.expression()),
        };
        self.depth -= 1;
        expression
    }

    /// An expression that mostly does not fail.
    fn safe(&mut self) -> String {
        match self.next(8) {
            0 => self.expression(),
            1 => self.plain(),
            2..=4 => format!("select(2,pcall(function() return {} end))", self.expression()),
            _ => {
                let operator = self.one_of(&["+", "-", "*", "..", "==", "and", "or"]);
                format!("{} {operator} {}", self.one_of(&NUMBERS), self.one_of(&NUMBERS))
            }
        }
    }

    /// What is shown as it is: no table and no function.
    fn plain(&mut self) -> String {
        if self.next(2) == 0 { self.one_of(&NUMBERS) } else { self.one_of(&STRINGS) }
    }
}
