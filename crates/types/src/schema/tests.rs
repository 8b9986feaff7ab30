//! What schemas refuse, how they are read and written, and what is none.

use super::*;
use crate::{Moment, builtin_types};

fn op(kind: TypeName, words: &str) -> Operation {
    parsed(kind.info(), words)
}

fn parsed(kind: &TypeInfo, words: &str) -> Operation {
    let mut words = words.split(' ').map(Bytes::from);
    let name = words.next().expect("a name").to_string();
    let rest: Vec<Bytes> = words.collect();
    (kind.parse)(&name, &rest).unwrap_or_else(|error| panic!("{name} {rest:?}: {error}"))
}

fn schema(text: &str) -> Schema {
    Schema::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(schema: &Schema, key: &str, op: &Operation) -> String {
    schema.check(key.as_bytes(), op).expect_err(key).to_string()
}

#[track_caller]
fn assert_fits(schema: &Schema, key: &str, op: &Operation) {
    assert_eq!(schema.check(key.as_bytes(), op), Ok(()), "{key}: {op:?}");
}

#[test]
fn an_operation_of_another_type_names_prefix_and_both_types() {
    let schema = schema("prefix cart: dict\nprefix seen: set");
    let add = op(TypeName::Set, "SADD x");
    assert_fits(&schema, "seen:1", &add);
    assert_fits(&schema, "other", &add);
    assert_fits(&schema, "cart", &add);
    let error = schema.check(b"cart:7", &add).expect_err("of another type");
    let expected = OpError::AgainstSchema {
        prefix: "cart:".into(),
        expected: "a dict".into(),
        found: "an operation of a set".into(),
        method: "SADD".into(),
    };
    assert_eq!(error, expected);
    let text = error.to_string();
    assert!(
        text.contains("SADD breaks the schema: a key with the prefix 'cart:' holds a dict, and this is an operation of a set"),
        "{text}"
    );
}

/// Every type by the name that the documents and the shell use.
#[test]
fn every_built_in_type_has_its_name() {
    let own: Vec<&str> = TypeName::ALL.iter().map(|it| it.name()).collect();
    for kind in builtin_types().iter().filter(|kind| !kind.is_of_any()) {
        assert!(own.contains(&kind.name), "{}", kind.name);
        assert_eq!(TypeName::named(kind.name).map(|it| it.info().id), Some(kind.id));
    }
    assert_eq!(own.len(), builtin_types().len() - 1);
    assert_eq!(
        (TypeName::named("queue"), TypeName::named("stack")),
        (Some(TypeName::List), Some(TypeName::List))
    );
    assert_eq!(TypeName::named("Set"), None);
}

#[test]
fn the_longest_prefix_counts() {
    let schema = schema(
        "prefix \"\" register\nprefix a set\nprefix a:b list\nprefix a:b: dict\nprefix a:b:c:d counter\nprefix a:c topk\nprefix b set",
    );
    for (key, prefix) in [
        ("", ""),
        ("0", ""),
        ("a", "a"),
        ("a:", "a"),
        ("a:a", "a"),
        ("a:b", "a:b"),
        ("a:b0", "a:b"),
        ("a:b:", "a:b:"),
        ("a:b:c", "a:b:"),
        ("a:b:c:d", "a:b:c:d"),
        ("a:b:c:dx", "a:b:c:d"),
        ("a:b:c:e", "a:b:"),
        ("a:b:z", "a:b:"),
        ("a:bz", "a:b"),
        ("a:c", "a:c"),
        ("a:d", "a"),
        ("az", "a"),
        ("c", ""),
    ] {
        let found = schema.of_key(key.as_bytes()).map(|(prefix, _)| prefix.to_string());
        assert_eq!(found.as_deref(), Some(prefix), "{key}");
    }
    assert_eq!(Schema::new().of_key(b"a"), None);
}

/// The search by halves finds what looking at all of them finds.
#[test]
fn the_longest_prefix_is_found_as_by_looking_at_all() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut word = |longest: u64| {
        let length = random(longest + 1);
        (0..length).map(|_| [b'a', b'b', 0xff][random(3) as usize]).collect::<Vec<u8>>()
    };
    for _ in 0..200 {
        let mut prefixes: Vec<Vec<u8>> = (0..12).map(|_| word(5)).collect();
        prefixes.sort();
        prefixes.dedup();
        let mut schema = Schema::new();
        for prefix in prefixes.iter().rev() {
            schema = schema.prefix(&prefix[..], TypeName::Set).expect("another one");
        }
        for _ in 0..50 {
            let key = word(8);
            let expected = prefixes.iter().filter(|prefix| key.starts_with(prefix)).max_by_key(|it| it.len());
            let found = schema.of_key(&key).map(|(prefix, _)| prefix.to_vec());
            assert_eq!(found.as_ref(), expected, "{key:?} in {prefixes:?}");
        }
    }
}

/// What is done to records of any type is free; what puts a record in their place is of that record's type.
#[test]
fn what_is_done_to_any_record_is_free_and_what_is_put_is_judged() {
    let schema = schema(
        "prefix c: counter\nprefix f: float-counter\nprefix r: register\nprefix d: dict\n field n integer\nprefix j: document\n field $.n integer",
    );
    let any = TypeInfo::of_keyspace();
    for words in
        ["DEL", "EXISTS", "EXPIRE 5", "PERSIST", "TTL", "PEXPIRETIME", "RECORD.CONTENT", "RECORD.DIGEST"]
    {
        assert_fits(&schema, "c:1", &parsed(any, words));
    }
    for (key, words) in [
        ("c:1", "RECORD.PUT register 12"),
        ("f:1", "RECORD.PUT register 1.5"),
        ("r:1", "RECORD.PUT register text"),
        ("r:1", "PSETEX 5 text"),
        ("d:1", "RECORD.PUT dict n 12 other x"),
        ("j:1", "RECORD.PUT document $ {} $.n 12 $.m \"x\""),
    ] {
        assert_fits(&schema, key, &parsed(any, words));
    }
    for (key, words, says) in [
        ("c:1", "RECORD.PUT register text", "holds a counter, and this is another string"),
        ("f:1", "RECORD.PUT register text", "holds a float-counter, and this is another string"),
        ("d:1", "RECORD.PUT register 1", "holds a dict, and this is another string"),
        ("r:1", "RECORD.PUT set a", "holds a register, and this is an operation of a set"),
        ("c:1", "PSETEX 5 12", "holds a counter, and this is an operation of a register"),
        ("d:1", "RECORD.PUT dict n text", "holds an integer in the field 'n', and this is 'text'"),
        ("j:1", "RECORD.PUT document $ {} $.n \"x\"", "holds an integer at $.n, and this is a string"),
    ] {
        let error = refused(&schema, key, &parsed(any, words));
        assert!(error.contains(says), "{words}: {error}");
    }
    let until = KeyspaceOp::SetUntil { value: "v".into(), at: Moment::In(5) };
    assert!(schema.check(b"d:1", &Operation::from(until)).is_err());
}

/// `GET` is what a counter has, too, and words do not say which is meant.
#[test]
fn what_reads_a_record_that_types_share_is_free() {
    let schema = schema("prefix c: counter\nprefix u: uid-generator");
    assert_fits(&schema, "c:1", &op(TypeName::Register, "GET"));
    assert_fits(&schema, "c:1", &op(TypeName::FloatCounter, "GET"));
    let error = refused(&schema, "c:1", &op(TypeName::Register, "SET 5"));
    assert!(error.contains("holds a counter, and this is an operation of a register"), "{error}");
    assert!(schema.check(b"c:1", &op(TypeName::Register, "STRLEN")).is_err());
    assert!(schema.check(b"u:1", &op(TypeName::Register, "GET")).is_err());
}

/// What must give a certain answer is judged as what is in it.
#[test]
fn an_operation_that_is_to_answer_something_is_judged_too() {
    let schema = schema("prefix c: counter");
    let read = op(TypeName::Set, "SCARD").demanding(&crate::Reply::Int(1));
    assert!(refused(&schema, "c:1", &read).contains("an operation of a set"));
    let tried = op(TypeName::Set, "SADD x").tried();
    assert!(refused(&schema, "c:1", &tried).contains("an operation of a set"));
}

#[test]
fn fields_of_a_dict_are_judged_by_the_operation_alone() {
    let schema = schema(
        "prefix d: dict\n field name string\n field n integer\n field x number\n field b boolean\n field any any",
    );
    let dict = |words: &str| op(TypeName::Dict, words);
    for words in [
        "HSET name 5 n -7 x 1.5 b 1 any text other text",
        "HSET.RETURNING n 0",
        "HINCRBY n 5",
        "HINCRBY x 5",
        "HINCRBY any 5",
        "HINCRBY other 5",
        "HGET name",
        "HMGET name other",
        "HDEL name other",
        "HGETALL",
        "HLEN",
        "HEXISTS other",
    ] {
        assert_fits(&schema, "d:1", &dict(words));
    }
    for (words, says) in [
        ("HSET n abc", "an integer in the field 'n', and this is 'abc'"),
        ("HSET n 007", "an integer in the field 'n', and this is '007'"),
        ("HSET n 1.5", "and this is '1.5'"),
        ("HSET n 9223372036854775808", "and this is '9223372036854775808'"),
        ("HSET.RETURNING other 1 n abc", "an integer in the field 'n'"),
        ("HSET x inf", "a number in the field 'x', and this is 'inf'"),
        ("HSET x nan", "and this is 'nan'"),
        ("HSET x 1e999", "and this is '1e999'"),
        ("HSET b true", "a boolean in the field 'b', and this is 'true'"),
        ("HINCRBY name 1", "a string in the field 'name', and this is an addition"),
        ("HINCRBY.RETURNING b 1", "a boolean in the field 'b', and this is an addition"),
    ] {
        let error = refused(&schema, "d:1", &dict(words));
        assert!(error.contains(says) && error.contains("'d:'"), "{words}: {error}");
    }
}

#[test]
fn a_closed_dict_has_no_other_fields() {
    let schema = schema("prefix d: dict closed\n field n integer");
    let dict = |words: &str| op(TypeName::Dict, words);
    for words in ["HSET n 5", "HGET n", "HDEL old", "HDEL.RETURNING old n", "HGETALL", "HKEYS"] {
        assert_fits(&schema, "d:1", &dict(words));
    }
    for words in ["HSET n 5 old 1", "HINCRBY old 1", "HGET old", "HMGET n old", "HEXISTS old"] {
        let error = refused(&schema, "d:1", &dict(words));
        assert!(error.contains("holds no field 'old', and this is a use of it"), "{words}: {error}");
    }
}

const SHOP: &str = "prefix j: document\n field $.n integer\n field $.x number\n field $.s string\n field $.b boolean\n \
                    field $.l array\n field $.o object\n field $.a.m integer\n field $.any any";

#[test]
fn places_of_a_document_are_judged_by_the_operation_alone() {
    let schema = schema(SHOP);
    let json = |words: &str| op(TypeName::Document, words);
    for words in [
        "JSON.SET $ {\"n\":1,\"x\":1.5,\"s\":\"x\",\"b\":true,\"l\":[1],\"o\":{\"f\":1},\"a\":{\"m\":1,\"k\":2},\"any\":null}",
        "JSON.SET $ {}",
        "JSON.SET $.other 5",
        "JSON.SET $.a {}",
        "JSON.SET $.o.f.g 5",
        "JSON.SET $.any.f 5",
        "JSON.MERGE $ {\"n\":null,\"a\":null}",
        "JSON.MERGE $.n null",
        "JSON.NUMINCRBY $.n 5",
        "JSON.NUMINCRBY $.x 1.5",
        "JSON.NUMINCRBY $.other 1.5",
        "JSON.STRAPPEND $.s \"x\"",
        "JSON.ARRAPPEND $.l 1",
        "JSON.DEL $.n",
        "JSON.GET $.a.m",
        "JSON.GET",
        "JSON.OBJKEYS $.s",
    ] {
        assert_fits(&schema, "j:1", &json(words));
    }
    for (words, says) in [
        ("JSON.SET $.n \"x\"", "an integer at $.n, and this is a string"),
        ("JSON.SET $.n 1.0", "and this is a number with a fraction"),
        ("JSON.SET $.n null", "an integer at $.n, and this is null"),
        ("JSON.SET $ 5", "an object at $, and this is an integer"),
        ("JSON.SET $ {\"a\":{\"m\":\"x\"}}", "an integer at $.a.m, and this is a string"),
        ("JSON.SET $.a 5", "an object at $.a, and this is an integer"),
        ("JSON.SET $.n.f 5", "an integer at $.n, and this is a use of $.n.f in it"),
        ("JSON.GET $.l.f", "an array at $.l"),
        ("JSON.SET $.b 1", "a boolean at $.b"),
        ("JSON.SET $.o []", "an object at $.o, and this is an array"),
        ("JSON.MERGE $ {\"a\":{\"m\":[]}}", "an integer at $.a.m, and this is an array"),
        ("JSON.NUMINCRBY $.n 1.5", "an integer at $.n, and this is an addition"),
        ("JSON.NUMINCRBY $.s 1", "a string at $.s, and this is an addition"),
        ("JSON.NUMINCRBY.RETURNING $.a 1", "an object at $.a, and this is an addition"),
        ("JSON.STRAPPEND $.l \"x\"", "an array at $.l, and this is an append to a string"),
        ("JSON.ARRAPPEND $.s 1", "a string at $.s, and this is an append to an array"),
    ] {
        let error = refused(&schema, "j:1", &json(words));
        assert!(error.contains(says), "{words}: {error}");
    }
}

#[test]
fn a_closed_document_has_no_other_places() {
    let schema = schema(&SHOP.replace("document", "document closed"));
    let json = |words: &str| op(TypeName::Document, words);
    for words in [
        "JSON.SET $ {\"n\":1,\"o\":{\"f\":1},\"any\":{\"f\":1},\"l\":[{\"f\":1}]}",
        "JSON.SET $.o.f 1",
        "JSON.DEL $.other",
        "JSON.MERGE $ {\"other\":null}",
        "JSON.GET",
        "JSON.OBJKEYS",
    ] {
        assert_fits(&schema, "j:1", &json(words));
    }
    for (words, at) in [
        ("JSON.SET $.other 1", "$.other"),
        ("JSON.SET $ {\"other\":1}", "$.other"),
        ("JSON.SET $.a {\"m\":1,\"k\":2}", "$.a.k"),
        ("JSON.SET $ {\"a\":{\"k\":2}}", "$.a.k"),
        ("JSON.MERGE $ {\"a\":{\"k\":2}}", "$.a.k"),
        ("JSON.GET $.a.k.z", "$.a.k"),
        ("JSON.TYPE $.other", "$.other"),
        ("JSON.NUMINCRBY $.other 1", "$.other"),
        ("JSON.ARRAPPEND $.other 1", "$.other"),
    ] {
        let error = refused(&schema, "j:1", &json(words));
        assert!(
            error.contains(&format!("holds nothing at {at}, and this is a use of it")),
            "{words}: {error}"
        );
    }
}

// --- texts ---

#[test]
fn a_schema_has_one_text_that_is_read_as_it() {
    let given = "\r\n# A shop.\r\n  prefix seen: set # what was looked at\n\tprefix cart: dict closed\nfield total integer\n   \
                 field \"the owner\" string\nprefix \"\" queue\nprefix \"\\x00\\\"\\\\\\xff\" topk\nprefix größe register\n\
                 prefix x#y set\nprefix \"#z\" set\n\
                 prefix doc: document\nfield \"$['a b'].c\" any\nfield $.a object\nfield $.o object\nfield $.a.b number\nfield $['l'] array\n";
    let read = schema(given);
    let written = "prefix \"\" list\n\
                   prefix \"\\x00\\\"\\\\\\xff\" topk\n\
                   prefix \"#z\" set\n\
                   prefix cart: dict closed\n  field \"the owner\" string\n  field total integer\n\
                   prefix doc: document\n  field $.a.b number\n  field \"$[\\\"a b\\\"].c\" any\n  field $.l array\n  field $.o object\n\
                   prefix größe register\n\
                   prefix seen: set\n\
                   prefix x#y set\n";
    assert_eq!(read.to_string(), written);
    assert_eq!(Schema::parse(written), Ok(read.clone()));
    assert_eq!(schema(written).digest(), read.digest());
    assert!(read.of_key(b"\0\"\\\xff1").is_some_and(|(_, kind)| kind == TypeName::TopK));
}

#[test]
fn a_digest_tells_schemas_apart_and_none_from_any() {
    let (one, other) = (schema("prefix a set"), schema("prefix a list"));
    assert_ne!(one.digest(), other.digest());
    assert_eq!(one.digest(), schema("# the same\nprefix \"a\" set\n\n").digest());
    assert_eq!(one.digest().to_string(), "9f40ebd22e020525", "the same in every version");
    for schema in [one, other, Schema::new(), schema("# nothing\n")] {
        let digest = schema.digest();
        assert_eq!(SchemaDigest::parse(&digest.to_string()), Some(digest));
        assert_eq!(digest.to_string() == "none", schema.is_empty());
    }
    for text in ["", "None", "9f40", "9F40EBD22E020525", "9f40ebd22e02052g", "9f40ebd22e0205250"] {
        assert_eq!(SchemaDigest::parse(text), None, "{text}");
    }
}

#[track_caller]
fn assert_wrong(text: &str, says: &str) {
    let error = Schema::parse(text).expect_err(text).to_string();
    assert!(error.contains(says), "{text}: {error}");
}

#[test]
fn what_is_no_schema_is_refused_with_its_line() {
    for (text, says) in [
        ("prefix a: set\n\nprefix a: list", "line 3: the prefix 'a:' is a set above already"),
        ("prefix a: set\nprefix a: set", "line 2: the prefix 'a:' is a set above already"),
        ("prefix a: sett", "line 1: there is no type 'sett'; the types are register, counter,"),
        ("prefixx a: set", "line 1: 'prefixx' begins no line of a schema"),
        ("[prefix]", "line 1: '[prefix]' begins no line of a schema"),
        ("prefix a:", "line 1: expected 'prefix PREFIX TYPE [closed]'"),
        ("prefix a: dict open", "line 1: 'open' behind a type; only 'closed' may be there"),
        ("prefix a: dict closed 5", "only 'closed' may be there"),
        ("field f integer", "line 1: the field 'f' belongs to no prefix"),
        ("prefix a: set\nfield f integer", "line 2: a set has no fields"),
        ("prefix a: set closed", "line 1: a set has no fields"),
        ("prefix a: dict\nfield f", "line 2: expected 'field NAME TYPE'"),
        (
            "prefix a: dict\nfield f int",
            "line 2: there is no type 'int' of fields; their types are string, integer,",
        ),
        (
            "prefix a: dict\nfield f integer\nfield f string",
            "line 3: the field 'f' is an integer above already",
        ),
        ("prefix a: dict\nfield f array", "line 2: the field 'f' of a dict cannot be an array"),
        ("prefix a: dict closed\n\nprefix b: set", "line 1: 'a:' is closed and has no field"),
        ("prefix b: set\nprefix a: document closed", "line 2: 'a:' is closed and has no field"),
        ("prefix a: document\nfield f integer", "line 2: the field 'f' of a document: 'f' is not a path"),
        ("prefix a: document\nfield $.* integer", "a wildcard (*) names many places"),
        (
            "prefix a: document\nfield $.f integer\nfield $['f'] integer",
            "line 3: the field '$.f' is an integer above",
        ),
        (
            "prefix a: document\nfield $.f integer\nfield $.f.g any",
            "line 3: the field '$.f.g' of a document: $.f is an integer",
        ),
        (
            "prefix a: document\nfield $.f.g any\nfield $.f any",
            "line 3: the field '$.f' of a document: fields in it were named",
        ),
        ("prefix \"a: set", "line 1: quotes that do not end in their line"),
        ("prefix \"a\"b set", "line 1: no blank behind a word in quotes"),
        ("prefix a\"b set", "line 1: quotes within the word"),
        ("prefix \"\\n\" set", "line 1: a backslash in quotes without"),
        ("prefix \"\\x0g\" set", "line 1: \\x without two hexadecimal digits"),
        ("prefix \"\\x", "line 1: a backslash in quotes without"),
    ] {
        assert_wrong(text, says);
    }
}

#[test]
fn sizes_are_bounded() {
    let long = "x".repeat(SCHEMA_PREFIX_BYTES_MAX + 1);
    assert!(Schema::parse(&format!("prefix {} set", &long[1..])).is_ok());
    assert_wrong(
        &format!("prefix a: set\nprefix {long} set"),
        "line 2: a prefix in bytes of 257 is over the limit of 256",
    );
    let many = |count: usize| (0..count).map(|at| format!("prefix {at}: set\n")).collect::<String>();
    assert_eq!(schema(&many(SCHEMA_PREFIXES_MAX)).len(), SCHEMA_PREFIXES_MAX);
    assert_wrong(
        &many(SCHEMA_PREFIXES_MAX + 1),
        "line 1025: a number of prefixes of 1025 is over the limit of 1024",
    );
    assert_wrong(&"#".repeat(SCHEMA_BYTES_MAX + 1), "a schema in bytes of 65537 is over the limit of 65536");
    assert!(Schema::parse(&"#".repeat(SCHEMA_BYTES_MAX)).is_ok());
    let name = "x".repeat(FIELD_BYTES_MAX + 1);
    assert_wrong(
        &format!("prefix a: dict\nfield {name} any"),
        "line 2: the name of a field in bytes of 1025",
    );
    // What is kept is the text as it is written, which may be longer than what was read.
    let mut grown = Schema::new().prefix("a", TypeName::Dict).expect("a prefix");
    for number in 0_u8.. {
        let mut name = vec![0; 900];
        name[0] = number;
        match grown.clone().field(name, FieldType::Any) {
            Ok(next) => grown = next,
            Err(error) => {
                assert!(matches!(error, SchemaError::TooLarge { what: "a schema in bytes", .. }), "{error}");
                break;
            }
        }
        assert!(number < 64 && grown.to_string().len() <= SCHEMA_BYTES_MAX);
    }
}

/// Whatever text comes, reading it ends, and what is read is written as what is read as the same.
#[test]
fn texts_from_outside_do_no_harm() {
    let pieces = [
        "prefix", "field", " ", " ", "\n", "\n", "\"", "\\x", "\\", "a", "ff", "set", "dict", "document",
        "closed", "$.a", "$", "[", "'b'", "]", "integer", "any", "object", "#", "\t", "\r", "ü", "\u{85}",
        "\0",
    ];
    let (mut state, mut read) = (3_u64, 0);
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..24 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        match Schema::parse(&text) {
            Ok(schema) => {
                read += usize::from(!schema.is_empty());
                assert_eq!(Schema::parse(&schema.to_string()), Ok(schema), "{text:?}");
            }
            Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
        }
    }
    assert!(read < 20_000);
}
