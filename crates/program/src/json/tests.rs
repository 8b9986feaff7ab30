//! JSON, as redis-server 7.0.15 writes and reads it, and what hostile texts and tables cost.

use super::*;
use crate::data::{
    Budget, Data,
    tests::{Given, Given::*, shown},
};

const NEGATIVE_NAN: f64 = f64::from_bits(0xfff8 << 48);

/// A text, and what the server's `cjson.decode` made of it.
const DECODED: &[(&[u8], &str)] = &[
    (b"", "error: Expected value but found T_END at character 1"),
    (b" ", "error: Expected value but found T_END at character 2"),
    (b"x", "error: Expected value but found invalid token at character 1"),
    (b"1", "1"),
    (b"-1", "-1"),
    (b"+1", "1"),
    (b".5", "error: Expected value but found invalid token at character 1"),
    (b"-.5", "-0.5"),
    (b"1.", "1"),
    (b"1e5", "100000"),
    (b"1E-2", "0.01"),
    (b"1e", "error: Expected the end but found invalid token at character 2"),
    (b"1e400", "inf"),
    (b"01", "1"),
    (b"012", "12"),
    (b"0x10", "16"),
    (b"0x", "error: Expected the end but found invalid token at character 2"),
    (b"-", "error: Expected value but found invalid number at character 1"),
    (b"--1", "error: Expected value but found invalid number at character 1"),
    (b"- 1", "error: Expected value but found invalid number at character 1"),
    (b"+", "error: Expected value but found invalid number at character 1"),
    (b"inf", "inf"),
    (b"-inf", "-inf"),
    (b"Infinity", "inf"),
    (b"nan", "nan"),
    (b"NaN", "nan"),
    (b"i", "error: Expected value but found invalid token at character 1"),
    (b"ix", "error: Expected value but found invalid token at character 1"),
    (b"nax", "error: Expected value but found invalid token at character 1"),
    (b"true", "true"),
    (b"false", "false"),
    (b"null", "null"),
    (b"nul", "error: Expected value but found invalid token at character 1"),
    (b"trux", "error: Expected value but found invalid token at character 1"),
    (b"truex", "error: Expected the end but found invalid token at character 5"),
    (b"nullnull", "error: Expected the end but found T_NULL at character 5"),
    (b"TRUE", "error: Expected value but found invalid token at character 1"),
    (b"\"abc\"", "\"abc\""),
    (b"\"abc", "error: Expected value but found unexpected end of string at character 5"),
    (b"\"", "error: Expected value but found unexpected end of string at character 2"),
    (b"\"a\\x\"", "error: Expected value but found invalid escape code at character 3"),
    (b"\"a\\", "error: Expected value but found invalid escape code at character 3"),
    (b"\"a\\u12\"", "error: Expected value but found invalid unicode escape code at character 3"),
    (b"\"\\u0041\\u00e9\\u20ac\\u0000\"", "\"A\\xc3\\xa9\\xe2\\x82\\xac\\x00\""),
    (b"\"\\ud83d\\ude00\"", "\"\\xf0\\x9f\\x98\\x80\""),
    (b"\"\\ud83d\"", "error: Expected value but found invalid unicode escape code at character 2"),
    (b"\"\\ude00\"", "error: Expected value but found invalid unicode escape code at character 2"),
    (b"\"\\ud83dx\"", "error: Expected value but found invalid unicode escape code at character 2"),
    (b"\"\\ud83d\\u0041\"", "error: Expected value but found invalid unicode escape code at character 2"),
    (b"\"\\uD83D\\uDE0\"", "error: Expected value but found invalid unicode escape code at character 2"),
    (b"\"\\uDBFF\\uDFFF\\uE000\\uFFFF\\u07ff\\u0800\\u007f\\u0080\"", "\"\\xf4\\x8f\\xbf\\xbf\\xee\\x80\\x80\\xef\\xbf\\xbf\\xdf\\xbf\\xe0\\xa0\\x80\\x7f\\xc2\\x80\""),
    (b"\"\\U0041\"", "error: Expected value but found invalid escape code at character 2"),
    (b"\"\\/\\b\\f\\n\\r\\t\\\"\\\\\"", "\"/\\x08\\x0c\\n\\r\\t\\\"\\\\\""),
    (b"\"\\'\"", "error: Expected value but found invalid escape code at character 2"),
    (b"[]", "{}"),
    (b"[1]", "{1: 1}"),
    (b"[1,2,[3]]", "{1: 1, 2: 2, 3: {1: 3}}"),
    (b"[1,]", "error: Expected value but found T_ARR_END at character 4"),
    (b"[,1]", "error: Expected value but found T_COMMA at character 2"),
    (b"[1", "error: Expected comma or array end but found T_END at character 3"),
    (b"[1,", "error: Expected value but found T_END at character 4"),
    (b"[1 2]", "error: Expected comma or array end but found T_NUMBER at character 4"),
    (b"[1:2]", "error: Expected comma or array end but found T_COLON at character 3"),
    (b"[1}", "error: Expected comma or array end but found T_OBJ_END at character 3"),
    (b"[\"a\" \"b\"]", "error: Expected comma or array end but found T_STRING at character 6"),
    (b"[null,1]", "{1: null, 2: 1}"),
    (b"[[],[[]],{}]", "{1: {}, 2: {1: {}}, 3: {}}"),
    (b"{}", "{}"),
    (b"{\"a\":1}", "{\"a\": 1}"),
    (b"{\"a\":1,\"b\":[true,{\"c\":null}]}", "{\"a\": 1, \"b\": {1: true, 2: {\"c\": null}}}"),
    (b"{\"a\":1,\"a\":2}", "{\"a\": 2}"),
    (b"{\"1\":1}", "{\"1\": 1}"),
    (b"{\"\":0}", "{\"\": 0}"),
    (b"{", "error: Expected object key string but found T_END at character 2"),
    (b"{1", "error: Expected object key string but found T_NUMBER at character 2"),
    (b"{\"a\"", "error: Expected colon but found T_END at character 5"),
    (b"{\"a\" 1}", "error: Expected colon but found T_NUMBER at character 6"),
    (b"{\"a\":", "error: Expected value but found T_END at character 6"),
    (b"{\"a\":}", "error: Expected value but found T_OBJ_END at character 6"),
    (b"{\"a\":1", "error: Expected comma or object end but found T_END at character 7"),
    (b"{\"a\":1 2", "error: Expected comma or object end but found T_NUMBER at character 8"),
    (b"{\"a\":1,}", "error: Expected object key string but found T_OBJ_END at character 8"),
    (b"{\"a\":1]", "error: Expected comma or object end but found T_ARR_END at character 7"),
    (b"{\"a\",\"b\"}", "error: Expected colon but found T_COMMA at character 5"),
    (b"{a:1}", "error: Expected object key string but found invalid token at character 2"),
    (b"{[]:1}", "error: Expected object key string but found T_ARR_BEGIN at character 2"),
    (b"{{}:1}", "error: Expected object key string but found T_OBJ_BEGIN at character 2"),
    (b"{null:1}", "error: Expected object key string but found T_NULL at character 2"),
    (b"{true:1}", "error: Expected object key string but found T_BOOLEAN at character 2"),
    (b"]", "error: Expected value but found T_ARR_END at character 1"),
    (b"}", "error: Expected value but found T_OBJ_END at character 1"),
    (b":", "error: Expected value but found T_COLON at character 1"),
    (b",", "error: Expected value but found T_COMMA at character 1"),
    (b"1 2", "error: Expected the end but found T_NUMBER at character 3"),
    (b"1x", "error: Expected the end but found invalid token at character 2"),
    (b"\"a\" \"b\"", "error: Expected the end but found T_STRING at character 5"),
    (b"[] []", "error: Expected the end but found T_ARR_BEGIN at character 4"),
    (b"{\"a\":tru}", "error: Expected value but found invalid token at character 6"),
    (b"{\"a\":1,\"b\":}", "error: Expected value but found T_OBJ_END at character 12"),
    (b"[1.5e3,-0,0.25]", "{1: 1500, 2: -0, 3: 0.25}"),
    (b"'single'", "error: Expected value but found invalid token at character 1"),
    (b"// c", "error: Expected value but found invalid token at character 1"),
    (b"1 // c", "error: Expected the end but found invalid token at character 3"),
    (b"[0x1F,+5,nan(1)]", "{1: 31, 2: 5, 3: nan}"),
    (b"{\"id\":\"1\",\"data\":\"{\\\"x\\\":1}\",\"opts\":{\"attempts\":3,\"backoff\":{\"type\":\"exponential\",\"delay\":1000}}}", "{\"data\": \"{\\\"x\\\":1}\", \"id\": \"1\", \"opts\": {\"attempts\": 3, \"backoff\": {\"delay\": 1000, \"type\": \"exponential\"}}}"),
    (b"\t\r\n 1 \t\r\n", "1"),
    (b"\x0b1", "error: Expected value but found invalid token at character 1"),
    (b"\"\x01\n\"", "\"\\x01\\n\""),
    (b"\"a\0b\"", "error: Expected value but found unexpected end of string at character 3"),
    (b"1\0x", "error: JSON parser does not support UTF-16 or UTF-32"),
    (b"[1]\0x", "{1: 1}"),
    (b"[1\0]", "error: Expected comma or array end but found T_END at character 3"),
    (b"\0", "error: Expected value but found T_END at character 1"),
    (b"\0\0", "error: JSON parser does not support UTF-16 or UTF-32"),
    (b"[\0", "error: JSON parser does not support UTF-16 or UTF-32"),
    (b"\"\xff\xfe\"", "\"\\xff\\xfe\""),
    (b"\xef\xbb\xbf1", "error: Expected value but found invalid token at character 1"),
    (b"[\"a\0\"]", "error: Expected value but found unexpected end of string at character 4"),
];

/// What is decoded otherwise after `cjson.decode_invalid_numbers(false)`.
const DECODED_STRICTLY: &[(&[u8], &str)] = &[
    (b"+1", "error: Expected value but found invalid token at character 1"),
    (b"01", "error: Expected value but found invalid number at character 1"),
    (b"012", "error: Expected value but found invalid number at character 1"),
    (b"0x10", "error: Expected value but found invalid number at character 1"),
    (b"0x", "error: Expected value but found invalid number at character 1"),
    (b"+", "error: Expected value but found invalid token at character 1"),
    (b"inf", "error: Expected value but found invalid token at character 1"),
    (b"-inf", "error: Expected value but found invalid number at character 1"),
    (b"Infinity", "error: Expected value but found invalid token at character 1"),
    (b"nan", "error: Expected value but found invalid token at character 1"),
    (b"NaN", "error: Expected value but found invalid token at character 1"),
    (b"[0x1F,+5,nan(1)]", "error: Expected value but found invalid number at character 2"),
];

fn text(bytes: &[u8]) -> Data {
    Data::Text(bytes.to_vec())
}

/// A table in the order in which the server went through it, and what its `cjson.encode` wrote.
const ENCODED: &[(Given, &[u8])] = &[
    (Nil, b"null"),
    (Bool(true), b"true"),
    (Number(1.0), b"1"),
    (Number(-0.0), b"-0"),
    (Number(0.1), b"0.1"),
    (Number(1000000000000000.0), b"1e+15"),
    (Number(123456789012345.0), b"1.2345678901234e+14"),
    (Number(1e+100), b"1e+100"),
    (Number(1.2345678901234568e+16), b"1.2345678901235e+16"),
    (Number(NEGATIVE_NAN), b"error: Cannot serialise number: must not be NaN or Inf"),
    (Number(f64::INFINITY), b"error: Cannot serialise number: must not be NaN or Inf"),
    (Number(f64::NEG_INFINITY), b"error: Cannot serialise number: must not be NaN or Inf"),
    (
        Text(b"a/b\x7f\x01\x08\t\n\x0b\x0c\r\"\\\0\xff\xe2\x82\xac"),
        b"\"a\\/b\\u007f\\u0001\\b\\t\\n\\u000b\\f\\r\\\"\\\\\\u0000\xff\xe2\x82\xac\"",
    ),
    (Text(b""), b"\"\""),
    (Null, b"null"),
    (Map(&[]), b"{}"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Number(2.0)), (Number(3.0), Number(3.0))]), b"[1,2,3]"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(3.0), Number(3.0))]), b"[1,null,3]"),
    (Map(&[(Number(2.0), Number(2.0))]), b"[null,2]"),
    (
        Map(&[(Number(1.0), Number(1.0)), (Number(10.0), Number(2.0))]),
        b"[1,null,null,null,null,null,null,null,null,2]",
    ),
    (
        Map(&[(Number(3.0), Number(1.0)), (Number(10.0), Number(2.0))]),
        b"[null,null,1,null,null,null,null,null,null,2]",
    ),
    (
        Map(&[(Number(1.0), Number(1.0)), (Number(11.0), Number(2.0))]),
        b"error: Cannot serialise table: excessively sparse array",
    ),
    (
        Map(&[
            (Number(6.0), Number(6.0)),
            (Number(2.0), Number(2.0)),
            (Number(3.0), Number(3.0)),
            (Number(1.0), Number(1.0)),
            (Number(4.0), Number(4.0)),
            (Number(5.0), Number(5.0)),
            (Number(12.0), Number(12.0)),
        ]),
        b"[1,2,3,4,5,6,null,null,null,null,null,12]",
    ),
    (
        Map(&[
            (Number(6.0), Number(6.0)),
            (Number(2.0), Number(2.0)),
            (Number(3.0), Number(3.0)),
            (Number(1.0), Number(1.0)),
            (Number(4.0), Number(4.0)),
            (Number(5.0), Number(5.0)),
            (Number(13.0), Number(13.0)),
        ]),
        b"[1,2,3,4,5,6,null,null,null,null,null,null,13]",
    ),
    (Map(&[(Number(2147483647.0), Number(1.0))]), b"error: Cannot serialise table: excessively sparse array"),
    (Map(&[(Number(2147483648.0), Number(1.0))]), b"{\"2147483648\":1}"),
    (Map(&[(Number(1099511627776.0), Number(1.0))]), b"{\"1099511627776\":1}"),
    (Map(&[(Number(0.0), Number(1.0))]), b"{\"0\":1}"),
    (Map(&[(Number(-1.0), Number(1.0))]), b"{\"-1\":1}"),
    (Map(&[(Number(1.5), Number(1.0))]), b"{\"1.5\":1}"),
    (Map(&[(Number(1e+300), Number(1.0))]), b"{\"1e+300\":1}"),
    (Map(&[(Number(f64::INFINITY), Number(1.0))]), b"error: Cannot serialise number: must not be NaN or Inf"),
    (
        Map(&[(Bool(true), Number(1.0))]),
        b"error: Cannot serialise boolean: table key must be a number or string",
    ),
    (
        Map(&[(Number(1.0), Map(&[(Bool(true), Number(1.0))]))]),
        b"error: Cannot serialise boolean: table key must be a number or string",
    ),
    (
        Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Number(2.0)), (Bool(true), Number(1.0))]),
        b"error: Cannot serialise boolean: table key must be a number or string",
    ),
    (Map(&[(Text(b"a"), Number(1.0))]), b"{\"a\":1}"),
    (Map(&[(Text(b"a"), Number(1.0)), (Number(1.0), Number(2.0))]), b"{\"a\":1,\"1\":2}"),
    (
        Map(&[(Text(b"a"), Map(&[(Text(b"b"), Map(&[(Text(b"c"), Map(&[]))]))]))]),
        b"{\"a\":{\"b\":{\"c\":{}}}}",
    ),
    (
        Map(&[
            (Number(1.0), Map(&[])),
            (Number(2.0), Map(&[(Number(1.0), Map(&[]))])),
            (Number(3.0), Map(&[(Text(b"a"), Map(&[]))])),
        ]),
        b"[{},[{}],{\"a\":{}}]",
    ),
    (Map(&[(Text(b"k/\n"), Text(b"v"))]), b"{\"k\\/\\n\":\"v\"}"),
    (
        Map(&[
            (Text(b"jobId"), Text(b"1")),
            (Text(b"opts"), Map(&[(Text(b"delay"), Number(0.0)), (Text(b"attempts"), Number(3.0))])),
        ]),
        b"{\"jobId\":\"1\",\"opts\":{\"delay\":0,\"attempts\":3}}",
    ),
    (
        Map(&[(Number(3.0), Text(b"c")), (Number(2.0), Text(b"b")), (Number(1.0), Text(b"a"))]),
        b"[\"a\",\"b\",\"c\"]",
    ),
    (
        Map(&[
            (Number(1.0), Number(1.0)),
            (
                Number(2.0),
                Map(&[
                    (Number(1.0), Number(2.0)),
                    (
                        Number(2.0),
                        Map(&[(Number(1.0), Number(3.0)), (Number(2.0), Map(&[(Number(1.0), Number(4.0))]))]),
                    ),
                ]),
            ),
        ]),
        b"[1,[2,[3,[4]]]]",
    ),
    (Map(&[(Number(1.0), Null), (Number(2.0), Null)]), b"[null,null]"),
    (Map(&[(Number(1.0), Number(NEGATIVE_NAN))]), b"error: Cannot serialise number: must not be NaN or Inf"),
];

fn much() -> Budget {
    Budget { fuel: 1 << 30, bytes: 1 << 30 }
}

fn written(data: &Data, options: &JsonOptions, mut budget: Budget) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    encode(data, options, &mut out, &mut budget).map(|()| out)
}

fn read(text: &[u8], options: &JsonOptions, mut budget: Budget) -> String {
    match decode(text, options, &mut budget) {
        Ok(data) => shown(&data),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn tables_are_written_as_on_a_server() {
    for (given, expected) in ENCODED {
        let data = given.data();
        let out = written(&data, &JsonOptions::default(), much());
        let out = out.unwrap_or_else(|error| format!("error: {error}").into_bytes());
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{data:?}");
    }
}

#[test]
fn texts_are_read_as_on_a_server() {
    for (text, expected) in DECODED {
        assert_eq!(read(text, &JsonOptions::default(), much()), *expected, "{}", text.escape_ascii());
    }
    let strict = JsonOptions { decode_invalid_numbers: false, ..JsonOptions::default() };
    for (text, expected) in DECODED_STRICTLY {
        assert_eq!(read(text, &strict, much()), *expected, "{}", text.escape_ascii());
    }
}

/// The expected texts are the server's, after the same options.
#[test]
fn options_are_those_of_a_server() {
    let table =
        |keys: &[f64]| Data::Map(keys.iter().map(|key| (Data::Number(*key), Data::Number(1.0))).collect());
    let check = |options: JsonOptions, data: &Data, expected: &str| {
        let out = written(data, &options, much());
        assert_eq!(out.map(|out| String::from_utf8_lossy(&out).into_owned()), Ok(expected.to_owned()));
    };
    let of = JsonOptions::default;
    check(JsonOptions { sparse_convert: true, ..of() }, &table(&[1.0, 11.0]), r#"{"1":1,"11":1}"#);
    check(JsonOptions { sparse_ratio: 1, sparse_safe: 3, ..of() }, &table(&[1.0, 3.0]), "[1,null,1]");
    check(JsonOptions { number_precision: 3, ..of() }, &Data::Number(1234567.0), "1.23e+06");
    let odd =
        Data::Array([f64::NAN, NEGATIVE_NAN, f64::INFINITY, f64::NEG_INFINITY].map(Data::Number).to_vec());
    let written = JsonOptions { encode_invalid_numbers: InvalidNumbers::Written, ..of() };
    check(written.clone(), &odd, "[nan,nan,inf,-inf]");
    check(written, &table(&[f64::INFINITY]), r#"{"inf":1}"#);
    let null = JsonOptions { encode_invalid_numbers: InvalidNumbers::Null, ..of() };
    check(null.clone(), &odd, "[null,null,null,null]");
    check(null, &table(&[f64::INFINITY]), r#"{"null":1}"#);
    let sparse = JsonOptions { sparse_ratio: 0, ..of() };
    let mut long = "[1".to_owned() + &",null".repeat(1098);
    long.push_str(",1]");
    check(sparse, &table(&[1.0, 1100.0]), &long);
}

#[test]
fn an_array_is_written_as_a_table_with_its_keys() {
    let check = |items: Vec<Data>, expected: &str| {
        assert_eq!(
            written(&Data::Array(items), &JsonOptions::default(), much()),
            Ok(expected.as_bytes().to_vec())
        );
    };
    check(Vec::new(), "{}");
    check(vec![Data::Nil, Data::Nil], "{}");
    check(vec![Data::Bool(true), Data::Nil, text(b"x"), Data::Nil], r#"[true,null,"x"]"#);
    let mut sparse = vec![Data::Nil; 20];
    sparse.push(Data::Number(1.0));
    let convert = JsonOptions { sparse_convert: true, ..JsonOptions::default() };
    assert!(written(&Data::Array(sparse.clone()), &JsonOptions::default(), much()).is_err());
    assert_eq!(written(&Data::Array(sparse), &convert, much()), Ok(br#"{"21":1}"#.to_vec()));
}

fn nested(depth: usize) -> Data {
    (0..depth).fold(Data::Number(1.0), |inner, _| Data::Array(vec![inner]))
}

/// The messages are the server's.
#[test]
fn nesting_is_bounded() {
    let options = JsonOptions::default();
    assert!(written(&nested(1000), &options, much()).is_ok());
    let error = Err("Cannot serialise, excessive nesting (1001)".to_owned());
    assert_eq!(written(&nested(1001), &options, much()), error);
    assert!(!read(&[b"[".repeat(1000), b"]".repeat(1000)].concat(), &options, much()).starts_with("error"));
    let error = "error: Found too many nested data structures (1001) at character ";
    assert_eq!(read(&b"[".repeat(100_000), &options, much()), format!("{error}1001"));
    assert_eq!(read(&br#"{"a":"#.repeat(1001), &options, much()), format!("{error}5001"));
    let shallow = JsonOptions { decode_max_depth: 2, max_depth: 2, ..options.clone() };
    assert_eq!(
        read(b"[[{", &shallow, much()),
        "error: Found too many nested data structures (3) at character 3"
    );
    assert!(written(&nested(3), &shallow, much()).is_err());
    let deep = JsonOptions { decode_max_depth: usize::MAX, max_depth: usize::MAX, ..options };
    assert!(read(&b"[".repeat(5000), &deep, much()).contains("too many nested"));
    assert!(written(&nested(1001), &deep, much()).is_err());
}

#[test]
fn all_is_paid() {
    let options = JsonOptions { sparse_ratio: 0, ..JsonOptions::default() };
    let huge = Data::Map(vec![(Data::Number(2_147_483_647.0), Data::Number(1.0))]);
    let little = Budget { fuel: 1 << 40, bytes: 1 << 20 };
    assert_eq!(written(&huge, &options, little), Err("not enough memory".to_owned()));
    let brief = Budget { fuel: 1 << 20, bytes: 1 << 40 };
    assert_eq!(written(&huge, &options, brief), Err("script took too many steps".to_owned()));
    let list = [b"[".to_vec(), b"1,".repeat(100_000), b"1]".to_vec()].concat();
    assert_eq!(read(&list, &options, little), "error: not enough memory");
    assert_eq!(
        read(&list, &options, Budget { fuel: 50_000, bytes: 1 << 40 }),
        "error: script took too many steps"
    );
    let text = [b"\"".to_vec(), vec![b'a'; 1 << 21], b"\"".to_vec()].concat();
    assert_eq!(read(&text, &options, little), "error: not enough memory");
    let control = Data::Text(vec![1; 1 << 18]);
    assert_eq!(written(&control, &options, little), Err("not enough memory".to_owned()));
}

#[test]
fn what_is_written_is_read_again() {
    for (given, json) in ENCODED {
        let data = given.data();
        if json.starts_with(b"error") {
            continue;
        }
        let again = decode(json, &JsonOptions::default(), &mut much()).unwrap_or(Data::Nil);
        assert_eq!(written(&again, &JsonOptions::default(), much()).as_deref(), Ok(*json), "{data:?}");
    }
}
