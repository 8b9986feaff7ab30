//! Patterns, as redis-server 7.0.15 matched them, and what hostile ones cost.

use super::*;

const MUCH: u64 = 1_000_000;

/// A text, a pattern, where the search begins, and what the server's `string.find` answered: the span, from 0, and captures: a text in
/// angle brackets, or a place.
type Found = (&'static [u8], &'static [u8], usize, &'static [u8]);

const FOUND: &[Found] = &[
    (b"hello", b"l+", 0, b"2-4"),
    (b"hello", b"l-", 0, b"0-0"),
    (b"hello", b"l*", 0, b"0-0"),
    (b"hello", b"^l", 0, b"none"),
    (b"hello", b"^h", 0, b"0-1"),
    (b"hello", b"o$", 0, b"4-5"),
    (b"hello", b"h$", 0, b"none"),
    (b"hello", b"$", 0, b"5-5"),
    (b"", b"^$", 0, b"0-0"),
    (b"", b".*", 0, b"0-0"),
    (b"abc", b"a$c", 0, b"none"),
    (b"a$c", b"a$c", 0, b"0-3"),
    (b"a^b", b"a^b", 0, b"0-3"),
    (b"a$", b"$$", 0, b"1-2"),
    (b"key:123:field", b"^(%w+):(%d+):(.*)$", 0, b"0-13 <key> <123> <field>"),
    (b"bull:queue:wait", b"^bull:([^:]+):(%a+)$", 0, b"0-15 <queue> <wait>"),
    (b"  trim me  ", b"^%s*(.-)%s*$", 0, b"0-11 <trim me>"),
    (b"2024-01-31", b"(%d+)-(%d+)-(%d+)", 0, b"0-10 <2024> <01> <31>"),
    (b"2024-01-31", b"(%d%d%d%d)%-(%d%d)", 0, b"0-7 <2024> <01>"),
    (b"abcabc", b"(abc)%1", 0, b"0-6 <abc>"),
    (b"abcabd", b"(abc)%1", 0, b"none"),
    (b"abab", b"(a)(b)%1%2", 0, b"0-4 <a> <b>"),
    (b"\"quoted\" 'x'", b"([\"'])(.-)%1", 0, b"0-8 <\"> <quoted>"),
    (b"f(a(b)c)d", b"%b()", 0, b"1-8"),
    (b"f(a(b)c", b"%b()", 0, b"3-6"),
    (b"((()))", b"%b()", 0, b"0-6"),
    (b"[[x]]", b"%b[]", 0, b"0-5"),
    (b"aXbXa", b"%baa", 0, b"0-5"),
    (b"THE (quick) fox", b"%f[%a]%a+", 0, b"0-3"),
    (b"THE (quick) fox", b"%f[%l]%a+", 0, b"5-10"),
    (b"foo.bar", b"%f[%w]%w+$", 0, b"4-7"),
    (b"x", b"%f[%z]", 0, b"1-1"),
    (b"abc", b"()b()", 0, b"1-2 @2 @3"),
    (b"abc", b"()", 0, b"0-0 @1"),
    (b"abc", b"(a()b)c", 0, b"0-3 <ab> @2"),
    (b"abc", b"((a)(b))", 0, b"0-2 <ab> <a> <b>"),
    (b"abc", b".-c", 0, b"0-3"),
    (b"aaab", b"a-b", 0, b"0-4"),
    (b"aaab", b"a*ab", 0, b"0-4"),
    (b"aaab", b"a?a?a?a?b", 0, b"0-4"),
    (b"aab", b"^a?a?a?$", 0, b"none"),
    (b"abc123", b"%a+%d+", 0, b"0-6"),
    (b"abc123", b"%A+", 0, b"3-6"),
    (b"tab", b"%t", 0, b"0-1"),
    (b"a.b", b"%.", 0, b"1-2"),
    (b"a%b", b"%%", 0, b"1-2"),
    (b"a]b", b"[]]", 0, b"1-2"),
    (b"a-b", b"[a-]+", 0, b"0-2"),
    (b"a-b", b"[-a]+", 0, b"0-2"),
    (b"a^b", b"[\\^]", 0, b"1-2"),
    (b"a^b", b"[%^]+", 0, b"1-2"),
    (b"a^b", b"[b^]+", 0, b"1-3"),
    (b"xyz", b"[^xy]", 0, b"2-3"),
    (b"x]z", b"[^]]+", 0, b"0-1"),
    (b"ABCdef", b"%u+", 0, b"0-3"),
    (b"ABCdef", b"%l+", 0, b"3-6"),
    (b"ABCdef", b"%L+", 0, b"0-3"),
    (b"0xFFg", b"%x+", 0, b"0-1"),
    (b"!?,", b"%p+", 0, b"0-3"),
    (b"a b", b"%S+", 0, b"0-1"),
    (b"a_b", b"[%w_]+", 0, b"0-3"),
    (b"a_b", b"[%W]", 0, b"1-2"),
    (b"5", b"[0-9]", 0, b"0-1"),
    (b"m", b"[a-z]", 0, b"0-1"),
    (b"M", b"[a-z]", 0, b"none"),
    (b"z", b"[a-%z]", 0, b"0-1"),
    (b"-", b"[a-%z]", 0, b"none"),
    (b"%", b"[a-%z]", 0, b"none"),
    (b"b", b"[%a-z]", 0, b"0-1"),
    (b"-", b"[%a-z]", 0, b"0-1"),
    (b"c-e", b"[a-c-e]+", 0, b"0-3"),
    (b"abc", b"%", 0, b"error: malformed pattern (ends with '%')"),
    (b"abc", b"a%", 0, b"error: malformed pattern (ends with '%')"),
    (b"abc", b"[a", 0, b"error: malformed pattern (missing ']')"),
    (b"abc", b"[", 0, b"error: malformed pattern (missing ']')"),
    (b"abc", b"[^", 0, b"error: malformed pattern (missing ']')"),
    (b"abc", b"[%", 0, b"error: malformed pattern (missing ']')"),
    (b"abc", b"[a%", 0, b"error: malformed pattern (missing ']')"),
    (b"abc", b"x[", 0, b"none"),
    (b"abc", b"x%", 0, b"none"),
    (b"abc", b"(a", 0, b"error: unfinished capture"),
    (b"abc", b"(a))", 0, b"error: invalid pattern capture"),
    (b"abc", b"%1", 0, b"error: invalid capture index"),
    (b"abc", b"(a)%2", 0, b"error: invalid capture index"),
    (b"abc", b"(a%1)", 0, b"error: invalid capture index"),
    (b"abc", b"%0", 0, b"error: invalid capture index"),
    (b"abc", b"()%1", 0, b"none"),
    (b"abc", b"%b", 0, b"error: unbalanced pattern"),
    (b"abc", b"%bx", 0, b"error: unbalanced pattern"),
    (b"abc", b"%f", 0, b"error: missing '[' after '%f' in pattern"),
    (b"abc", b"%fa", 0, b"error: missing '[' after '%f' in pattern"),
    (b"abc", b"%f[a", 0, b"error: malformed pattern (missing ']')"),
    (b"abc", b"*", 0, b"none"),
    (b"a*c", b"*", 0, b"1-2"),
    (b"+a", b"+", 0, b"0-1"),
    (b"a?", b"a??", 0, b"0-2"),
    (b"a*", b"a**", 0, b"0-2"),
    (b"a+", b"a+*", 0, b"none"),
    (b"(((((((((((((((((((((((((((((((((", b"(((((((((((((((((((((((((((((((((", 0, b"error: too many captures"),
    (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", b"()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()", 0, b"error: too many captures"),
    (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", b"()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()()", 0, b"0-0 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1 @1"),
    (b"one;two;;four", b"([^;]*);([^;]*)", 0, b"0-7 <one> <two>"),
    (b"path/to/file.txt", b"([^/]+)%.(%w+)$", 0, b"8-16 <file> <txt>"),
    (b"user@host.com", b"^([%w.]+)@([%w.]+)$", 0, b"0-13 <user> <host.com>"),
    (b"aaa", b"(a*)(a*)", 0, b"0-3 <aaa> <>"),
    (b"aaa", b"(a-)(a*)", 0, b"0-3 <> <aaa>"),
    (b"aaa", b"(a?)(a+)", 0, b"0-3 <a> <aa>"),
    (b"ab", b"(a)(b)()", 0, b"0-2 <a> <b> @3"),
    (b"%d+", b"%%d%+", 0, b"0-3"),
    (b"word word", b"(%w+) %1", 0, b"0-9 <word>"),
    (b"wordy word", b"(%w+) %1", 0, b"none"),
    (b"a\0b", b"a%zb", 0, b"0-3"),
    (b"a\0b", b"%z", 0, b"1-2"),
    (b"a\0b", b".*", 0, b"0-3"),
    (b"\xff\xfe", b"[\xfe-\xff]+", 0, b"0-2"),
    (b"\xff", b"%a", 0, b"none"),
    (b"\x7f\x01", b"%c+", 0, b"0-2"),
    (b"\t\n\x0b\x0c\r ", b"%s+", 0, b"0-6"),
    (b"abcabc", b"^a", 3, b"3-4"),
    (b"abcabc", b"^a", 1, b"none"),
    (b"abc", b".*", 3, b"3-3"),
    (b"abc", b"x*", 2, b"2-2"),
    (b"\xe9", b"%w", 0, b"none"),
    (b"a\nb", b"a.b", 0, b"0-3"),
    (b"THE END", b"%f[%w]%w+", 1, b"4-7"),
    (b"aXb", b"%f[X]", 1, b"1-1"),
    (b"", b"%f[%z]", 0, b"none"),
    (b"", b"a-", 0, b"0-0"),
];

fn shown(text: &[u8], found: Result<Option<Match>, PatternError>) -> Vec<u8> {
    let found = match found {
        Err(PatternError::Malformed(error)) => return format!("error: {error}").into_bytes(),
        Err(PatternError::Fuel) => return b"fuel".to_vec(),
        Ok(None) => return b"none".to_vec(),
        Ok(Some(found)) => found,
    };
    let mut out = format!("{}-{}", found.start, found.end).into_bytes();
    for capture in found.captures {
        match capture {
            Capture::Position(place) => out.extend_from_slice(format!(" @{place}").as_bytes()),
            Capture::Span(start, end) => out.extend_from_slice(&[b" <", &text[start..end], b">"].concat()),
        }
    }
    out
}

#[test]
fn patterns_match_as_on_a_server() {
    for (text, pattern, init, expected) in FOUND {
        let found = shown(text, find(text, pattern, *init, &mut { MUCH }));
        let case = format!("{} in {}", pattern.escape_ascii(), text.escape_ascii());
        assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{case}");
        assert!(has_specials(pattern), "{case}");
    }
}

#[test]
fn a_pattern_without_specials_is_plain() {
    for (pattern, has) in
        [(&b"abc"[..], false), (b"", false), (b"a]b)", false), (b"a\0*", false), (b"a.b", true)]
    {
        assert_eq!(has_specials(pattern), has);
    }
}

#[test]
fn a_match_at_one_place_takes_a_caret_as_a_byte() {
    let at = |text: &[u8], pattern: &[u8], init| shown(text, match_at(text, pattern, init, &mut { MUCH }));
    assert_eq!(at(b"a^b", b"^b", 1), b"1-3");
    assert_eq!(at(b"aab", b"b", 0), b"none");
    assert_eq!(at(b"aab", b"b*", 3), b"3-3");
    assert_eq!(at(b"aab", b"b*", 4), b"none");
}

#[test]
fn no_pattern_takes_more_than_its_fuel() {
    let text = vec![b'a'; 5000];
    let hostile: [&[u8]; 5] =
        [b".-.-.-.-b", b"(.*)(.*)(.*)(.*)b", b"a?a?a?a?a*a*a*a*b", b"%b()%b()", b"[%a%d%s]*[%a%d%s]*b"];
    for pattern in hostile {
        let mut fuel = 200_000;
        let found = find(&text, pattern, 0, &mut fuel);
        assert!(
            found == Err(PatternError::Fuel) && fuel == 0 || found == Ok(None),
            "{}",
            pattern.escape_ascii()
        );
    }
    let mut fuel = 3;
    assert_eq!(find(&text, b"a*", 0, &mut fuel), Err(PatternError::Fuel));
}

#[test]
fn every_fuel_is_enough_or_not() {
    let mut needed = 0;
    for fuel in 0..200 {
        match find(b"key:123", b"^(%a+):(%d+)$", 0, &mut { fuel }) {
            Err(error) => assert_eq!(error, PatternError::Fuel),
            Ok(found) => {
                assert!(found.is_some());
                needed = fuel;
                break;
            }
        }
    }
    assert!(needed > 10, "each byte costs");
}

#[test]
fn a_long_pattern_is_too_complex_and_no_more() {
    let text = vec![b'a'; 100_000];
    let pattern = b"a?".repeat(50_000);
    let found = find(&text, &pattern, 0, &mut { u64::MAX });
    assert_eq!(found, Err(PatternError::Malformed("pattern too complex".to_owned())));
    let pattern = b"a".repeat(100_000);
    assert!(match_at(&text, &pattern, 0, &mut { u64::MAX }).is_ok_and(|found| found.is_some()));
}
