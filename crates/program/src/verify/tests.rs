//! Changed programs: those that pass the check run, and end.

use std::sync::Arc;

use super::verify;
use crate::code::{Op, Operand, Unit};
use crate::compile;
use crate::machine::{Machine, Stop};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn register(&mut self) -> u8 {
        if self.roll(8) == 0 { self.roll(256) as u8 } else { self.roll(12) as u8 }
    }

    fn operand(&mut self) -> Operand {
        Operand(if self.roll(3) == 0 { 256 + self.roll(8) as u16 } else { u16::from(self.register()) })
    }

    fn op(&mut self) -> Op {
        let (to, from, count) = (self.register(), self.register(), self.register());
        let (left, right, index, when) =
            (self.operand(), self.operand(), self.roll(30) as u32, self.roll(2) == 0);
        match self.roll(33) {
            0 => Op::Nil { from, count },
            1 => Op::Bool { to, value: when },
            2 => Op::Constant { to, index },
            3 => Op::Move { to, from },
            4 => Op::GetUpvalue { to, index: count },
            5 => Op::SetUpvalue { index: count, from },
            6 => Op::GetGlobal { to, name: index },
            7 => Op::SetGlobal { from, name: index },
            8 => Op::GetIndex { to, table: from, key: left },
            9 => Op::SetIndex { table: to, key: left, value: right },
            10 => Op::Method { to, object: from, name: index },
            11 => Op::NewTable { to, array: self.roll(65536) as u16, hash: 3 },
            12 => Op::SetList { table: to, count, first: u32::MAX - index },
            13 => Op::Add { to, left, right },
            14 => Op::Modulo { to, left, right },
            15 => Op::Negate { to, from },
            16 => Op::Not { to, from },
            17 => Op::Length { to, from },
            18 => Op::Concat { to, first: from, count },
            19 => Op::Jump { target: index },
            20 => Op::JumpIf { test: from, when, target: index },
            21 => Op::Equal { when, left, right },
            22 => Op::Less { when, left, right },
            23 => Op::Call { function: to, arguments: from, results: count },
            24 => Op::TailCall { function: to, arguments: count },
            25 => Op::Return { from, count },
            26 => Op::Varargs { to, count },
            27 => Op::Closure { to, function: index % 4 },
            28 => Op::Close { from },
            29 => Op::ForStart { base: to, target: index },
            30 => Op::ForNext { base: to, target: index },
            31 => Op::IterCall { base: to, count },
            _ => Op::IterNext { base: to, target: index },
        }
    }
}

const SCRIPTS: [&str; 4] = [
    "local t = {1, 2, x = 3} for k, v in pairs(t) do t[k] = v .. k end return t.x, #t",
    "local function f(a, ...) local b = ... if a > 0 then return f(a - 1, b, ...) end return b, ... end return f(3, 1, 2)",
    "local n = 0 local function up() n = n + 1 return function() n = n * 2 return n end end for i = 1, 3 do up()() end return n",
    "local ok, e = pcall(function(x) return x:rep(2):gsub('a', {a = 'b'}) end, 'abc') repeat local y = e until y or not ok return e",
];

fn run(unit: Unit) {
    let Ok(mut machine) = Machine::new(Arc::new(unit), 3_000, 1 << 20, 100) else { return };
    let Ok(entry) = machine.entry() else { return };
    if machine.start(entry, &[]).is_err() {
        return;
    }
    for _ in 0..10_000 {
        match machine.run(1_000) {
            Ok(Stop::Rested) => {}
            Ok(Stop::Returned | Stop::Called) | Err(_) => return,
        }
    }
    panic!("it does not end");
}

#[test]
fn changed_programs_are_refused_or_end() {
    let units: Vec<Unit> =
        SCRIPTS.iter().map(|text| compile::unit(text.as_bytes()).expect("a program")).collect();
    let mut dice = Dice(0xB17E);
    let mut passed = 0;
    for round in 0..250_000 {
        let mut unit = units.get(round % units.len()).cloned().unwrap_or_default();
        for _ in 0..=dice.roll(4) {
            let number = dice.roll(unit.functions.len() as u64) as usize;
            let Some(function) = unit.functions.get_mut(number) else { continue };
            match dice.roll(20) {
                0 => function.registers = dice.roll(300) as u16,
                1 => function.parameters = dice.register(),
                2 => function.is_variadic = !function.is_variadic,
                3 => drop(function.code.pop()),
                4 => drop(function.constants.pop()),
                _ => {
                    let at = dice.roll(function.code.len().max(1) as u64) as usize;
                    let op = dice.op();
                    if let Some(place) = function.code.get_mut(at) {
                        *place = op;
                    }
                }
            }
        }
        if verify(&unit).is_ok() {
            passed += 1;
            run(unit);
        }
    }
    assert!(passed > 10_000, "{passed} of the changed programs passed");
}

#[test]
fn compiled_programs_pass() {
    for text in SCRIPTS {
        assert_eq!(verify(&compile::unit(text.as_bytes()).expect("a program")), Ok(()));
    }
}
