//! Texts and answers that nobody would write.

use std::sync::Arc;

use claret_program::{Answer, Limits, Pause, Program, Run, Start};

use crate::host::{Host, LIMITS};
use crate::scripts::SAME;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }
}

fn run(text: &[u8]) {
    let Ok(program) = Program::compile(text) else { return };
    let limits = Limits { steps: 20_000, bytes: 1 << 20, depth: 200 };
    let start = Start { limits, ..Start::default() };
    let _ = Host::default().run(&mut Run::new(Arc::new(program), start), 5_000);
}

#[test]
fn random_bytes_are_no_programs_or_end() {
    let mut dice = Dice(0x5EED);
    let words: &[&[u8]] = &[
        b"local ",
        b"x",
        b"=",
        b"function",
        b"(",
        b")",
        b" end ",
        b"if ",
        b" then ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"[[",
        b"--",
        b"..",
        b"...",
        b"'",
        b"\"",
        b"\\",
        b"\n",
        b"1",
        b"return ",
        b"for ",
        b" in ",
        b" do ",
        b"\xff",
        b"\0",
        b"#",
        b"not ",
        b"~=",
        b"goto ",
        b"::",
        b"0x",
        b"1e",
    ];
    for _ in 0..3_000 {
        let text: Vec<u8> = if dice.roll(3) == 0 {
            (0..dice.roll(60)).map(|_| dice.roll(256) as u8).collect()
        } else {
            let count = dice.roll(30);
            (0..count)
                .flat_map(|_| words.get(dice.roll(words.len())).copied().unwrap_or_default().to_vec())
                .collect()
        };
        run(&text);
    }
}

#[test]
fn scripts_with_a_byte_changed_end() {
    let mut dice = Dice(0xC1A5);
    for round in 0..3_000 {
        let script = SAME.get(round % SAME.len()).copied().unwrap_or_default();
        let mut text = script.as_bytes().to_vec();
        for _ in 0..=dice.roll(3) {
            let at = dice.roll(text.len());
            match dice.roll(3) {
                0 if !text.is_empty() => {
                    text.remove(at);
                }
                1 => text.insert(at, dice.roll(256) as u8),
                _ => {
                    if let Some(byte) = text.get_mut(at) {
                        *byte =
                            b" ()[]{}'\"=.,;:+-*/%^#<>~0az\n\\".get(dice.roll(31)).copied().unwrap_or(b'x');
                    }
                }
            }
        }
        run(&text);
    }
}

#[test]
fn what_nests_too_deep_is_refused() {
    for (open, close) in [
        ("(", ")"),
        ("{", "}"),
        ("f(", ")"),
        ("function() return ", " end "),
        ("not ", ""),
        ("- ", ""),
        ("1 .. ", ""),
        ("a[", "]"),
        ("1 + ", ""),
        ("2 ^ ", ""),
    ] {
        for count in [10, 150, 199, 300, 5_000, 50_000] {
            run(format!("local f, a = 1, 2 return {}1{}", open.repeat(count), close.repeat(count)).as_bytes());
        }
        let deep = format!("local f, a = 1, 2 return {}1{}", open.repeat(5_000), close.repeat(5_000));
        assert!(Program::compile(deep.as_bytes()).is_err(), "{open}");
    }
    for block in
        ["do ", "if x then ", "while x do ", "repeat ", "for i = 1, 2 do ", "if x then else if y then "]
    {
        for count in [100, 198, 5_000] {
            let close = if block == "repeat " { " until x " } else { " end " };
            run(format!("{}{}", block.repeat(count), close.repeat(count)).as_bytes());
        }
    }
}

#[test]
fn texts_that_are_too_long_are_refused() {
    let long = format!("return '{}'", "x".repeat(1 << 20));
    let error = Program::compile(long.as_bytes()).expect_err("too long");
    assert_eq!(error.message, "a script has at most 1 MiB");
    assert!(Program::compile("x()".repeat(100_000).as_bytes()).is_err());
    let locals: String = (0..300).map(|number| format!("local v{number} = {number}\n")).collect();
    assert_eq!(
        Program::compile(locals.as_bytes()).expect_err("too many").message,
        "too many local variables (limit is 200)"
    );
    let elements = format!("return {{{}}}", "1,".repeat(20_000));
    assert!(Program::compile(elements.as_bytes()).is_ok());
    let arguments = format!("return f({})", vec!["1"; 400].join(","));
    assert!(Program::compile(arguments.as_bytes()).is_err());
}

#[test]
fn any_answer_may_come() {
    let program = Arc::new(
        Program::compile(b"local x = redis.call('x') return {x, redis.pcall('y')}").expect("a program"),
    );
    let start = Start { limits: LIMITS, ..Start::default() };
    let mut deep = Answer::Nil;
    for _ in 0..500 {
        deep = Answer::Array(vec![deep]);
    }
    let mut run = Run::new(program, start);
    run.answered(Answer::Nil);
    assert!(matches!(run.resume(100), Pause::Call(_)));
    assert!(matches!(run.resume(100), Pause::Call(_)));
    run.answered(deep);
    assert!(matches!(run.resume(100), Pause::Failed(_)));
    assert!(matches!(run.resume(100), Pause::Failed(_)));
}
