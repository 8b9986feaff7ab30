//! MessagePack, as redis-server 7.0.15 writes and reads it, and what hostile texts cost.

use super::*;
use crate::data::tests::{Given, Given::*, shown};

const NEGATIVE_NAN: f64 = f64::from_bits(0xfff8 << 48);

/// Bytes, and what the server's `cmsgpack.unpack_one` made of them: where the value ended, and the value.
const DECODED: &[(&str, &str)] = &[
    ("00", "1 0"),
    ("7f", "1 127"),
    ("ff", "1 -1"),
    ("e0", "1 -32"),
    ("c0", "1 nil"),
    ("c1", "error: Bad data format in input."),
    ("c2", "1 false"),
    ("c3", "1 true"),
    ("cc", "error: Missing bytes in input."),
    ("cc80", "2 128"),
    ("ccff", "2 255"),
    ("cd01", "error: Missing bytes in input."),
    ("cd0100", "3 256"),
    ("ce00010000", "5 65536"),
    ("ceffffffff", "5 4294967295"),
    ("cf0000000100000000", "9 4294967296"),
    ("cfffffffffffffffff", "9 -1"),
    ("d0", "error: Missing bytes in input."),
    ("d0df", "2 -33"),
    ("d1ff7f", "3 -129"),
    ("d2ffff7fff", "5 -32769"),
    ("d3ffffffff7fffffff", "9 -2147483649"),
    ("d38000000000000000", "9 -9.2233720368547758e+18"),
    ("ca3fc00000", "5 1.5"),
    ("ca3fc000", "error: Missing bytes in input."),
    ("caff800000", "5 -inf"),
    ("ca7fc00000", "5 nan"),
    ("cb3fb999999999999a", "9 0.10000000000000001"),
    ("cb7ff8000000000000", "9 nan"),
    ("cb", "error: Missing bytes in input."),
    ("a0", "1 \"\""),
    ("a161", "2 \"a\""),
    ("a2", "error: Missing bytes in input."),
    ("a161ff", "2 \"a\""),
    ("bf61", "error: Missing bytes in input."),
    ("d90161", "3 \"a\""),
    ("d902", "error: Missing bytes in input."),
    ("d9", "error: Missing bytes in input."),
    ("da000161", "4 \"a\""),
    ("da00", "error: Missing bytes in input."),
    ("db0000000161", "6 \"a\""),
    ("dbffffffff61", "error: Missing bytes in input."),
    ("c401", "error: Bad data format in input."),
    ("c40161", "error: Bad data format in input."),
    ("c5000161", "error: Bad data format in input."),
    ("c60000000161", "error: Bad data format in input."),
    ("c70101", "error: Bad data format in input."),
    ("c8000101", "error: Bad data format in input."),
    ("c900000001", "error: Bad data format in input."),
    ("d40101", "error: Bad data format in input."),
    ("d50101", "error: Bad data format in input."),
    ("d6", "error: Bad data format in input."),
    ("d7", "error: Bad data format in input."),
    ("d8", "error: Bad data format in input."),
    ("90", "1 {}"),
    ("9101", "2 {1: 1}"),
    ("9201", "error: Missing bytes in input."),
    ("93c0c3c2", "4 {2: true, 3: false}"),
    ("92c001", "3 {2: 1}"),
    ("dc00020102", "5 {1: 1, 2: 2}"),
    ("dc0002", "error: Missing bytes in input."),
    ("dd0000000101", "6 {1: 1}"),
    ("ddffffffff01", "error: Missing bytes in input."),
    ("80", "1 {}"),
    ("81a16101", "4 {\"a\": 1}"),
    ("81a161", "error: Missing bytes in input."),
    ("8101", "error: Missing bytes in input."),
    ("82a16101a16202", "7 {\"a\": 1, \"b\": 2}"),
    ("de0001a16101", "6 {\"a\": 1}"),
    ("df00000001a16101", "8 {\"a\": 1}"),
    ("dfffffffff01", "error: Missing bytes in input."),
    ("81c301", "3 {true: 1}"),
    ("8190c0", "3 {}"),
    ("919191", "error: Missing bytes in input."),
    ("9191917f", "4 {1: {1: {1: 127}}}"),
    ("929190818080", "6 {1: {1: {}}, 2: {{}: {}}}"),
    ("81a1618102c0", "6 {\"a\": {}}"),
    ("9200c1", "error: Bad data format in input."),
];

/// A value, its tables in the order in which the server went through them, and what its `cmsgpack.pack` wrote.
const ENCODED: &[(Given, &str)] = &[
    (Nil, "c0"),
    (Bool(true), "c3"),
    (Bool(false), "c2"),
    (Number(0.0), "00"),
    (Number(127.0), "7f"),
    (Number(128.0), "cc80"),
    (Number(255.0), "ccff"),
    (Number(256.0), "cd0100"),
    (Number(65535.0), "cdffff"),
    (Number(65536.0), "ce00010000"),
    (Number(4294967295.0), "ceffffffff"),
    (Number(4294967296.0), "cf0000000100000000"),
    (Number(9007199254740992.0), "cf0020000000000000"),
    (Number(4.611686018427388e+18), "cf4000000000000000"),
    (Number(9.223372036854776e+18), "ca5f000000"),
    (Number(1.8446744073709552e+19), "ca5f800000"),
    (Number(1e+300), "cb7e37e43c8800759c"),
    (Number(-1.0), "ff"),
    (Number(-32.0), "e0"),
    (Number(-33.0), "d0df"),
    (Number(-128.0), "d080"),
    (Number(-129.0), "d1ff7f"),
    (Number(-32768.0), "d18000"),
    (Number(-32769.0), "d2ffff7fff"),
    (Number(-2147483648.0), "d280000000"),
    (Number(-2147483649.0), "d3ffffffff7fffffff"),
    (Number(-9.223372036854776e+18), "d38000000000000000"),
    (Number(-1.8446744073709552e+19), "cadf800000"),
    (Number(-0.0), "00"),
    (Number(1.5), "ca3fc00000"),
    (Number(0.1), "cb3fb999999999999a"),
    (Number(f64::INFINITY), "ca7f800000"),
    (Number(f64::NEG_INFINITY), "caff800000"),
    (Number(NEGATIVE_NAN), "cbfff8000000000000"),
    (Number(f64::NAN), "cb7ff8000000000000"),
    (Number(1e-320), "cb00000000000007e8"),
    (Null, "c0"),
    (Text(b""), "a0"),
    (Text(b"a"), "a161"),
    (Text(b"a\0\xff"), "a36100ff"),
    (Text(b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), "bf78787878787878787878787878787878787878787878787878787878787878"),
    (Text(b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), "d9207878787878787878787878787878787878787878787878787878787878787878"),
    (Text(b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), "d9ff787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"),
    (Map(&[]), "90"),
    (Map(&[(Number(1.0), Number(1.0))]), "9101"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Number(2.0)), (Number(3.0), Number(3.0))]), "93010203"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(3.0), Number(3.0))]), "8201010303"),
    (Map(&[(Number(2.0), Number(1.0))]), "810201"),
    (Map(&[(Number(3.0), Number(3.0)), (Number(2.0), Number(2.0)), (Number(1.0), Number(1.0))]), "93010203"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Number(2.0)), (Number(4.0), Number(4.0)), (Number(3.0), Number(3.0))]), "9401020304"),
    (Map(&[(Text(b"a"), Number(1.0))]), "81a16101"),
    (Map(&[(Number(1.0), Number(1.0)), (Text(b"a"), Number(2.0))]), "820101a16102"),
    (Map(&[(Number(1.5), Number(1.0))]), "81ca3fc0000001"),
    (Map(&[(Number(0.0), Number(1.0))]), "810001"),
    (Map(&[(Number(-1.0), Number(5.0))]), "81ff05"),
    (Map(&[(Number(2147483648.0), Number(5.0))]), "81ce8000000005"),
    (Map(&[(Bool(true), Number(1.0))]), "81c301"),
    (Map(&[(Map(&[]), Number(1.0))]), "819001"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Map(&[(Number(1.0), Number(2.0)), (Number(2.0), Map(&[(Number(1.0), Number(3.0)), (Number(2.0), Map(&[(Text(b"a"), Map(&[]))]))]))]))]), "92019202920381a16190"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Number(2.0)), (Number(3.0), Number(3.0)), (Number(4.0), Number(4.0)), (Number(5.0), Number(5.0)), (Number(6.0), Number(6.0)), (Number(7.0), Number(7.0)), (Number(8.0), Number(8.0)), (Number(9.0), Number(9.0)), (Number(10.0), Number(10.0)), (Number(11.0), Number(11.0)), (Number(12.0), Number(12.0)), (Number(13.0), Number(13.0)), (Number(14.0), Number(14.0)), (Number(15.0), Number(15.0))]), "9f0102030405060708090a0b0c0d0e0f"),
    (Map(&[(Number(1.0), Number(1.0)), (Number(2.0), Number(2.0)), (Number(3.0), Number(3.0)), (Number(4.0), Number(4.0)), (Number(5.0), Number(5.0)), (Number(6.0), Number(6.0)), (Number(7.0), Number(7.0)), (Number(8.0), Number(8.0)), (Number(9.0), Number(9.0)), (Number(10.0), Number(10.0)), (Number(11.0), Number(11.0)), (Number(12.0), Number(12.0)), (Number(13.0), Number(13.0)), (Number(14.0), Number(14.0)), (Number(15.0), Number(15.0)), (Number(16.0), Number(16.0))]), "dc00100102030405060708090a0b0c0d0e0f10"),
    (Map(&[(Text(b"a"), Number(1.0)), (Text(b"p"), Number(16.0)), (Text(b"c"), Number(3.0)), (Text(b"b"), Number(2.0)), (Text(b"e"), Number(5.0)), (Text(b"d"), Number(4.0)), (Text(b"g"), Number(7.0)), (Text(b"f"), Number(6.0)), (Text(b"i"), Number(9.0)), (Text(b"h"), Number(8.0)), (Text(b"k"), Number(11.0)), (Text(b"j"), Number(10.0)), (Text(b"m"), Number(13.0)), (Text(b"l"), Number(12.0)), (Text(b"o"), Number(15.0)), (Text(b"n"), Number(14.0))]), "de0010a16101a17010a16303a16202a16505a16404a16707a16606a16909a16808a16b0ba16a0aa16d0da16c0ca16f0fa16e0e"),
    (Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Number(1.0))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]), "9191919191919191919191919191919101"),
    (Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Map(&[(Number(1.0), Number(1.0))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]), "91919191919191919191919191919191c0"),
    (Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[(Text(b"a"), Map(&[]))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]))]), "81a16181a16181a16181a16181a16181a16181a16181a16181a16181a16181a16181a16181a16181a16181a16181a161c0"),
];

fn much() -> Budget {
    Budget { fuel: 1 << 30, bytes: 1 << 30 }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn written(data: &Data, mut budget: Budget) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    encode(data, &mut out, &mut budget).map(|()| out)
}

#[test]
fn values_are_written_as_on_a_server() {
    for (given, expected) in ENCODED {
        let data = given.data();
        assert_eq!(written(&data, much()).map(|out| hex(&out)), Ok((*expected).to_owned()), "{data:?}");
    }
}

#[test]
fn values_are_read_as_on_a_server() {
    for (bytes, expected) in DECODED {
        let found = match decode_one(&unhex(bytes), 0, &mut much()) {
            Ok((data, end)) => format!("{end} {}", shown(&data)),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(found, *expected, "{bytes}");
    }
}

#[test]
fn lengths_take_as_many_bytes_as_they_need() {
    let begin = |data: &Data| hex(&written(data, much()).unwrap_or_default()[..5]);
    assert_eq!(begin(&Data::Text(vec![b'x'; 256])), "da01007878");
    assert_eq!(begin(&Data::Text(vec![b'x'; 65536])), "db00010000");
    assert_eq!(begin(&Data::Array(vec![Data::Bool(true); 65535])), "dcffffc3c3");
    assert_eq!(begin(&Data::Array(vec![Data::Bool(true); 65536])), "dd00010000");
    assert_eq!(written(&Data::Array(vec![Data::Bool(true), Data::Nil]), much()), Ok(unhex("91c3")));
    let holed = Data::Array(vec![Data::Nil, Data::Bool(true), Data::Nil]);
    assert_eq!(written(&holed, much()), Ok(unhex("8102c3")));
}

#[test]
fn several_values_are_read_one_after_the_other() {
    let bytes = unhex("01a1619102");
    let mut places = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        (_, place) = decode_one(&bytes, place, &mut much()).expect("a value");
        places.push(place);
    }
    assert_eq!(places, [1, 3, 5]);
    for place in [5, 6, usize::MAX] {
        assert_eq!(decode_one(&bytes, place, &mut much()), Err("Missing bytes in input.".to_owned()));
    }
}

#[test]
fn nesting_is_bounded() {
    assert!(decode_one(&[vec![0x91; 1000], vec![1]].concat(), 0, &mut much()).is_ok());
    for (tag, table) in [(&[0x91][..], "array"), (&[0x81, 1], "hash")] {
        let error = Err(format!("stack overflow (in function mp_decode_to_lua_{table})"));
        assert_eq!(decode_one(&tag.repeat(100_000), 0, &mut much()), error);
    }
}

#[test]
fn all_is_paid() {
    let little = Budget { fuel: 1 << 30, bytes: 1 << 16 };
    let bytes = [unhex("dd000186a0"), vec![1; 100_000]].concat();
    assert_eq!(decode_one(&bytes, 0, &mut { little }), Err("not enough memory".to_owned()));
    let brief = Budget { fuel: 1 << 10, bytes: 1 << 30 };
    assert_eq!(decode_one(&bytes, 0, &mut { brief }), Err("script took too many steps".to_owned()));
    let large = Data::Text(vec![b'x'; 1 << 17]);
    assert_eq!(written(&large, little), Err("not enough memory".to_owned()));
}
