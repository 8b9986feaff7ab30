//! `math`. Random numbers are those of Redis: the same behind the same seed, which is the script's own or another one for every run.

use crate::fault::Raise;
use crate::machine::{Machine, Replied};
use crate::value::Value;

use super::Arguments;

/// A function of `math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mathematics {
    One(One),
    Two(Two),
    Frexp,
    Max,
    Min,
    Modf,
    Random,
    RandomSeed,
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum One {
    Abs,
    Acos,
    Asin,
    Atan,
    Ceil,
    Cos,
    Cosh,
    Deg,
    Exp,
    Floor,
    Log,
    Log10,
    Rad,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Two {
    Atan2,
    Fmod,
    Ldexp,
    Pow,
}

pub(super) const FUNCTIONS: &[(&str, Mathematics)] = &[
    ("abs", Mathematics::One(One::Abs)),
    ("acos", Mathematics::One(One::Acos)),
    ("asin", Mathematics::One(One::Asin)),
    ("atan", Mathematics::One(One::Atan)),
    ("atan2", Mathematics::Two(Two::Atan2)),
    ("ceil", Mathematics::One(One::Ceil)),
    ("cos", Mathematics::One(One::Cos)),
    ("cosh", Mathematics::One(One::Cosh)),
    ("deg", Mathematics::One(One::Deg)),
    ("exp", Mathematics::One(One::Exp)),
    ("floor", Mathematics::One(One::Floor)),
    ("fmod", Mathematics::Two(Two::Fmod)),
    ("mod", Mathematics::Two(Two::Fmod)),
    ("frexp", Mathematics::Frexp),
    ("ldexp", Mathematics::Two(Two::Ldexp)),
    ("log", Mathematics::One(One::Log)),
    ("log10", Mathematics::One(One::Log10)),
    ("max", Mathematics::Max),
    ("min", Mathematics::Min),
    ("modf", Mathematics::Modf),
    ("pow", Mathematics::Two(Two::Pow)),
    ("rad", Mathematics::One(One::Rad)),
    ("random", Mathematics::Random),
    ("randomseed", Mathematics::RandomSeed),
    ("sin", Mathematics::One(One::Sin)),
    ("sinh", Mathematics::One(One::Sinh)),
    ("sqrt", Mathematics::One(One::Sqrt)),
    ("tan", Mathematics::One(One::Tan)),
    ("tanh", Mathematics::One(One::Tanh)),
];

pub(super) fn reply(
    machine: &mut Machine,
    function: Mathematics,
    given: Arguments,
) -> Result<Replied, Raise> {
    match function {
        Mathematics::One(function) => {
            let number = machine.number_given(given, 1)?;
            machine.one_result(Value::Number(one(function, number)))
        }
        Mathematics::Two(function) => {
            let (left, right) = (machine.number_given(given, 1)?, machine.number_given(given, 2)?);
            machine.one_result(Value::Number(two(function, left, right)))
        }
        Mathematics::Frexp => {
            let (fraction, exponent) = frexp(machine.number_given(given, 1)?);
            machine.results.extend([Value::Number(fraction), Value::Number(exponent)]);
            Ok(Replied::Now)
        }
        Mathematics::Max | Mathematics::Min => {
            let mut found = machine.number_given(given, 1)?;
            for index in 2..=given.count {
                let number = machine.number_given(given, index)?;
                let is_better = if function == Mathematics::Max { number > found } else { number < found };
                if is_better {
                    found = number;
                }
            }
            machine.one_result(Value::Number(found))
        }
        Mathematics::Modf => {
            let number = machine.number_given(given, 1)?;
            let whole = number.trunc();
            let fraction = if number.is_infinite() { 0.0 } else { number - whole };
            machine.results.extend([Value::Number(whole), Value::Number(fraction)]);
            Ok(Replied::Now)
        }
        Mathematics::Random => random(machine, given),
        Mathematics::RandomSeed => {
            let seed = machine.integer_given(given, 1)?;
            machine.redis.seed(seed as u32);
            Ok(Replied::Now)
        }
    }
}

fn one(function: One, number: f64) -> f64 {
    match function {
        One::Abs => number.abs(),
        One::Acos => number.acos(),
        One::Asin => number.asin(),
        One::Atan => number.atan(),
        One::Ceil => number.ceil(),
        One::Cos => number.cos(),
        One::Cosh => number.cosh(),
        One::Deg => number / (std::f64::consts::PI / 180.0),
        One::Exp => number.exp(),
        One::Floor => number.floor(),
        One::Log => number.ln(),
        One::Log10 => number.log10(),
        One::Rad => number * (std::f64::consts::PI / 180.0),
        One::Sin => number.sin(),
        One::Sinh => number.sinh(),
        One::Sqrt => number.sqrt(),
        One::Tan => number.tan(),
        One::Tanh => number.tanh(),
    }
}

fn two(function: Two, left: f64, right: f64) -> f64 {
    match function {
        Two::Atan2 => left.atan2(right),
        Two::Fmod => left % right,
        // Twice, so that the power itself does not leave the numbers.
        Two::Ldexp => {
            let exponent = right.clamp(-4000.0, 4000.0) as i32;
            let half = exponent / 2;
            left * 2f64.powi(half) * 2f64.powi(exponent - half)
        }
        Two::Pow => left.powf(right),
    }
}

fn frexp(number: f64) -> (f64, f64) {
    if number == 0.0 || !number.is_finite() {
        return (number, 0.0);
    }
    // Numbers too small for a full fraction are scaled up first.
    let scaled = if number.abs() < f64::MIN_POSITIVE { number * 2f64.powi(64) } else { number };
    let bits = scaled.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    let fraction = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    (fraction, f64::from(exponent - if scaled == number { 0 } else { 64 }))
}

/// The next number of the generator: 31 bits of a state of 48.
fn next_random(machine: &mut Machine) -> f64 {
    let state = machine.redis.random.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
    machine.redis.random = state;
    let top = state >> 17;
    (top % 0x7fff_ffff) as f64 / f64::from(0x7fff_ffff)
}

fn random(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let number = next_random(machine);
    let answer = match given.count {
        0 => number,
        1 => {
            let upper = machine.integer_given(given, 1)?;
            if upper < 1 {
                return Err(Raise::argument(1, "interval is empty"));
            }
            (number * upper as f64).floor() + 1.0
        }
        2 => {
            let (lower, upper) = (machine.integer_given(given, 1)?, machine.integer_given(given, 2)?);
            if lower > upper {
                return Err(Raise::argument(2, "interval is empty"));
            }
            (number * (upper as f64 - lower as f64 + 1.0)).floor() + lower as f64
        }
        _ => return Err(Raise::called("wrong number of arguments")),
    };
    machine.one_result(Value::Number(answer))
}
