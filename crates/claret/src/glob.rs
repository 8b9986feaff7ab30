//! Patterns as Redis has them: `*` is any bytes, `?` any one, `[ab]`, `[^ab]` and `[a-z]` one of these, `\\` takes the next
//! byte as it is.

/// Whether all of a text is as the pattern says, which is one as [`Store::keys`](crate::Store::keys) takes it: `*` is any bytes, `?` any
/// one, `[ab]`, `[^ab]` and `[a-z]` one of these, `\\` takes the next byte as it is. O(pattern * text).
///
/// ```
/// assert!(claret::matches_pattern(b"cart:*", b"cart:7"));
/// assert!(!claret::matches_pattern(b"cart:[ab]", b"cart:c"));
/// ```
pub fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // After the last star: the rest of the pattern, and where the text is tried next. To stretch an earlier star would find
    // nothing that stretching the last one does not.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match pattern {
            [b'*', rest @ ..] => {
                pattern = rest;
                star = Some((rest, text));
                continue;
            }
            [] if text.is_empty() => return true,
            [] => {}
            _ => {
                if let [byte, after @ ..] = text
                    && let Some(rest) = one(pattern, *byte)
                {
                    (pattern, text) = (rest, after);
                    continue;
                }
            }
        }
        let Some((rest, [_, after @ ..])) = star else { return false };
        star = Some((rest, after));
        (pattern, text) = (rest, after);
    }
}

/// What follows of the pattern if its first part takes this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', b'^', rest @ ..] => class(rest, byte).and_then(|(is_in, rest)| (!is_in).then_some(rest)),
        [b'[', rest @ ..] => class(rest, byte).and_then(|(is_in, rest)| is_in.then_some(rest)),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Whether the byte is one of a class, which begins here, and what follows the class. One that does not end goes to the end.
fn class(mut list: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let mut is_in = false;
    loop {
        list = match list {
            [] => return Some((is_in, list)),
            [b']', rest @ ..] => return Some((is_in, rest)),
            [b'\\', literal, rest @ ..] => {
                is_in |= *literal == byte;
                rest
            }
            [first, b'-', last, rest @ ..] => {
                is_in |= (*first.min(last)..=*first.max(last)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                is_in |= *literal == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

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
}
