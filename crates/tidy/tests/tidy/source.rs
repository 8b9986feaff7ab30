//! Reading Rust source just well enough for the rules: what is code and what is comment or text, and where functions
//! begin and end. Not a parser; what it has to cope with is in the tests below.

/// A file of the repository.
pub(crate) struct File {
    /// From the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Where it begins, from 1.
    pub(crate) line: usize,
    /// From its `fn` to its closing brace, both included.
    pub(crate) lines: usize,
}

/// The code alone: comments, strings and characters become spaces, lines stay where they are.
pub(crate) fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(next) = rest.chars().next() {
        let blanked = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest, 1),
            'r' | 'b' | 'c' if !is_word(before) => prefixed_string(rest),
            '\'' => character(rest),
            _ => 0,
        };
        let taken = if blanked == 0 { next.len_utf8() } else { blanked };
        let (piece, tail) = rest.split_at(taken);
        if blanked == 0 {
            out.push(next);
        } else {
            out.extend(piece.chars().map(|it| if it == '\n' { '\n' } else { ' ' }));
        }
        before = piece.chars().next_back().unwrap_or(' ');
        rest = tail;
    }
    out
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match (rest.starts_with(b"/*"), rest.starts_with(b"*/")) {
            (true, _) => (depth, at) = (depth + 1, at + 2),
            (_, true) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a string whose content begins at `from`.
fn string(text: &str, from: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"..."`, `r#"..."#`, `b"..."`, `br"..."`; 0 if it is something else.
fn prefixed_string(text: &str) -> usize {
    let prefix = text.bytes().take_while(|it| b"brc".contains(it)).count();
    let hashes = text.bytes().skip(prefix).take_while(|it| *it == b'#').count();
    if prefix > 2 || text.as_bytes().get(prefix + hashes) != Some(&b'"') {
        return 0;
    }
    if !text[..prefix].contains('r') {
        return if hashes == 0 { string(text, prefix + 1) } else { 0 };
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let from = prefix + hashes + 1;
    text[from..].find(&end).map_or(text.len(), |at| from + at + end.len())
}

/// The length of `'x'` or `'\n'`; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(0, |at| 3 + at + 1),
        Some((at, only)) if text[at + only.len_utf8()..].starts_with('\'') => at + only.len_utf8() + 1,
        _ => 0,
    }
}

/// Functions with a body, inner ones too, in [`code`].
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, name) in words(code).filter(|(_, word)| *word == "fn").map(|(at, _)| (at, &code[at + 2..])) {
        let name: String = name.trim_start().chars().take_while(|it| is_word(*it)).collect();
        if name.is_empty() {
            continue; // `fn(u32) -> u32`, a type.
        }
        let Some(end) = body_end(&code[at..]) else { continue };
        let line = 1 + code[..at].matches('\n').count();
        found.push(Function { name, line, lines: 1 + code[at..at + end].matches('\n').count() });
    }
    found
}

/// Where the body that follows ends; `None` for a signature without one.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0, 0);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

pub(crate) fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// Words and where they stand.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(|it| !is_word(it)).filter_map(move |word| {
        let from = at;
        // What splits words is one character; its length is what lies between this word and the next.
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        (!word.is_empty()).then_some((from, word))
    })
}

#[test]
fn code_is_told_from_comments_and_strings() {
    let blank = |text: &str| code(text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(blank("a // b\nc /* d /* e */ f */ g"), "a c g");
    assert_eq!(blank(r#"a("b \" // c", d)"#), "a( , d)");
    assert_eq!(blank(r###"a(r#"b " c"#, br"\", b"d")"###), "a( , , )");
    assert_eq!(blank("f::<'a>('\"', '\\'', b'{', 'ä')"), "f::<'a>( , , b , )");
    assert_eq!(code("\"x\ny\"\nz"), "  \n  \nz");
}

#[test]
fn functions_are_found_with_their_lengths() {
    let text =
        "fn a(x: [u8; 2]) -> u8 {\n  let f: fn(u8) = |_| {};\n  \"}\"\n}\ntrait T { fn b();\n fn c() {\n } }";
    let found: Vec<_> = functions(&code(text)).into_iter().map(|it| (it.name, it.line, it.lines)).collect();
    assert_eq!(found, [("a".to_string(), 1, 4), ("c".to_string(), 6, 2)]);
}
