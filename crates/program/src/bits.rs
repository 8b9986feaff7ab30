//! `bit`: operations on the low 32 bits of numbers, as Redis has them.
//!
//! A number is taken as its nearest integer (halves go to the even one) modulo 2^32. Beyond 2^51 the low bits are what rounding leaves.

/// Adding it moves the integer part of a number to the low bits of its mantissa.
const SHIFTER: f64 = 6_755_399_441_055_744.0;

/// The number as signed 32 bits: `bit.tobit`.
pub(crate) fn tobit(number: f64) -> i32 {
    bits(number).cast_signed()
}

fn bits(number: f64) -> u32 {
    ((number + SHIFTER).to_bits() & u64::from(u32::MAX)) as u32
}

/// `bit.tohex`: the last `digits` digits, at most 8; in upper case if `digits` is negative.
pub(crate) fn tohex(number: f64, digits: f64) -> String {
    let digits = tobit(digits);
    let count = digits.unsigned_abs().min(8) as usize;
    let all = if digits < 0 { format!("{:08X}", bits(number)) } else { format!("{:08x}", bits(number)) };
    all.get(8usize.saturating_sub(count)..).unwrap_or_default().to_owned()
}

/// `bit.bnot`.
pub(crate) fn bnot(number: f64) -> i32 {
    !tobit(number)
}

/// `bit.band` of all; all bits are set if there is none.
pub(crate) fn band(numbers: &[f64]) -> i32 {
    numbers.iter().fold(-1, |left, right| left & tobit(*right))
}

/// `bit.bor` of all.
pub(crate) fn bor(numbers: &[f64]) -> i32 {
    numbers.iter().fold(0, |left, right| left | tobit(*right))
}

/// `bit.bxor` of all.
pub(crate) fn bxor(numbers: &[f64]) -> i32 {
    numbers.iter().fold(0, |left, right| left ^ tobit(*right))
}

/// `bit.lshift`. Of `by`, the low 5 bits count, as in all that follow.
pub(crate) fn lshift(number: f64, by: f64) -> i32 {
    tobit(number).wrapping_shl(bits(by))
}

/// `bit.rshift`: zeros come in.
pub(crate) fn rshift(number: f64, by: f64) -> i32 {
    bits(number).wrapping_shr(bits(by)).cast_signed()
}

/// `bit.arshift`: the sign comes in.
pub(crate) fn arshift(number: f64, by: f64) -> i32 {
    tobit(number).wrapping_shr(bits(by))
}

/// `bit.rol`.
pub(crate) fn rol(number: f64, by: f64) -> i32 {
    tobit(number).rotate_left(bits(by) & 31)
}

/// `bit.ror`.
pub(crate) fn ror(number: f64, by: f64) -> i32 {
    tobit(number).rotate_right(bits(by) & 31)
}

/// `bit.bswap`.
pub(crate) fn bswap(number: f64) -> i32 {
    tobit(number).swap_bytes()
}

#[cfg(test)]
mod tests;
