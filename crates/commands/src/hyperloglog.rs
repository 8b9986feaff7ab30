//! Counts of different elements whose records are in several slots: `PFCOUNT` and `PFMERGE`.
//!
//! Servers keep such a count as a string: 16 bytes of a head (`HYLL`, how the registers are kept, a count that may be old), then 16,384
//! registers of 6 bits, or runs of equal ones. Merged is the larger of each register. The estimate is that of Ertl, *New cardinality
//! estimation algorithms for HyperLogLog sketches* (2017), section 4, as servers have it.

use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, RegisterOp};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::steps::{Answered, Steps, text};
use crate::words::Words;

const REGISTERS: usize = 1 << 14;
const HEAD: usize = 16;
const DENSE_BYTES: usize = HEAD + REGISTERS * 6 / 8;
/// The largest value of a register: zeros of the 50 bits of a hash that choose none, and one.
const VALUE_MAX: usize = 51;
/// What runs can say.
const RUN_VALUE_MAX: u8 = 32;
/// As long as it has no more bytes, a count is kept as runs (`hll-sparse-max-bytes`).
const SPARSE_BYTES_MAX: usize = 3_000;

/// The registers of some counts, merged.
struct Registers(Box<[u8; REGISTERS]>);

impl Registers {
    fn new() -> Self {
        Registers(Box::new([0; REGISTERS]))
    }

    /// Takes another count in.
    fn merge(&mut self, value: &[u8]) -> Result<(), Fault> {
        let no_count = || Fault::told("WRONGTYPE Key is not a valid HyperLogLog string value.");
        let (head, rest) = value.split_at_checked(HEAD).ok_or_else(no_count)?;
        match (&head[..4], head[4]) {
            (b"HYLL", 0) if value.len() == DENSE_BYTES => self.merge_dense(rest),
            (b"HYLL", 1) => return self.merge_runs(rest),
            _ => return Err(no_count()),
        }
        Ok(())
    }

    fn raise(&mut self, at: usize, value: u8) {
        self.0[at] = if is_planted(Bug::CountsUnmerged) { value } else { self.0[at].max(value) };
    }

    fn merge_dense(&mut self, packed: &[u8]) {
        for (group, bytes) in packed.chunks_exact(3).enumerate() {
            let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            for within in 0..4 {
                self.raise(4 * group + within, (bits >> (6 * within)) as u8 & 63);
            }
        }
    }

    fn merge_runs(&mut self, runs: &[u8]) -> Result<(), Fault> {
        let corrupted = || Fault::told("INVALIDOBJ Corrupted HLL object detected");
        let (mut at, mut bytes) = (0, runs.iter());
        while let Some(byte) = bytes.next() {
            let (value, count) = match byte >> 6 {
                0 => (0, usize::from(byte & 63) + 1),
                1 => {
                    let low = bytes.next().ok_or_else(corrupted)?;
                    (0, (usize::from(byte & 63) << 8 | usize::from(*low)) + 1)
                }
                _ => ((byte >> 2 & 31) + 1, usize::from(byte & 3) + 1),
            };
            let run = at..at + count;
            at = run.end;
            if at > REGISTERS {
                return Err(corrupted());
            }
            run.for_each(|at| self.raise(at, value));
        }
        if at == REGISTERS { Ok(()) } else { Err(corrupted()) }
    }

    /// How many different elements were counted, about.
    fn estimate(&self) -> i64 {
        let mut histogram = [0.0; 64];
        self.0.iter().for_each(|value| histogram[usize::from(*value)] += 1.0);
        let m = REGISTERS as f64;
        let mut z = m * tau((m - histogram[VALUE_MAX]) / m);
        for count in histogram[1..VALUE_MAX].iter().rev() {
            z = 0.5 * (z + count);
        }
        z += m * sigma(histogram[0] / m);
        (0.5 / std::f64::consts::LN_2 * m * m / z).round() as i64
    }

    /// As a server keeps it; the count in its head is marked as old.
    fn value(&self) -> Bytes {
        let mut value = b"HYLL".to_vec();
        let runs = self.runs();
        value.push(u8::from(runs.is_some()));
        value.extend([0; 3 + 7]);
        value.push(0x80);
        match runs {
            Some(runs) => value.extend(runs),
            None => value.extend(self.0.chunks_exact(4).flat_map(|four| {
                let bits = four.iter().rev().fold(0, |bits, value| bits << 6 | u32::from(*value));
                let [a, b, c, _] = bits.to_le_bytes();
                [a, b, c]
            })),
        }
        Bytes::from(value)
    }

    /// As runs of equal registers, where these say it and are short.
    fn runs(&self) -> Option<Vec<u8>> {
        let mut runs = Vec::new();
        for run in self.0.chunk_by(|one, next| one == next) {
            let (value, mut left) = (run[0], run.len());
            while left > 0 && value == 0 {
                let count = left.min(REGISTERS);
                let less = count - 1;
                match count {
                    0..=64 => runs.push(less as u8),
                    _ => runs.extend([0x40 | (less >> 8) as u8, less as u8]),
                }
                left -= count;
            }
            while left > 0 {
                let count = left.min(4);
                runs.push(
                    0x80 | (value.checked_sub(1).filter(|less| *less < RUN_VALUE_MAX)?) << 2
                        | (count - 1) as u8,
                );
                left -= count;
            }
            if HEAD + runs.len() > SPARSE_BYTES_MAX {
                return None;
            }
        }
        Some(runs)
    }
}

/// The sum of x^(2^k) 2^(k-1) over k from 1 on, and x.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// A third of 1 - x less the sum of (1 - x^(2^-k))^2 2^-k over k from 1 on.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The counts of these keys, merged.
async fn merged(steps: Steps<'_>, keys: &[Bytes], written: Option<&Bytes>) -> Result<Registers, Fault> {
    let mut registers = Registers::new();
    // Tried: of several that are wrong the first is told.
    for reply in steps.read_each(keys, &text(RegisterOp::Get).tried(), written).await? {
        if let Some(value) = steps.taken::<Option<Bytes>>(reply).await? {
            registers.merge(&value)?;
        }
    }
    Ok(registers)
}

/// `PFCOUNT`.
pub(crate) async fn pfcount(steps: Steps<'_>, words: Words<'_>) -> Answered {
    Ok(Answer::Int(merged(steps, words.rest, None).await?.estimate()))
}

/// `PFMERGE`: the target is one of what is merged, and keeps its end.
pub(crate) async fn pfmerge(steps: Steps<'_>, words: Words<'_>) -> Answered {
    let ([target], _) = words.split()?;
    let expires_at = steps.expiry(target).await?;
    let registers = merged(steps, words.rest, Some(target)).await?;
    steps.set_text(target, registers.value(), expires_at)?;
    Ok(Answer::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = (usize, u8)>) -> Registers {
        let mut registers = Registers::new();
        values.into_iter().for_each(|(at, value)| registers.raise(at, value));
        registers
    }

    fn read(value: &[u8]) -> Result<Registers, String> {
        let mut registers = Registers::new();
        registers.merge(value).map_err(|fault| fault.text())?;
        Ok(registers)
    }

    #[test]
    fn what_is_written_is_read_again_as_runs_or_packed() {
        let few = of([(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (100, 32), (16_383, 7)]);
        let many = of((0..REGISTERS).map(|at| (at, (at % 52) as u8)));
        let high = of([(5, 33)]);
        for (registers, encoding) in [(&few, 1), (&many, 0), (&high, 0), (&Registers::new(), 1)] {
            let value = registers.value();
            assert_eq!(value[4], encoding);
            assert!(encoding == 1 || value.len() == DENSE_BYTES);
            assert_eq!(read(&value).unwrap().0, registers.0);
        }
        assert_eq!((Registers::new().estimate(), few.estimate()), (0, 7));
    }

    #[test]
    fn what_is_no_count_is_refused() {
        let no_count = "WRONGTYPE Key is not a valid HyperLogLog string value.";
        let empty = Registers::new().value();
        let mut short = empty.to_vec();
        short.pop();
        let mut long = empty.to_vec();
        long.push(0);
        let mut of_other = empty.to_vec();
        of_other[4] = 2;
        let dense = [&b"HYLL\0"[..], &[0; 20]].concat();
        for value in [&b""[..], b"HYLL", b"a string that is long", &of_other, &dense] {
            assert_eq!(read(value).err().as_deref(), Some(no_count));
        }
        for value in [&short, &long] {
            assert_eq!(read(value).err().as_deref(), Some("INVALIDOBJ Corrupted HLL object detected"));
        }
    }
}
