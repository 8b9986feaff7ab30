//! Layouts of bytes, as redis-server 7.0.15 writes and reads them, and what hostile ones cost.

use super::*;
use crate::data::tests::{Given, Given::*, shown};

const NEGATIVE_NAN: f64 = f64::from_bits(0xfff8 << 48);

/// A format, bytes, a position, and what the server's `struct.unpack` made of them: the next position, and the values.
type Unpacked = (&'static [u8], &'static [u8], usize, &'static str);

const UNPACKED: &[Unpacked] = &[
    (b"b", b"\xff", 1, "2 -1"),
    (b"B", b"\xff", 1, "2 255"),
    (b"h", b"\xff\xfe", 1, "3 -257"),
    (b">h", b"\xff\xfe", 1, "3 -2"),
    (b"H", b"\xff\xfe", 1, "3 65279"),
    (b"bbb", b"\x01\x02\x03", 1, "4 1 2 3"),
    (b"bbb", b"\x01\x02", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"i3", b"\x01\x02\xff", 1, "4 -65023"),
    (b"I3", b"\x01\x02\xff", 1, "4 16712193"),
    (b"i16", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1, "17 -1"),
    (
        b"I16",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        1,
        "17 1.8446744073709552e+19",
    ),
    (b">i16", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1, "17 -1"),
    (b">I10", b"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", 1, "11 72340172838076672"),
    (b"i9", b"\0\0\0\0\0\0\0\0\x01", 1, "10 0"),
    (b"i9", b"\x80\0\0\0\0\0\0\0\0", 1, "10 -128"),
    (b"i17", b"\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81", 1, "18 -127"),
    (b"l", b"\xff\xff\xff\xff\xff\xff\xff\x7f", 1, "9 9.2233720368547758e+18"),
    (b"L", b"\xff\xff\xff\xff\xff\xff\xff\xff", 1, "9 1.8446744073709552e+19"),
    (b"T", b"\xff\xff\xff\xff\xff\xff\xff\xff", 1, "9 1.8446744073709552e+19"),
    (b"i", b"\xff\xff\xff\xff", 1, "5 -1"),
    (b"I", b"\xff\xff\xff\xff", 1, "5 4294967295"),
    (b"i0", b"", 1, "1 0"),
    (b"I0", b"a", 1, "1 0"),
    (b"s", b"abc\0def", 1, "5 \"abc\""),
    (b"s", b"abc", 1, "error: unfinished string in data"),
    (b"ss", b"a\0b\0", 1, "5 \"a\" \"b\""),
    (b"bc0", b"\x03abcdef", 1, "5 \"abc\""),
    (b"c0", b"abc", 1, "error: format 'c0' needs a previous size"),
    (b"sc0", b"3\0abc", 1, "6 \"abc\""),
    (b"sc0", b"x\0abc", 1, "error: format 'c0' needs a previous size"),
    (b"bc0", b"\x05abc", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"bc0", b"\xfbabc", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"bc0", b"\0abc", 1, "2 \"\""),
    (b"dc0", b"\x9a\x99\x99\x99\x99\x99\x05@abc", 1, "11 \"ab\""),
    (b"dc0", b"\0\0\0\0\0\0\0\xc0abc", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"dc0", b"\xea\x8c\xa09Y>)Fabc", 1, "9 \"\""),
    (b"dc0", b"\0\0\0\0\0\0\xf8\x7fabc", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"c2", b"abc", 1, "3 \"ab\""),
    (b"c4", b"abc", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"c", b"abc", 1, "2 \"a\""),
    (b"x", b"abc", 1, "2"),
    (b"xc1", b"abc", 1, "3 \"b\""),
    (b"b", b"abc", 2, "3 98"),
    (b"b", b"abc", 3, "4 99"),
    (b"b", b"abc", 4, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"b", b"abc", 0, "error: bad argument #3 to 'unpack' (offset must be 1 or greater)"),
    (b"", b"abc", 4, "4"),
    (b"", b"abc", 10, "10"),
    (b" ", b"abc", 10, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"y", b"abc", 10, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"y", b"abc", 1, "error: bad argument #1 to 'unpack' (invalid format option 'y')"),
    (b"=", b"abc", 1, "error: bad argument #1 to 'unpack' (invalid format option '=')"),
    (b"!3", b"abc", 1, "error: alignment 3 is not a power of 2"),
    (b"b", b"abc", 10, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"s", b"abc", 4, "error: unfinished string in data"),
    (b"s", b"abc", 9, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"!4bi", b"\x01\0\0\0\x02\0\0\0", 1, "9 1 2"),
    (b"!4bi", b"\x01\0\0\0\x02\0\0", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"!4i", b"\x01\0\0\0\x02\0\0\0", 2, "9 2"),
    (b"f", b"\0\0\xc0?", 1, "5 1.5"),
    (b">f", b"?\xc0\0\0", 1, "5 1.5"),
    (b"d", b"\0\0\0\0\0\0\xf8?", 1, "9 1.5"),
    (b"f", b"\0\0\xc0\xff", 1, "5 nan"),
    (b"f", b"\x01\0\0\0", 1, "5 1.4012984643248171e-45"),
    (b"c2147483647", b"abc", 1, "error: bad argument #2 to 'unpack' (data string too short)"),
    (b"c2147483648", b"abc", 1, "error: integral size overflow"),
    (b"i33", b"abc", 1, "error: integral size 33 is larger than limit of 32"),
    (b">h<h>h", b"\0\x01\x01\0\0\x01", 1, "7 1 1 1"),
    (b"b\0y", b"\x01\x02", 1, "2 1"),
    (b"bxb", b"\x01\x02\x03", 1, "4 1 3"),
];

/// A format, and what the server's `struct.size` said of it.
const SIZES: &[(&[u8], &str)] = &[
    (b"bBhHlLTiIfdx", "51"),
    (b"!8bdbi", "24"),
    (b"c5", "5"),
    (b"i3", "3"),
    (b"", "0"),
    (b"x3", "1"),
    (b"!4 bi", "8"),
    (b"> b < h", "3"),
    (b"s", "error: bad argument #1 to 'size' (option 's' has no fixed size)"),
    (b"c0", "error: bad argument #1 to 'size' (option 'c0' has no fixed size)"),
    (b"y", "0"),
    (b"5", "0"),
    (b"=", "error: bad argument #1 to 'size' (invalid format option '=')"),
    (b"%", "error: bad argument #1 to 'size' (invalid format option '%')"),
    (b"c2147483647", "2147483647"),
    (b"c2147483647c2147483647", "4294967294"),
    (b"c2147483648", "error: integral size overflow"),
    (b"i33", "error: integral size 33 is larger than limit of 32"),
    (b"!3", "error: alignment 3 is not a power of 2"),
    (b"!", "0"),
    (b"!16bi16", "32"),
    (b"!8bi3", "6"),
    (b"z9", "0"),
    (b"b\0s", "1"),
];

fn text(bytes: &[u8]) -> Data {
    Data::Text(bytes.to_vec())
}

/// A format, values, and what the server's `struct.pack` made of them, in hexadecimal digits.
type Packed = (&'static [u8], &'static [Given], &'static str);

const PACKED: &[Packed] = &[
    (
        b"bBhHlLTiIfdx",
        &[
            Number(1.0),
            Number(2.0),
            Number(3.0),
            Number(4.0),
            Number(5.0),
            Number(6.0),
            Number(7.0),
            Number(8.0),
            Number(9.0),
            Number(1.5),
            Number(2.5),
        ],
        "01020300040005000000000000000600000000000000070000000000000008000000090000000000c03f000000000000044000",
    ),
    (
        b">bBhHlLTiIfdx",
        &[
            Number(1.0),
            Number(2.0),
            Number(3.0),
            Number(4.0),
            Number(5.0),
            Number(6.0),
            Number(7.0),
            Number(8.0),
            Number(9.0),
            Number(1.5),
            Number(2.5),
        ],
        "01020003000400000000000000050000000000000006000000000000000700000008000000093fc00000400400000000000000",
    ),
    (
        b"i1i2i3i5i8i16i32",
        &[Number(1.0), Number(-2.0), Number(3.0), Number(-4.0), Number(5.0), Number(-6.0), Number(7.0)],
        "01feff030000fcffffffff0500000000000000faffffffffffffff00000000000000000700000000000000000000000000000000000000000000000000000000000000",
    ),
    (
        b">i1i2i3i5i8i16i32",
        &[Number(1.0), Number(-2.0), Number(3.0), Number(-4.0), Number(5.0), Number(-6.0), Number(7.0)],
        "01fffe000003fffffffffc00000000000000050000000000000000fffffffffffffffa0000000000000000000000000000000000000000000000000000000000000007",
    ),
    (b"i33", &[Number(1.0)], "error: integral size 33 is larger than limit of 32"),
    (b"i0", &[Number(1.0)], ""),
    (b"I99999999999", &[Number(1.0)], "error: integral size overflow"),
    (b"I2147483648", &[Number(1.0)], "error: integral size overflow"),
    (b"I2147483647", &[Number(1.0)], "error: integral size 2147483647 is larger than limit of 32"),
    (b"!4bi", &[Number(1.0), Number(2.0)], "0100000002000000"),
    (b"!bi", &[Number(1.0), Number(2.0)], "0100000002000000"),
    (b"!2bi", &[Number(1.0), Number(2.0)], "010002000000"),
    (b"!8bd", &[Number(1.0), Number(2.0)], "01000000000000000000000000000040"),
    (b"!16bd", &[Number(1.0), Number(2.0)], "01000000000000000000000000000040"),
    (b"bi", &[Number(1.0), Number(2.0)], "0102000000"),
    (b"!3bi", &[Number(1.0), Number(2.0)], "error: alignment 3 is not a power of 2"),
    (b"!0bi", &[Number(1.0), Number(2.0)], "error: alignment 0 is not a power of 2"),
    (b"!bi3", &[Number(1.0), Number(2.0)], "010000020000"),
    (b"!8bi6", &[Number(1.0), Number(5.0)], "010000000000050000000000"),
    (b"!4bi12", &[Number(1.0), Number(5.0)], "01000000050000000000000000000000"),
    (b"!16bi12", &[Number(1.0), Number(5.0)], "010000000000000000000000050000000000000000000000"),
    (
        b"!32bi32",
        &[Number(1.0), Number(1.0)],
        "01000000000000000000000000000000000000000000000000000000000000000100000000000000000000000000000000000000000000000000000000000000",
    ),
    (b"=", &[Number(1.0)], "error: bad argument #1 to 'pack' (invalid format option '=')"),
    (b"y", &[Number(1.0)], "error: bad argument #1 to 'pack' (invalid format option 'y')"),
    (b"5", &[Number(1.0)], "error: bad argument #1 to 'pack' (invalid format option '5')"),
    (b"n", &[Number(1.0)], "error: bad argument #1 to 'pack' (invalid format option 'n')"),
    (b"b", &[], "error: bad argument #2 to 'pack' (number expected, got nil)"),
    (b"b", &[Text(b"x")], "error: bad argument #2 to 'pack' (number expected, got string)"),
    (b"b", &[Map(&[])], "error: bad argument #2 to 'pack' (number expected, got table)"),
    (b"b", &[Bool(true)], "error: bad argument #2 to 'pack' (number expected, got boolean)"),
    (b"b", &[Null], "error: bad argument #2 to 'pack' (number expected, got userdata)"),
    (b"b", &[Text(b"12")], "0c"),
    (b"b", &[Text(b"0x10")], "10"),
    (b"s", &[Map(&[])], "error: bad argument #2 to 'pack' (string expected, got table)"),
    (b"s", &[], "error: bad argument #2 to 'pack' (string expected, got nil)"),
    (b"s", &[Number(12.0)], "313200"),
    (b"s", &[Number(1.5)], "312e3500"),
    (b"s", &[Text(b"a\0b")], "61006200"),
    (b"c2", &[Text(b"abc")], "6162"),
    (b"c0", &[Text(b"abc")], "616263"),
    (b"c", &[Text(b"abc")], "61"),
    (b"c4", &[Text(b"abc")], "error: bad argument #3 to 'pack' (string too short)"),
    (b"c1", &[Text(b"")], "error: bad argument #3 to 'pack' (string too short)"),
    (b"bc4", &[Number(1.0), Text(b"abc")], "error: bad argument #4 to 'pack' (string too short)"),
    (b"c3", &[Bool(true)], "error: bad argument #2 to 'pack' (string expected, got boolean)"),
    (b"x", &[], "00"),
    (b"b B", &[Number(300.0), Number(300.0)], "2c2c"),
    (b"B", &[Number(-1.0)], "ff"),
    (b"h", &[Number(1.9)], "0100"),
    (b"h", &[Number(-1.9)], "ffff"),
    (b"l", &[Number(1e+300)], "0000000000000000"),
    (b"L", &[Number(-1e+300)], "0000000000000080"),
    (b"l", &[Number(NEGATIVE_NAN)], "0000000000000080"),
    (b"L", &[Number(9.223372036854776e+18)], "0000000000000080"),
    (b"l", &[Number(9.223372036854776e+18)], "0000000000000080"),
    (b"I", &[Number(9.223372036854778e+18)], "00080000"),
    (b"L", &[Number(f64::INFINITY)], "0000000000000000"),
    (b"f", &[Number(1e+300)], "0000807f"),
    (b"f", &[Number(NEGATIVE_NAN)], "0000c0ff"),
    (b"f", &[Number(f64::NAN)], "0000c07f"),
    (b"f", &[Number(0.1)], "cdcccc3d"),
    (b"f", &[Number(1e-45)], "01000000"),
    (b"d", &[Number(NEGATIVE_NAN)], "000000000000f8ff"),
    (b"< i2 > i2", &[Number(1.0), Number(1.0)], "01000001"),
    (b"!4bc3i", &[Number(1.0), Text(b"abc"), Number(5.0)], "0161626305000000"),
    (b"!4bsi", &[Number(1.0), Text(b"abc"), Number(5.0)], "016162630000000005000000"),
    (b"!4bxi", &[Number(1.0), Number(5.0)], "0100000005000000"),
    (b"Bc0", &[Number(3.0), Text(b"abc")], "03616263"),
    (b">I2c0s", &[Number(3.0), Text(b"abc"), Text(b"z")], "00036162637a00"),
    (b"b\0y", &[Number(1.0)], "01"),
];

fn much() -> Budget {
    Budget { fuel: 1 << 30, bytes: 1 << 30 }
}

fn or_error(result: Result<String, String>) -> String {
    result.unwrap_or_else(|error| format!("error: {error}"))
}

#[test]
fn values_are_packed_as_on_a_server() {
    for (format, values, expected) in PACKED {
        let values: Vec<Data> = values.iter().map(Given::data).collect();
        let bytes = pack(format, &values, &mut much());
        let hex = bytes.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        assert_eq!(or_error(hex), *expected, "{} {values:?}", format.escape_ascii());
    }
}

#[test]
fn values_are_unpacked_as_on_a_server() {
    for (format, bytes, position, expected) in UNPACKED {
        let found = unpack(format, bytes, *position, &mut much()).map(|(values, next)| {
            let values = values.iter().map(|value| format!(" {}", shown(value)));
            format!("{next}{}", values.collect::<String>())
        });
        let case = format!("{} {} {position}", format.escape_ascii(), bytes.escape_ascii());
        assert_eq!(or_error(found), *expected, "{case}");
    }
}

#[test]
fn sizes_are_those_of_a_server() {
    for (format, expected) in SIZES {
        let found = or_error(size(format).map(|size| size.to_string()));
        assert_eq!(found, *expected, "{}", format.escape_ascii());
    }
}

#[test]
fn positions_beyond_all_are_too_short() {
    for position in [4, 5, usize::MAX] {
        assert_eq!(unpack(b"b", b"abc", position, &mut much()), Err(too_short()));
    }
    let many = unpack(&b"b".repeat(9000), &[1; 9000], 1, &mut much());
    assert_eq!(many, Err("stack overflow (too many results)".to_owned()));
}

#[test]
fn all_is_paid() {
    let little = Budget { fuel: 1 << 20, bytes: 1000 };
    let large = Data::Text(vec![b'x'; 1000]);
    assert_eq!(pack(b"s", &[large], &mut { little }), Err("not enough memory".to_owned()));
    let bytes = vec![b'x'; 1001];
    assert_eq!(unpack(b"c1001", &bytes, 1, &mut { little }), Err("not enough memory".to_owned()));
    let brief = Budget { fuel: 20, bytes: 1 << 20 };
    assert_eq!(unpack(b"s", &bytes, 1, &mut { brief }), Err("script took too many steps".to_owned()));
    assert_eq!(pack(&b"x".repeat(1000), &[], &mut { brief }), Err("script took too many steps".to_owned()));
    // Nothing of that size is made before it is known that the text has it.
    let error = pack(b"c2147483647", &[text(b"abc")], &mut { little });
    assert_eq!(error, Err("bad argument #3 to 'pack' (string too short)".to_owned()));
}
