//! Numbers that are the same each time, and what they do to bytes.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// Numbers at which programs change their minds.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    9,
    63,
    64,
    127,
    128,
    255,
    1 << 16,
    i32::MAX as u64,
    u32::MAX as u64,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below so many.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        (self.next() % sides as u64) as usize
    }

    /// Once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }

    /// A number at the edge of a range, a small one, or any.
    pub(crate) fn number(&mut self) -> u64 {
        match self.roll(4) {
            0 => *self.pick(&EDGES),
            1 => self.next(),
            _ => self.next() % 20,
        }
    }

    pub(crate) fn one_of(&mut self, from: &[&'static str]) -> &'static str {
        from[self.roll(from.len())]
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// Changes, adds and removes some bytes; repeats or moves pieces; cuts.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(4) {
            let length = bytes.len();
            let at = self.roll(length + 1);
            let end = (at + self.roll(9)).min(length);
            match self.roll(9) {
                _ if at == length => bytes.push(self.next() as u8),
                0 => bytes[at] ^= 1 << self.roll(8),
                1 => bytes[at] = self.next() as u8,
                2 => bytes[at] = *self.pick(&[0, 1, 0x7f, 0x80, 0xfe, 0xff]),
                3 => bytes[at] = bytes[at].wrapping_add(*self.pick(&[1, 2, 255, 254])),
                4 => bytes.insert(at, *self.pick(&[0, 1, 0x7f, 0x80, 0xff])),
                5 => drop(bytes.drain(at..end)),
                6 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.roll(length);
                    bytes.splice(to..to, piece);
                }
                7 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.roll(length + 1 - piece.len());
                    bytes[to..to + piece.len()].copy_from_slice(&piece);
                }
                _ if self.once_in(4) => bytes.truncate(at),
                _ => {
                    let number = self.number().to_le_bytes();
                    let size = [2, 4, 8][self.roll(3)].min(length - at);
                    bytes[at..at + size].copy_from_slice(&number[..size]);
                }
            }
        }
    }
}
