//! Paths that name one place of a document: reading them, and the one way in which each place is written.
//!
//! `$` is the root, and each step behind it a member of an object: `.name`, or `["name"]` for a name with other
//! characters. A place has one *canonical* path, which is the name of its field in the hash: the short form wherever it
//! will do. Whoever writes a path may be hostile: reading ends, and is bounded in length and depth.

use std::fmt;

use crate::{Bytes, OpError};

/// The longest path, in bytes of its canonical form. Every field of a document carries one.
pub const PATH_BYTES_MAX: usize = 1024;

/// How deep objects and arrays of a document may be nested, the root counted.
pub const DEPTH_MAX: usize = 64;

/// The canonical path of the root, and the field that every document has.
pub(super) const ROOT: &str = "$";

/// One place of a document.
#[derive(Clone, PartialEq, Eq)]
pub struct Path {
    /// The canonical form.
    text: Bytes,
    /// Where in `text` each place on the way ends, the root first and this one last.
    ends: Vec<usize>,
    /// The names on the way.
    names: Vec<String>,
}

impl Path {
    /// The whole document.
    pub fn root() -> Self {
        Path { text: Bytes::from(ROOT), ends: vec![ROOT.len()], names: Vec::new() }
    }

    /// Reads a path. O(length).
    ///
    /// # Errors
    /// It is too long or too deep, or it does not name one place; the error says at which byte.
    pub fn parse(given: &[u8]) -> Result<Self, OpError> {
        if given.len() > 4 * PATH_BYTES_MAX {
            return Err(too_long(given.len()));
        }
        let refuse = |Misplaced { at, why }| OpError::Argument {
            given: Bytes::from(given).to_string(),
            expected: format!("a path that names one place, such as $.a.b: {why} at byte {at}").into(),
        };
        let text = std::str::from_utf8(given)
            .map_err(|error| refuse(Misplaced { at: error.valid_up_to(), why: "no UTF-8" }))?;
        let rest = text.strip_prefix(ROOT);
        let mut rest = rest.ok_or_else(|| refuse(Misplaced { at: 0, why: "no $ for the root" }))?;
        let mut path = Path::root();
        while !rest.is_empty() {
            let (name, left) = step(rest)
                .map_err(|it| refuse(Misplaced { at: text.len() - rest.len() + it.at, why: it.why }))?;
            path.push(&name)?;
            rest = left;
        }
        Ok(path)
    }

    /// The place of a member of the object here. O(length).
    ///
    /// # Errors
    /// It is too deep, or its path too long.
    pub fn member(&self, name: &str) -> Result<Self, OpError> {
        let mut member = self.clone();
        member.push(name)?;
        Ok(member)
    }

    /// Goes to a member of the object here, for whoever walks through a value: [`Path::pop`] goes back. O(length of the name).
    ///
    /// # Errors
    /// It is too deep, or its path too long; the path stays as it was.
    pub(super) fn push(&mut self, name: &str) -> Result<(), OpError> {
        if self.ends.len() >= DEPTH_MAX {
            return Err(too_deep(self.ends.len() + 1));
        }
        let end = self.text.len();
        write_step(name, &mut self.text);
        if self.text.len() > PATH_BYTES_MAX {
            let error = too_long(self.text.len());
            self.text.truncate(end);
            return Err(error);
        }
        self.ends.push(self.text.len());
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Goes back to the object that this place is in.
    ///
    /// # Panics
    /// If it is the root.
    pub(super) fn pop(&mut self) {
        self.names.pop().expect("the root is in nothing");
        self.ends.pop();
        self.text.truncate(*self.ends.last().expect("the root stays"));
    }

    /// The canonical form: the name of the field.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// How many places are on the way, the root and this one counted.
    pub fn depth(&self) -> usize {
        self.ends.len()
    }

    /// The names on the way; none for the root.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it is the whole document.
    pub fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    /// The canonical paths of the objects that this place is in, the nearest first.
    pub fn ancestors(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().rev().skip(1).map(|end| &self.text[..*end])
    }

    /// The names that lead from `above` to here, if it is `above` or in it.
    pub fn below(&self, above: &Path) -> Option<&[String]> {
        self.names.strip_prefix(&above.names[..])
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// A field of a document as a member of the object that it is in.
pub(super) struct Field<'a> {
    /// The canonical path of the object.
    pub parent: &'a [u8],
    /// What it is called there.
    pub name: String,
}

impl<'a> Field<'a> {
    /// Reads the last step of a path; `None` for the root, and for what is no canonical path even if `parent` is one.
    /// O(length), and but for the name no memory.
    pub(super) fn read(path: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(path).ok().filter(|text| text.len() <= PATH_BYTES_MAX)?;
        text.strip_prefix(ROOT)?;
        let (mut start, mut depth, mut in_quotes, mut is_escaped) = (0, 1, false, false);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_quotes => is_escaped = true,
                b'"' => in_quotes = !in_quotes,
                b'.' | b'[' if !in_quotes => (start, depth) = (at, depth + 1),
                _ => {}
            }
        }
        let (name, rest) = step(&text[start..]).ok()?;
        let mut written = Bytes::default();
        write_step(&name, &mut written);
        let is_canonical = rest.is_empty() && depth <= DEPTH_MAX && written[..] == path[start..];
        is_canonical.then(|| Field { parent: &path[..start], name })
    }
}

fn write_step(name: &str, text: &mut Bytes) {
    if !name.is_empty() && name.chars().all(is_of_short) {
        text.extend(b".");
        text.extend(name.as_bytes());
    } else {
        text.extend(b"[");
        text.extend(super::json::quoted(name).as_bytes());
        text.extend(b"]");
    }
}

/// What is wrong, and where behind the beginning of a step.
struct Misplaced {
    at: usize,
    why: &'static str,
}

/// Reads one step: the name, and what is left.
fn step(rest: &str) -> Result<(String, &str), Misplaced> {
    let wrong = |at, why| Err(Misplaced { at, why });
    if let Some(behind) = rest.strip_prefix('.') {
        let end = behind.find(|it| !is_of_short(it)).unwrap_or(behind.len());
        return match (end, behind.chars().next()) {
            (0, Some('.')) => wrong(0, "recursive descent (..) names many places,"),
            (0, Some('*')) => wrong(1, "a wildcard (*) names many places,"),
            (0, Some('[')) => wrong(1, "no name between . and [,"),
            (0, None) => wrong(1, "no name behind the dot"),
            (0, Some(_)) => {
                wrong(1, "a name with other characters than letters, digits, _ and - needs [\"\"],")
            }
            _ => Ok((behind[..end].to_owned(), &behind[end..])),
        };
    }
    let Some(behind) = rest.strip_prefix('[') else { return wrong(0, "neither . nor [") };
    match behind.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (name, length) =
                super::json::quoted_name(behind, quote).map_err(|why| Misplaced { at: 1, why })?;
            match behind[length..].strip_prefix(']') {
                Some(left) => Ok((name, left)),
                None => wrong(1 + length, "no ] behind the name,"),
            }
        }
        Some('*') => wrong(1, "a wildcard ([*]) names many places,"),
        Some('?') => wrong(1, "a filter ([?]) names many places,"),
        Some('0'..='9' | '-' | ':') => wrong(1, "an index of an array; an array is one value,"),
        _ => wrong(1, "no name in quotes behind [,"),
    }
}

/// What names in the short form consist of. It does not depend on tables that grow with Unicode: the form names the field.
fn is_of_short(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_' || it == '-' || !it.is_ascii()
}

fn too_long(size: usize) -> OpError {
    OpError::Bound {
        what: "the path of a document's field".into(),
        given: format!("{size} bytes long"),
        expected: format!("at most {PATH_BYTES_MAX} bytes long").into(),
    }
}

/// # Errors
/// A value that is nested so deep, the way to it counted, has no place.
pub(super) fn too_deep(depth: usize) -> OpError {
    OpError::Bound {
        what: "a document".into(),
        given: format!("nested {depth} levels deep"),
        expected: format!("nested at most {DEPTH_MAX} levels deep").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(given: &str) -> String {
        Path::parse(given.as_bytes()).expect(given).text().to_string()
    }

    #[test]
    fn a_place_has_one_canonical_path() {
        for (given, written) in [
            ("$", "$"),
            ("$.a", "$.a"),
            ("$[\"a\"]", "$.a"),
            ("$['a'].b-2", "$.a.b-2"),
            ("$[\"a.b\"]", "$[\"a.b\"]"),
            ("$['it\"s']", "$[\"it\\\"s\"]"),
            ("$['it\\'s']", "$[\"it's\"]"),
            ("$[\"\"]", "$[\"\"]"),
            ("$[\"\\u0061\"]", "$.a"),
            ("$[\"0\"]", "$.0"),
        ] {
            let read = Path::parse(given.as_bytes()).expect(given);
            assert_eq!(read.text(), &Bytes::from(written), "{given}");
            assert_eq!(Path::parse(read.text()).as_ref(), Ok(&read));
        }
        assert_eq!(Path::parse("$.größe".as_bytes()).expect("a name").names(), ["größe"]);
        assert_eq!(canonical("$.a"), "$.a");
    }

    #[test]
    fn a_field_is_read_as_its_path_is() {
        for field in [
            "$.a",
            "$.a.b",
            "$[\"a.b\"]",
            "$[\"\"]",
            "$[\"[\\\\\"]",
            "$[\"it\\\"s.\"].x",
            "$.a[\"]\"]",
            "$.größe[\" \"].b",
            "$",
            "",
            "a.b",
            "$a",
            "$.",
            "$.a.",
            "$['a']",
            "$[\"a\"]",
            "$[\"a",
            "$.a b",
            "$.a[0]",
            "$[\"\\u0061 \"]",
            "$.a]",
        ] {
            let path = Path::parse(field.as_bytes()).ok().filter(|path| path.text() == &Bytes::from(field));
            let read = Field::read(field.as_bytes()).map(|it| (Bytes::from(it.parent), it.name));
            let expected = path
                .as_ref()
                .and_then(|path| Some((Bytes::from(path.ancestors().next()?), path.names().last()?.clone())));
            assert_eq!(read, expected, "{field}");
        }
        let deep = format!("${}", ".a".repeat(DEPTH_MAX));
        assert!(
            Field::read(deep.as_bytes()).is_none()
                && Field::read(&deep.as_bytes()[..deep.len() - 2]).is_some()
        );
        assert!(Field::read(format!("$.{}", "x".repeat(PATH_BYTES_MAX)).as_bytes()).is_none());
        let mut path = Path::parse(b"$.a").expect("a path");
        path.push("b c").expect("it fits");
        assert_eq!(path.text(), &Bytes::from("$.a[\"b c\"]"));
        assert!(path.push(&"x".repeat(PATH_BYTES_MAX)).is_err());
        path.pop();
        assert_eq!(Ok(path), Path::parse(b"$.a"));
    }

    #[test]
    fn what_does_not_name_one_place_is_refused_by_name_and_byte() {
        for (given, says) in [
            ("", "no $ for the root at byte 0"),
            ("a.b", "no $ for the root at byte 0"),
            (".a", "no $ for the root at byte 0"),
            ("$.a.*", "a wildcard (*) names many places, at byte 4"),
            ("$.a[*]", "a wildcard ([*]) names many places, at byte 4"),
            ("$..a", "recursive descent (..) names many places, at byte 1"),
            ("$.a[?(@.b>1)]", "a filter ([?]) names many places, at byte 4"),
            ("$.a[0]", "an index of an array; an array is one value, at byte 4"),
            ("$.a[-1]", "an index of an array"),
            ("$.a[1:2]", "an index of an array"),
            ("$.", "no name behind the dot at byte 2"),
            ("$.a b", "neither . nor [ at byte 3"),
            ("$. b", "needs [\"\"], at byte 2"),
            ("$[a]", "no name in quotes behind [, at byte 2"),
            ("$[\"a", "no name in quotes that ends, at byte 2"),
            ("$.b[\"a\\x\"]", "a name in quotes that JSON would not write (see its escapes), at byte 4"),
            ("$['a\\x']", "a name in quotes that JSON would not write (see its escapes), at byte 2"),
            ("$['a\\", "no name in quotes that ends, at byte 2"),
            ("$[\"a\"", "no ] behind the name, at byte 5"),
            ("$[\"a\",\"b\"]", "no ] behind the name, at byte 5"),
            ("$a", "neither . nor [ at byte 1"),
        ] {
            let error = Path::parse(given.as_bytes()).expect_err(given).to_string();
            assert!(error.contains(says), "{given}: {error}");
            assert!(
                error.starts_with(&format!("'{}' is not a path", given.escape_default()))
                    || given.contains(['"', '\\', '\''])
            );
        }
        assert!(Path::parse(b"$.\xff").expect_err("not text").to_string().contains("no UTF-8 at byte 2"));
    }

    #[test]
    fn length_and_depth_are_bounded() {
        let deep = |levels: usize| format!("${}", ".a".repeat(levels - 1));
        assert_eq!(Path::parse(deep(DEPTH_MAX).as_bytes()).expect("not too deep").depth(), DEPTH_MAX);
        let error = Path::parse(deep(DEPTH_MAX + 1).as_bytes()).expect_err("too deep").to_string();
        assert!(error.contains("nested 65 levels deep"), "{error}");
        let long = |length: usize| format!("$.{}", "x".repeat(length - 2));
        assert!(Path::parse(long(PATH_BYTES_MAX).as_bytes()).is_ok());
        let error = Path::parse(long(PATH_BYTES_MAX + 1).as_bytes()).expect_err("too long").to_string();
        assert!(error.contains("1025 bytes long"), "{error}");
        assert!(Path::parse(long(1 << 20).as_bytes()).is_err());
        assert!(Path::parse("$[".repeat(1 << 10).as_bytes()).is_err());
    }

    #[test]
    fn a_place_knows_what_it_is_in() {
        let path = Path::parse(b"$.a[\"b.c\"].d").expect("a path");
        let ancestors: Vec<Bytes> = path.ancestors().map(Bytes::from).collect();
        assert_eq!(ancestors, ["$.a[\"b.c\"]", "$.a", "$"].map(Bytes::from));
        let above = Path::parse(b"$.a").expect("a path");
        assert_eq!(path.below(&above), Some(&["b.c".to_owned(), "d".to_owned()][..]));
        assert_eq!(above.below(&path), None);
    }
}
