//! The standard's random values (clauses 2.1.6, 4.3.2 and 4.3.3): skewed numbers, last names, strings.

use claret_types::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// Syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The constants C of `NURand` (clause 2.1.6.1), the same for all clients of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    /// C-Run of last names.
    pub(super) name: u32,
    pub(super) customer: u32,
    pub(super) item: u32,
}

impl Constants {
    /// Those of loading and those of the run, made from a seed. They differ for last names as clause 2.1.6.1 asks: by 65 to
    /// 119, but not by 96 or 112.
    pub(super) fn new(seed: u64) -> (Self, Self) {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0x7c0c);
        let load = Constants {
            name: rng.random_range(0..=255),
            customer: rng.random_range(0..=1023),
            item: rng.random_range(0..=8191),
        };
        loop {
            let name = rng.random_range(0..=255u32);
            let delta = name.abs_diff(load.name);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                return (load, Constants { name, ..load });
            }
        }
    }
}

/// `NURand(a, low, high)` with the constant `c` (clause 2.1.6): some numbers come far more often than others.
pub(super) fn skewed(rng: &mut impl Rng, a: u32, c: u32, low: u32, high: u32) -> u32 {
    let drawn = u64::from(rng.random_range(0..=a) | rng.random_range(low..=high));
    let span = u64::from(high - low) + 1;
    ((drawn + u64::from(c)) % span) as u32 + low
}

/// The constant A of `NURand` for `size` numbers where the standard has it for `full` of them: the power of two, less one, that is
/// nearest to the same share of them. A smaller table is as skewed then as the standard's.
pub(super) fn scaled(a: u32, full: u32, size: u32) -> u32 {
    if size >= full {
        return a;
    }
    let share = f64::from(a + 1) * f64::from(size) / f64::from(full);
    (1 << share.max(1.0).log2().round() as u32) - 1
}

/// The last name with a number from 0 to 999.
pub(super) fn last_name(number: u32) -> Bytes {
    let mut name = Bytes::default();
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        name.extend(SYLLABLES[digit as usize].as_bytes());
    }
    name
}

/// Letters and digits, of a length within these bounds.
pub(super) fn text(rng: &mut impl Rng, low: usize, high: usize) -> Bytes {
    let length = rng.random_range(low..=high);
    let letters: Vec<u8> = (0..length).map(|_| LETTERS[rng.random_range(0..LETTERS.len())]).collect();
    Bytes::copy_from(&letters)
}

/// The same, with `ORIGINAL` somewhere in one of ten (clause 4.3.3.1).
pub(super) fn data(rng: &mut impl Rng) -> Bytes {
    let drawn = text(rng, 26, 50);
    if !rng.random_bool(0.1) {
        return drawn;
    }
    let mut marked = drawn.to_vec();
    let at = rng.random_range(0..=marked.len() - 8);
    marked[at..at + 8].copy_from_slice(b"ORIGINAL");
    Bytes::copy_from(&marked)
}

/// Digits, so many.
pub(super) fn digits(rng: &mut impl Rng, length: usize) -> Bytes {
    let drawn: Vec<u8> = (0..length).map(|_| b'0' + rng.random_range(0..10u8)).collect();
    Bytes::copy_from(&drawn)
}

/// The choices that make one record, the same each time it is made.
pub(super) fn of_record(seed: u64, table: u64, place: [u32; 3]) -> SmallRng {
    let mut mixed = seed ^ table.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for part in place {
        mixed = (mixed ^ u64::from(part)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 29;
    }
    SmallRng::seed_from_u64(mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_standards_own() {
        assert_eq!(last_name(371), Bytes::from("PRICALLYOUGHT"));
        assert_eq!(last_name(40), Bytes::from("BARPRESBAR"));
    }

    #[test]
    fn the_constants_differ_as_the_standard_asks() {
        for seed in 0..1_000 {
            let (load, run) = Constants::new(seed);
            let delta = load.name.abs_diff(run.name);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "seed {seed}: {delta}");
            assert_eq!((load.customer, load.item), (run.customer, run.item));
        }
    }

    #[test]
    fn a_small_table_is_as_skewed_as_a_large_one() {
        assert_eq!(
            [100_000, 50_000, 5_000, 10, 1].map(|size| scaled(8191, 100_000, size)),
            [8191, 4095, 511, 0, 0]
        );
        let share_of_half = |a: u32, size: u32| {
            let mut rng = SmallRng::seed_from_u64(3);
            let mut counts = vec![0u32; size as usize + 1];
            (0..400_000).for_each(|_| counts[skewed(&mut rng, a, 0, 1, size) as usize] += 1);
            counts.sort_unstable();
            let most: u32 = counts.iter().rev().take(size as usize / 2).sum();
            f64::from(most) / 400_000.0
        };
        let (large, small) = (share_of_half(1023, 12_500), share_of_half(127, 1_563));
        assert!((large - small).abs() < 0.1, "{large} and {small}");
    }

    #[test]
    fn skewed_numbers_stay_in_bounds_and_are_skewed() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut counts = vec![0u32; 101];
        for _ in 0..100_000 {
            counts[skewed(&mut rng, 1023, 7, 1, 100) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        let (least, most) = (counts[1..].iter().min().unwrap(), counts[1..].iter().max().unwrap());
        assert!(most > &(2 * least), "{least} to {most}");
    }
}
