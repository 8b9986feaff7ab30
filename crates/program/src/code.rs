//! What a script is compiled to: functions of a register machine.

/// Registers of one function at most. Above are the marks for "all there are".
pub(crate) const REGISTERS_MAX: u16 = 250;

/// A count of values that is known only when the script runs.
pub(crate) const OPEN: u8 = 255;

/// Operands from here on are constants.
pub(crate) const CONSTANTS_FROM: u16 = 256;

/// A register, or a constant of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand(pub u16);

impl Operand {
    /// A register.
    pub(crate) fn register(register: u8) -> Operand {
        Operand(u16::from(register))
    }

    /// A constant, if its number fits.
    pub(crate) fn constant(index: u32) -> Option<Operand> {
        u16::try_from(index).ok()?.checked_add(CONSTANTS_FROM).map(Operand)
    }
}

/// One instruction. `to` is the register that takes the result; targets are places in the code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Nil {
        from: u8,
        count: u8,
    },
    Bool {
        to: u8,
        value: bool,
    },
    Constant {
        to: u8,
        index: u32,
    },
    Move {
        to: u8,
        from: u8,
    },
    GetUpvalue {
        to: u8,
        index: u8,
    },
    SetUpvalue {
        index: u8,
        from: u8,
    },
    GetGlobal {
        to: u8,
        name: u32,
    },
    SetGlobal {
        from: u8,
        name: u32,
    },
    GetIndex {
        to: u8,
        table: u8,
        key: Operand,
    },
    SetIndex {
        table: u8,
        key: Operand,
        value: Operand,
    },
    /// The function `name` of `object` to `to`, and `object` behind it.
    Method {
        to: u8,
        object: u8,
        name: u32,
    },
    NewTable {
        to: u8,
        array: u16,
        hash: u16,
    },
    /// The `count` values behind `table` become its elements from `first`.
    SetList {
        table: u8,
        count: u8,
        first: u32,
    },
    Add {
        to: u8,
        left: Operand,
        right: Operand,
    },
    Subtract {
        to: u8,
        left: Operand,
        right: Operand,
    },
    Multiply {
        to: u8,
        left: Operand,
        right: Operand,
    },
    Divide {
        to: u8,
        left: Operand,
        right: Operand,
    },
    Modulo {
        to: u8,
        left: Operand,
        right: Operand,
    },
    Power {
        to: u8,
        left: Operand,
        right: Operand,
    },
    Negate {
        to: u8,
        from: u8,
    },
    Not {
        to: u8,
        from: u8,
    },
    Length {
        to: u8,
        from: u8,
    },
    Concat {
        to: u8,
        first: u8,
        count: u8,
    },
    Jump {
        target: u32,
    },
    JumpIf {
        test: u8,
        when: bool,
        target: u32,
    },
    /// Compares, and goes on at the jump behind it if the answer is `when`, else after that jump.
    Equal {
        when: bool,
        left: Operand,
        right: Operand,
    },
    Less {
        when: bool,
        left: Operand,
        right: Operand,
    },
    LessEqual {
        when: bool,
        left: Operand,
        right: Operand,
    },
    Call {
        function: u8,
        arguments: u8,
        results: u8,
    },
    TailCall {
        function: u8,
        arguments: u8,
    },
    Return {
        from: u8,
        count: u8,
    },
    Varargs {
        to: u8,
        count: u8,
    },
    Closure {
        to: u8,
        function: u32,
    },
    /// Captured locals from this register on are no longer in registers.
    Close {
        from: u8,
    },
    ForStart {
        base: u8,
        target: u32,
    },
    ForNext {
        base: u8,
        target: u32,
    },
    /// Calls the iterator at `base`: its results are the loop's variables, from `base + 3`.
    IterCall {
        base: u8,
        count: u8,
    },
    /// Back to `target` unless the first variable is nil.
    IterNext {
        base: u8,
        target: u32,
    },
}

/// A constant in a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Nil,
    Bool(bool),
    Number(f64),
    Text(Box<[u8]>),
}

/// Where a closure takes a captured variable from when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A register of the function around it.
    Register(u8),
    /// What the function around it has captured.
    Upvalue(u8),
}

/// How a script calls an operand: errors say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Local,
    Upvalue,
    Global,
    Field,
    Method,
}

impl Origin {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Origin::Local => "local",
            Origin::Upvalue => "upvalue",
            Origin::Global => "global",
            Origin::Field => "field",
            Origin::Method => "method",
        }
    }
}

/// The name of an operand of one instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Naming {
    pub at: u32,
    /// Which operand: 0 is the left one, the table, or the function.
    pub slot: u8,
    pub origin: Origin,
    pub name: Box<[u8]>,
}

/// A compiled function.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Function {
    pub code: Vec<Op>,
    pub lines: Vec<u32>,
    pub constants: Vec<Constant>,
    pub captures: Vec<Capture>,
    pub names: Vec<Naming>,
    pub registers: u16,
    pub parameters: u8,
    pub is_variadic: bool,
}

impl Function {
    /// The line of an instruction.
    pub(crate) fn line(&self, at: usize) -> u32 {
        self.lines.get(at).copied().unwrap_or_default()
    }

    /// The name of an operand of an instruction.
    pub(crate) fn name(&self, at: usize, slot: u8) -> Option<&Naming> {
        let at = u32::try_from(at).ok()?;
        let found = self.names.binary_search_by_key(&(at, slot), |name| (name.at, name.slot)).ok()?;
        self.names.get(found)
    }

    fn bytes(&self) -> usize {
        let texts: usize = self
            .constants
            .iter()
            .map(|constant| if let Constant::Text(text) = constant { text.len() } else { 0 })
            .sum();
        let names: usize = self.names.iter().map(|name| name.name.len()).sum();
        size_of::<Function>()
            + self.code.len() * (size_of::<Op>() + size_of::<u32>())
            + self.constants.len() * size_of::<Constant>()
            + self.names.len() * size_of::<Naming>()
            + self.captures.len() * size_of::<Capture>()
            + texts
            + names
    }
}

/// All functions of a script. The last is the script itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unit {
    pub functions: Vec<Function>,
    /// It is a library's, and no script.
    pub is_library: bool,
}

impl Unit {
    /// How errors name the text.
    pub(crate) fn chunk(&self) -> &'static str {
        if self.is_library { "user_function" } else { "user_script" }
    }

    /// The number of the function that is the script itself.
    pub(crate) fn entry(&self) -> usize {
        self.functions.len().saturating_sub(1)
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.functions.iter().map(Function::bytes).sum()
    }
}
