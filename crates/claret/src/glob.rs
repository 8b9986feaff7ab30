//! Patterns as Redis has them: `*` is any bytes, `?` any one, `[ab]`, `[^ab]` and `[a-z]` one of these, `\\` takes the next
//! byte as it is.

use smallvec::SmallVec;

/// Whether all of a text is as the pattern says, which is one as [`Store::keys`](crate::Store::keys) takes it. Whoever compares many
/// texts reads the pattern once: [`Pattern`].
///
/// ```
/// assert!(claret::keys::matches_pattern(b"cart:*", b"cart:7"));
/// assert!(!claret::keys::matches_pattern(b"cart:[ab]", b"cart:c"));
/// ```
pub fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    Pattern::new(pattern).matches(text)
}

/// A pattern that is read once and compared with many texts: `*` is any bytes, `?` any one, `[ab]`, `[^ab]` and `[a-z]` one of these,
/// `\\` takes the next byte as it is.
///
/// ```
/// let carts = claret::keys::Pattern::new(b"cart:[0-9]*");
/// assert!(carts.matches(b"cart:7"));
/// assert!(!carts.matches(b"cart:"));
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    /// What is no `*`: each takes one byte.
    parts: usize,
    /// Words of 64 bits that have a bit for each part, and one for the end.
    words: usize,
    /// For each byte, the parts that take it.
    takes: Vec<u64>,
    /// The parts before which a `*` stands; the end is one of them.
    stars: Vec<u64>,
}

impl Pattern {
    /// Reads it. Takes up to 32 bytes for each of its own.
    pub fn new(pattern: &[u8]) -> Self {
        let (mut parts, mut stars, mut rest) = (Vec::new(), Vec::new(), pattern);
        while let [first, after @ ..] = rest {
            rest = if *first == b'*' {
                stars.push(parts.len());
                after
            } else {
                let (part, after) = Part::of(rest);
                parts.push(part);
                after
            };
        }
        let words = parts.len() / 64 + 1;
        let mut read =
            Pattern { parts: parts.len(), words, takes: vec![0; 256 * words], stars: vec![0; words] };
        for star in stars {
            read.stars[star / 64] |= 1 << (star % 64);
        }
        for (at, part) in parts.iter().enumerate() {
            for byte in (0..=u8::MAX).filter(|byte| part.takes(*byte)) {
                read.takes[usize::from(byte) * words + at / 64] |= 1 << (at % 64);
            }
        }
        read
    }

    /// Whether all of a text is as it says. Each byte costs a step for 64 parts of the pattern, whatever the two are.
    pub fn matches(&self, text: &[u8]) -> bool {
        // A bit for each number of parts that can have taken what was read so far. A star lets them stay.
        let mut reached: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.words);
        reached[0] = 1;
        for byte in text {
            let takes = &self.takes[usize::from(*byte) * self.words..][..self.words];
            let (mut carried, mut any) = (0, 0);
            for ((reached, takes), stars) in reached.iter_mut().zip(takes).zip(&self.stars) {
                let taken = *reached & takes;
                *reached = taken << 1 | carried | *reached & stars;
                (carried, any) = (taken >> 63, any | *reached);
            }
            if any == 0 {
                return false;
            }
        }
        reached[self.parts / 64] >> (self.parts % 64) & 1 == 1
    }
}

/// What takes one byte.
enum Part {
    Any,
    One(u8),
    /// Bits of those that it takes.
    Class([u64; 4]),
}

impl Part {
    /// The first of a pattern that does not begin with a star, and what follows.
    fn of(pattern: &[u8]) -> (Self, &[u8]) {
        match pattern {
            [b'?', rest @ ..] => (Part::Any, rest),
            [b'[', b'^', rest @ ..] => {
                let (bits, rest) = class(rest);
                (Part::Class(bits.map(|bits| !bits)), rest)
            }
            [b'[', rest @ ..] => {
                let (bits, rest) = class(rest);
                (Part::Class(bits), rest)
            }
            [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (Part::One(*literal), rest),
            [] => (Part::Class([0; 4]), pattern),
        }
    }

    fn takes(&self, byte: u8) -> bool {
        match self {
            Part::Any => true,
            Part::One(literal) => *literal == byte,
            Part::Class(bits) => bits[usize::from(byte / 64)] >> (byte % 64) & 1 == 1,
        }
    }
}

/// The bytes of a class, which begins here, as bits, and what follows the class. One that does not end goes to the end.
fn class(mut list: &[u8]) -> ([u64; 4], &[u8]) {
    let mut bits = [0; 4];
    let mut take = |byte: u8| bits[usize::from(byte / 64)] |= 1 << (byte % 64);
    loop {
        list = match list {
            [] => return (bits, list),
            [b']', rest @ ..] => return (bits, rest),
            [b'\\', literal, rest @ ..] => {
                take(*literal);
                rest
            }
            [first, b'-', last, rest @ ..] => {
                (*first.min(last)..=*first.max(last)).for_each(&mut take);
                rest
            }
            [literal, rest @ ..] => {
                take(*literal);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, matches_pattern};

    #[test]
    fn patterns_are_those_of_redis() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("", &[""], &["a"]),
            ("*", &["", "a", "cart:7"], &[]),
            ("cart:*", &["cart:", "cart:7"], &["car", "xcart:7"]),
            ("*:7", &["cart:7", ":7", "7:7:7"], &["cart:77", "7"]),
            ("a*b*c", &["abc", "axbxc", "abcbc"], &["ab", "acb"]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo"]),
            ("h[^e]llo", &["hallo"], &["hello"]),
            ("h[a-c]llo", &["hbllo"], &["hdllo"]),
            ("h[c-a]llo", &["hbllo"], &["hdllo"]),
            ("[]a", &[], &["]a", "a"]),
            ("[\\]]", &["]"], &["\\"]),
            ("\\*", &["*"], &["a", ""]),
            ("a[b", &["ab"], &["a", "a[b"]),
        ];
        for (pattern, yes, no) in cases {
            for text in *yes {
                assert!(matches_pattern(pattern.as_bytes(), text.as_bytes()), "'{pattern}' takes '{text}'");
            }
            for text in *no {
                assert!(
                    !matches_pattern(pattern.as_bytes(), text.as_bytes()),
                    "'{pattern}' does not take '{text}'"
                );
            }
        }
    }

    /// Many stars do not make it try all ways to place them.
    #[test]
    fn many_stars_are_no_harm() {
        let pattern = "a*".repeat(500) + "b";
        assert!(!matches_pattern(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
    /// Bug: a class was read anew for each byte of each name: a mebibyte of it held a thread for seconds. Mend: it is read once.
    #[test]
    fn a_long_class_is_read_once_and_not_for_each_byte() {
        let pattern = Pattern::new(&[&b"*["[..], &vec![b'~'; 1 << 20], b"]x"].concat());
        assert_eq!((pattern.parts, pattern.words), (2, 1), "one step for each byte of a name");
        assert!(pattern.matches(b"a~x") && !pattern.matches(b"~~"));
    }

    /// Of many parts in many words, and against what the signs mean, tried one way after the other.
    #[test]
    fn what_is_read_once_takes_what_the_signs_mean() {
        fn slow(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern, text) {
                ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| slow(rest, &text[skipped..])),
                ([b'?', rest @ ..], [_, after @ ..]) => slow(rest, after),
                ([b'a' | b'b', ..], [byte, after @ ..]) => pattern[0] == *byte && slow(&pattern[1..], after),
                _ => pattern.is_empty() && text.is_empty(),
            }
        }
        let all = |signs: &'static [u8], length: u32| {
            let count = signs.len();
            (0..count.pow(length))
                .map(move |no| (0..length).map(|at| signs[no / count.pow(at) % count]).collect::<Vec<u8>>())
        };
        for pattern in (0..6).flat_map(|length| all(b"*?ab", length)) {
            let read = Pattern::new(&pattern);
            for text in (0..6).flat_map(|length| all(b"ab", length)) {
                let is_so = slow(&pattern, &text);
                assert_eq!(read.matches(&text), is_so, "{} {}", pattern.escape_ascii(), text.escape_ascii());
            }
        }
        for length in [62, 63, 64, 65, 127, 128, 129, 500] {
            let text = vec![b'a'; length];
            let classes = "[a-c]".repeat(length);
            assert!(matches_pattern(classes.as_bytes(), &text), "{length}");
            assert!(!matches_pattern(classes.as_bytes(), &text[1..]), "{length}");
            assert!(matches_pattern(format!("*{}*", "?".repeat(length)).as_bytes(), &text), "{length}");
            assert!(!matches_pattern(format!("*{}*", "?".repeat(length + 1)).as_bytes(), &text), "{length}");
        }
    }
}
