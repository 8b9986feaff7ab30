//! Damaged replies of servers, for tests of everything that reads them. The seeds are fixed.

use crate::bounds::ReplyLimits;

/// Numbers that look random, and are the same each time.
pub struct Dice(u64);

impl Dice {
    /// Those of this seed, which is not zero.
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number below this one.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    /// One of these.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

/// Small ones, that are soon exceeded.
pub const LIMITS: ReplyLimits = ReplyLimits {
    reply_bytes_max: 4_096,
    reply_elements_max: 256,
    reply_depth_max: 8,
    line_bytes_max: 512,
    login_bytes_max: 512,
    login_elements_max: 64,
    topology_bytes_max: 4_096,
    topology_elements_max: 256,
    topology_nodes_max: 16,
    pushes_max: 4,
};

/// What servers say.
pub fn samples() -> Vec<Vec<u8>> {
    let of = |text: &str| text.as_bytes().to_vec();
    vec![
        of("%2\r\n+server\r\n+redis\r\n+modules\r\n*1\r\n%1\r\n+name\r\n$6\r\nclaret\r\n"),
        of(
            "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$1\r\nh\r\n:7000\r\n$40\r\n0000000000000000000000000000000000000000\r\n*3\r\n:8192\r\n:16383\r\n*3\r\n$1\r\ni\r\n:7001\r\n$40\r\n0000000000000000000000000000000000000000\r\n",
        ),
        of(
            "*14\r\n+server\r\n+7.0\r\n+wire\r\n:3\r\n+shard\r\n:1\r\n+lease_us\r\n:10000000\r\n+a\r\n:1\r\n+b\r\n:2\r\n+c\r\n:3\r\n",
        ),
        of(">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nxy\r\n+OK\r\n-MOVED 5 h:1\r\n"),
        of(
            "~2\r\n#t\r\n,1.5\r\n(123456789012345678901234567890\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n_\r\n|1\r\n+k\r\n+v\r\n:7\r\n",
        ),
    ]
}

/// Bytes, cut out, doubled, overwritten and put together anew.
pub fn damaged(dice: &mut Dice, samples: &[Vec<u8>]) -> Vec<u8> {
    const SIGNS: &[u8] = b"*$+-:_#,(%~>|=!;.\r\n0123456789?Hx";
    let mut bytes = dice.one_of(samples).clone();
    for _ in 0..1 + dice.roll(6) {
        let at = dice.roll(bytes.len().max(1));
        match dice.roll(6) {
            0 if at < bytes.len() => bytes[at] = dice.roll(256) as u8,
            1 if at < bytes.len() => bytes[at] = *dice.one_of(SIGNS),
            2 => bytes.truncate(at),
            3 => {
                let other = dice.one_of(samples).clone();
                bytes.splice(at.min(bytes.len()).., other);
            }
            4 => bytes.insert(at.min(bytes.len()), *dice.one_of(SIGNS)),
            _ => {
                let piece = bytes[at.min(bytes.len())..].to_vec();
                (0..dice.roll(8)).for_each(|_| bytes.extend_from_slice(&piece[..piece.len().min(300)]));
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
