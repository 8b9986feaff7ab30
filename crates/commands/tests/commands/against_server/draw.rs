//! Drawing commands.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::{collections, records, strings};

/// All keys; the letter says which type they mostly hold.
pub(super) const KEYS: [&str; 15] =
    ["s1", "s2", "s3", "h1", "h2", "h3", "l1", "l2", "l3", "e1", "e2", "e3", "z1", "z2", "z3"];

/// Keys that some commands have besides, and words that may stand where a key is.
pub(super) const OTHER_KEYS: [&str; 9] =
    ["lex", "big", "bighash", "x", "99999999999999999999", "1.5x", "NX", "~", "WITHSCORES"];

/// What each family has drawn: the letter of the keys that they are mostly for, and their words. `k` is a key, `v` a value, `m` a member or a field,
/// `i` an index, `n` a count, `s` a score, `b` a bound of scores, `x` a bound of members, `t` a time in seconds, `p` a pattern;
/// `{a|b c|}` one of these, `<...>` once to three times.
const COMMANDS: [&[(char, &str)]; 3] = [strings::DRAWN, collections::DRAWN, records::DRAWN];

/// A command; `is_new`: the server is of version 7.2 or later.
pub(super) fn command(random: &mut StdRng, is_new: bool) -> Vec<String> {
    let all: Vec<_> = COMMANDS.concat();
    let (kind, template) = pick(random, &all);
    let mut words = Vec::new();
    expand(random, *kind, template, &mut words);
    if is_new && random.random_range(0..3) == 0 && matches!(words[0].as_str(), "ZRANK" | "ZREVRANK") {
        words.push("WITHSCORE".to_owned());
    }
    // Bad arguments, behind the key.
    // Older servers look for the key before they read what follows.
    let is_exact = words[0].ends_with("FLOAT") || words[1] == "lex" || !is_new && words[0].starts_with("BIT");
    if words.len() > 2 && !is_exact && random.random_range(0..40) == 0 {
        let at = random.random_range(2..words.len());
        let bad: &str = pick::<&str>(random, &["x", "99999999999999999999", "1.5x", "NX", "~", ""]);
        // Claret has no empty key, and `ZINCRBY` is a `ZADD` in servers.
        let is_cursor = !is_new && words[0].ends_with("SCAN") && bad.is_empty();
        let is_key = bad.is_empty() && KEYS.contains(&words[at].as_str());
        let is_option = bad == "NX" && words[0] == "ZINCRBY";
        if !(is_cursor || is_key || is_option) {
            words[at] = bad.to_owned();
        }
    }
    if !is_new {
        // What older servers do not know, or look at later.
        let is_of_bits = words[0].starts_with("BIT");
        words.retain(|word| word != "NOVALUES" && !(is_of_bits && word == "WHAT"));
    }
    words
}

fn pick<'a, T>(random: &mut StdRng, all: &'a [T]) -> &'a T {
    &all[random.random_range(0..all.len())]
}

fn expand(random: &mut StdRng, kind: char, template: &str, words: &mut Vec<String>) {
    let mut rest = template.trim();
    while !rest.is_empty() {
        let close = match rest.as_bytes()[0] {
            b'{' => Some('}'),
            b'<' => Some('>'),
            _ => None,
        };
        let end = match close {
            Some(close) => rest.find(close).expect("it is closed") + 1,
            None => rest.find(' ').unwrap_or(rest.len()),
        };
        let (part, after) = rest.split_at(end);
        rest = after.trim_start();
        match close {
            Some('}') => {
                let alternatives: Vec<&str> = part[1..end - 1].split('|').collect();
                let chosen: &str = pick::<&str>(random, &alternatives);
                expand(random, kind, chosen, words);
            }
            Some(_) => {
                (0..random.random_range(1..4)).for_each(|_| expand(random, kind, &part[1..end - 1], words))
            }
            None => words.push(word(random, kind, part)),
        }
    }
}

/// What a sign stands for; other words are themselves.
fn word(random: &mut StdRng, kind: char, sign: &str) -> String {
    let number = |random: &mut StdRng| random.random_range(1000..90_000_000);
    match sign {
        "k" => {
            let own: Vec<&str> = KEYS.into_iter().filter(|key| key.starts_with(kind)).collect();
            let is_own = !own.is_empty() && random.random_range(0..12) > 0;
            (*pick(random, if is_own { &own[..] } else { &KEYS[..] })).to_owned()
        }
        "v" => (*pick(random, &["a", "b", "c", "10", "5", "hello", "", "-3", "0.5"])).to_owned(),
        "m" => (*pick(random, &["a", "b", "c", "d", "1", "22"])).to_owned(),
        "i" => random.random_range(-5..7).to_string(),
        "n" => random.random_range(0..5).to_string(),
        "1n" => format!("1{}", random.random_range(0..8)),
        "s" => (*pick(random, &["0", "1", "2", "-1", "1.5", "inf", "-inf", "3"])).to_owned(),
        "b" => (*pick(random, &["0", "1", "(1", "2", "-inf", "+inf", "(2", "1.5"])).to_owned(),
        "x" => (*pick(random, &["-", "+", "[a", "(a", "[b", "(c", "[d", "[1"])).to_owned(),
        "t" => number(random).to_string(),
        "t000" => format!("{}000", number(random)),
        "9t" => format!("9{:09}", number(random)),
        "9t000" => format!("9{:09}000", number(random)),
        "p" => (*pick(random, &["*", "a*", "?", "[ab]", "x"])).to_owned(),
        word => word.to_owned(),
    }
}
