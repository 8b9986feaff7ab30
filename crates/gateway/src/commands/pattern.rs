//! `MATCH` patterns: `*` is any bytes, `?` any one, `[ab]`, `[^ab]` and `[a-z]` one of these, `\\` takes the next byte as it is.

/// Whether all of a text is as the pattern says. O(pattern * text).
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // After the last star: the rest of the pattern, and where the text is tried next.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern, text) {
            ([b'*', rest @ ..], _) => {
                pattern = rest;
                star = Some((rest, text));
                continue;
            }
            ([], []) => return true,
            ([_, ..], [byte, after @ ..]) => {
                if let Some(rest) = after_one(pattern, *byte) {
                    (pattern, text) = (rest, after);
                    continue;
                }
            }
            _ => {}
        }
        let Some((rest, [_, after @ ..])) = star else { return false };
        star = Some((rest, after));
        (pattern, text) = (rest, after);
    }
}

/// What follows of the pattern if its first part takes this byte.
fn after_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => {
            let (is_negated, list) = match rest {
                [b'^', list @ ..] => (true, list),
                list => (false, list),
            };
            let (is_in, rest) = class(list, byte);
            (is_in != is_negated).then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Whether the byte is one of a class, and what follows the class. One that does not end goes to the end.
fn class(mut list: &[u8], byte: u8) -> (bool, &[u8]) {
    let mut is_in = false;
    loop {
        list = match list {
            [] => return (is_in, list),
            [b']', rest @ ..] => return (is_in, rest),
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
    use super::matches;

    #[test]
    fn patterns_are_those_of_servers() {
        for (pattern, text, is_one) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("a?c", "abc", true),
            ("[ab]x", "bx", true),
            ("[^ab]x", "bx", false),
            ("[a-c]", "b", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaa", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is_one, "{pattern} {text}");
        }
    }
}
