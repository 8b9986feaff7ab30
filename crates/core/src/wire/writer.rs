//! Writes messages in postcard's form, byte for byte, in fewer steps than postcard does: at the end of a frame, and each
//! byte where it is known. A frame is thousands of such steps.

use postcard::{Error, Result};
use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// See the module's text.
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

/// The bits of a byte that are of the number; the other one says that another byte follows.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// A number that takes so many bytes, the lowest first.
#[inline(always)]
fn in_bytes<const N: usize>(number: u64) -> [u8; N] {
    std::array::from_fn(|at| {
        let bits = (number >> (BITS * at as u32)) as u8;
        if at + 1 < N { bits | MORE } else { bits }
    })
}

impl Writer<'_> {
    /// A number of variable length: most are short.
    #[inline(always)]
    fn number(&mut self, number: u64) {
        match number {
            0..0x80 => self.0.push(number as u8),
            _ => self.long_number(number),
        }
    }

    /// Most of these are sequence numbers, and names of shards, which have 32 bits.
    #[inline(never)]
    fn long_number(&mut self, mut number: u64) {
        match number {
            0x80..0x4000 => self.0.extend_from_slice(&in_bytes::<2>(number)),
            0x4000..0x20_0000 => self.0.extend_from_slice(&in_bytes::<3>(number)),
            0x1000_0000..0x8_0000_0000 => self.0.extend_from_slice(&in_bytes::<5>(number)),
            _ => {
                while number >= u64::from(MORE) {
                    self.0.push(number as u8 | MORE);
                    number >>= BITS;
                }
                self.0.push(number as u8);
            }
        }
    }

    /// One with a sign: the smaller its distance from 0, the shorter.
    #[inline(always)]
    fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> (i64::BITS - 1))) as u64);
    }

    #[inline(always)]
    fn length(&mut self, length: Option<usize>) -> Result<()> {
        self.number(length.ok_or(Error::SerializeSeqLengthUnknown)? as u64);
        Ok(())
    }
}

macro_rules! numbers {
    ($way:ident as $wide:ty: $($method:ident($number:ty)),*) => {
        $(#[inline(always)]
        fn $method(self, number: $number) -> Result<()> {
            self.$way(<$wide>::from(number));
            Ok(())
        })*
    };
}

impl Serializer for &mut Writer<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers!(number as u64: serialize_u16(u16), serialize_u32(u32), serialize_u64(u64));
    numbers!(signed as i64: serialize_i16(i16), serialize_i32(i32), serialize_i64(i64));

    #[inline(always)]
    fn is_human_readable(&self) -> bool {
        false
    }

    #[inline(always)]
    fn serialize_bool(self, value: bool) -> Result<()> {
        self.serialize_u8(u8::from(value))
    }

    #[inline(always)]
    fn serialize_i8(self, number: i8) -> Result<()> {
        self.serialize_u8(number.cast_unsigned())
    }

    #[inline(always)]
    fn serialize_u8(self, number: u8) -> Result<()> {
        self.0.push(number);
        Ok(())
    }

    #[inline(always)]
    fn serialize_f32(self, number: f32) -> Result<()> {
        self.0.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    #[inline(always)]
    fn serialize_f64(self, number: f64) -> Result<()> {
        self.0.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, letter: char) -> Result<()> {
        self.serialize_str(letter.encode_utf8(&mut [0; 4]))
    }

    #[inline(always)]
    fn serialize_str(self, text: &str) -> Result<()> {
        self.serialize_bytes(text.as_bytes())
    }

    #[inline(always)]
    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline(always)]
    fn serialize_none(self) -> Result<()> {
        self.serialize_u8(0)
    }

    #[inline(always)]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        self.serialize_u8(1)?;
        value.serialize(self)
    }

    #[inline(always)]
    fn serialize_unit(self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<()> {
        self.serialize_u32(index)
    }

    #[inline(always)]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }

    #[inline(always)]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<()> {
        self.serialize_u32(index)?;
        value.serialize(self)
    }

    #[inline(always)]
    fn serialize_seq(self, length: Option<usize>) -> Result<Self> {
        self.length(length)?;
        Ok(self)
    }

    #[inline(always)]
    fn serialize_tuple(self, _: usize) -> Result<Self> {
        Ok(self)
    }

    #[inline(always)]
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self> {
        Ok(self)
    }

    #[inline(always)]
    fn serialize_tuple_variant(self, _: &'static str, index: u32, _: &'static str, _: usize) -> Result<Self> {
        self.serialize_u32(index)?;
        Ok(self)
    }

    #[inline(always)]
    fn serialize_map(self, length: Option<usize>) -> Result<Self> {
        self.length(length)?;
        Ok(self)
    }

    #[inline(always)]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self> {
        Ok(self)
    }

    #[inline(always)]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self> {
        self.serialize_u32(index)?;
        Ok(self)
    }
}

/// What has several parts is written part by part, and nothing stands behind the last one.
macro_rules! parts {
    ($($kind:ident::$method:ident($($name:ty)?)),*) => {
        $(impl $kind for &mut Writer<'_> {
            type Ok = ();
            type Error = Error;

            #[inline(always)]
            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? part: &T) -> Result<()> {
                part.serialize(&mut **self)
            }

            #[inline(always)]
            fn end(self) -> Result<()> {
                Ok(())
            }
        })*
    };
}

parts!(
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str)
);

impl SerializeMap for &mut Writer<'_> {
    type Ok = ();
    type Error = Error;

    #[inline(always)]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        key.serialize(&mut **self)
    }

    #[inline(always)]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut **self)
    }

    #[inline(always)]
    fn end(self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::*;

    /// As keys and values are written.
    struct Text(&'static [u8]);

    impl Serialize for Text {
        fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Newtype(u16);

    #[derive(Serialize)]
    struct Tuple(u8, i8);

    #[derive(Serialize)]
    enum Kind {
        Unit,
        Newtype(i64),
        Tuple(u64, bool),
        Struct { text: &'static str, list: Vec<Option<Kind>> },
    }

    #[track_caller]
    fn check(value: &impl Serialize) {
        let mut written = b"before".to_vec();
        value.serialize(&mut Writer(&mut written)).expect("it has a form");
        let known = postcard::to_allocvec(value).expect("it has a form");
        assert_eq!(&written[b"before".len()..], known);
    }

    #[test]
    fn what_is_written_is_what_postcard_writes() {
        for number in
            (0..64).map(|bit| 1_u64 << bit).flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX])
        {
            check(&number);
            check(&(number as u32, number as u16, number as u8));
            check(&(number as i64, number as i32, number as i16, number as i8));
            check(&(f64::from_bits(number), f32::from_bits(number as u32)));
        }
        check(&(true, false, 'a', 'ß', '🦀', "text", Text(b"\x00\xff"), Text(&[7; 300])));
        check(&(Unit, (), Newtype(300), Tuple(255, -1), None::<u8>, Some(1_u8)));
        let nested =
            || vec![Some(Kind::Unit), None, Some(Kind::Newtype(-70_000)), Some(Kind::Tuple(1 << 40, true))];
        check(&Kind::Struct { text: "", list: nested() });
        check(&vec![Kind::Struct { text: "list", list: nested() }]);
        check(&BTreeMap::from([(1_u8, "one"), (200, "more")]));
        check(&[300_u16; 3]);
    }
}
