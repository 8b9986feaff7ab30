//! `cjson`, `cmsgpack` and `struct`.

use crate::data::{Budget, Data, Spent};
use crate::fault::{Fatal, Raise};
use crate::json::{self, InvalidNumbers};
use crate::machine::{Machine, Replied};
use crate::value::{TableId, Value};
use crate::{msgpack, packing};

use super::Arguments;

/// What a value takes while it is converted, for the count of memory.
const DATA_BYTES: u64 = 64;

/// Tables in each other that MessagePack packs; deeper ones become nil.
const PACKED_DEPTH: usize = 17;

/// A function of one of these libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Codec {
    JsonEncode,
    JsonDecode,
    JsonNew,
    JsonSparse,
    JsonEncodeDepth,
    JsonDecodeDepth,
    JsonPrecision,
    JsonKeepBuffer,
    JsonEncodeInvalid,
    JsonDecodeInvalid,
    Pack,
    Unpack,
    UnpackOne,
    UnpackLimit,
    StructPack,
    StructUnpack,
    StructSize,
}

pub(super) const JSON: &[(&str, Codec)] = &[
    ("encode", Codec::JsonEncode),
    ("decode", Codec::JsonDecode),
    ("new", Codec::JsonNew),
    ("encode_sparse_array", Codec::JsonSparse),
    ("encode_max_depth", Codec::JsonEncodeDepth),
    ("decode_max_depth", Codec::JsonDecodeDepth),
    ("encode_number_precision", Codec::JsonPrecision),
    ("encode_keep_buffer", Codec::JsonKeepBuffer),
    ("encode_invalid_numbers", Codec::JsonEncodeInvalid),
    ("decode_invalid_numbers", Codec::JsonDecodeInvalid),
];

pub(super) const MSGPACK: &[(&str, Codec)] = &[
    ("pack", Codec::Pack),
    ("unpack", Codec::Unpack),
    ("unpack_one", Codec::UnpackOne),
    ("unpack_limit", Codec::UnpackLimit),
];

pub(super) const STRUCT: &[(&str, Codec)] =
    &[("pack", Codec::StructPack), ("unpack", Codec::StructUnpack), ("size", Codec::StructSize)];

pub(super) fn reply(machine: &mut Machine, function: Codec, given: Arguments) -> Result<Replied, Raise> {
    match function {
        Codec::JsonEncode => json_encode(machine, given),
        Codec::JsonDecode => json_decode(machine, given),
        Codec::Pack => pack(machine, given),
        Codec::Unpack => unpack(machine, given, None),
        Codec::UnpackOne => unpack(machine, given, Some((1, 2))),
        Codec::UnpackLimit => unpack(machine, given, Some((0, 3))),
        Codec::StructPack => struct_pack(machine, given),
        Codec::StructUnpack => struct_unpack(machine, given),
        Codec::StructSize => {
            let format = machine.text_given(given, 1)?;
            let size = packing::size(machine.heap.bytes(format)).map_err(Raise::called)?;
            machine.one_result(Value::Number(size as f64))
        }
        _ => configure(machine, function, given),
    }
}

impl Machine {
    /// Lets a library compute within what is left of steps and memory.
    fn within<T>(
        &mut self,
        compute: impl FnOnce(&Machine, &mut Budget) -> Result<T, String>,
    ) -> Result<T, Raise> {
        let mut budget = Budget { fuel: self.meter.left.max(0) as u64, bytes: self.heap.left() };
        let computed = compute(self, &mut budget);
        self.meter.left = budget.fuel as i64;
        computed.map_err(|message| {
            if message == Spent::Fuel.to_string() {
                Raise::Fatal(Fatal::Steps)
            } else if message == Spent::Bytes.to_string() {
                Raise::Fatal(Fatal::Memory)
            } else {
                Raise::called(message)
            }
        })
    }

    fn data_of(&mut self, value: Value, reach: Reach, taken: &mut u64) -> Result<Data, Raise> {
        self.charge(1)?;
        let mut take = |machine: &mut Machine, bytes: u64| {
            *taken += bytes;
            machine.heap.take(bytes)
        };
        take(self, DATA_BYTES)?;
        Ok(match value {
            Value::Nil => Data::Nil,
            Value::Null => Data::Null,
            Value::Bool(bool) => Data::Bool(bool),
            Value::Number(number) => Data::Number(number),
            Value::Text(text) => {
                let length = self.heap.bytes(text).len();
                take(self, length as u64)?;
                self.charge_bytes(length)?;
                Data::Text(self.heap.bytes(text).to_vec())
            }
            Value::Table(_) if reach.left == 0 && reach.cuts => Data::Nil,
            Value::Table(_) if reach.left == 0 => {
                return Err(Raise::called(format!(
                    "Cannot serialise, excessive nesting ({})",
                    reach.whole + 1
                )));
            }
            Value::Table(table) => self.data_of_table(table, reach.deeper(), taken)?,
            Value::Later(ticket) => return Err(Raise::Fatal(Fatal::Looked(ticket))),
            Value::Closure(_) | Value::Native(_) if reach.cuts => Data::Nil,
            Value::Closure(_) | Value::Native(_) => {
                return Err(Raise::called("Cannot serialise function: type not supported"));
            }
        })
    }

    fn data_of_table(&mut self, table: TableId, reach: Reach, taken: &mut u64) -> Result<Data, Raise> {
        let count = self.heap.of(table).border();
        if count > 0 && self.heap.of(table).places() == count {
            let mut items = Vec::new();
            for index in 1..=count {
                let value = self.heap.of(table).at(index);
                items.push(self.data_of(value, reach, taken)?);
            }
            return Ok(Data::Array(items));
        }
        let mut pairs = Vec::new();
        let mut key = Value::Nil;
        while let Some((Some((next, value)), looked)) = self.heap.of(table).next(key) {
            self.charge(looked as u64)?;
            let name = self.data_of(next, reach, taken)?;
            pairs.push((name, self.data_of(value, reach, taken)?));
            key = next;
        }
        Ok(Data::Map(pairs))
    }

    fn value_of_data(&mut self, data: Data) -> Result<Value, Raise> {
        self.charge(1)?;
        Ok(match data {
            Data::Nil => Value::Nil,
            Data::Null => Value::Null,
            Data::Bool(bool) => Value::Bool(bool),
            Data::Number(number) => Value::Number(number),
            Data::Text(text) => self.text_value(&text)?,
            Data::Array(items) => {
                let table = self.heap.table(items.len(), 0)?;
                for (at, item) in items.into_iter().enumerate() {
                    let value = self.value_of_data(item)?;
                    self.heap.element(table, Value::Number((at + 1) as f64), value)?;
                }
                Value::Table(table)
            }
            Data::Map(pairs) => {
                let table = self.heap.table(0, pairs.len())?;
                for (key, value) in pairs {
                    let (key, value) = (self.value_of_data(key)?, self.value_of_data(value)?);
                    self.heap.set(table, key, value)?;
                }
                Value::Table(table)
            }
        })
    }

    /// Arguments as data, from one on.
    fn data_given(&mut self, given: Arguments, from: usize, reach: Reach) -> Result<(Vec<Data>, u64), Raise> {
        let mut taken = 0;
        let mut all = Vec::new();
        for value in self.all_given(given, from) {
            all.push(self.data_of(value, reach, &mut taken)?);
        }
        Ok((all, taken))
    }
}

/// How deep tables are converted, and whether what is deeper is left out or an error.
#[derive(Clone, Copy)]
struct Reach {
    whole: usize,
    left: usize,
    cuts: bool,
}

impl Reach {
    fn new(depth: usize, cuts: bool) -> Reach {
        Reach { whole: depth, left: depth, cuts }
    }

    fn deeper(self) -> Reach {
        Reach { left: self.left - 1, ..self }
    }
}

fn json_encode(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if given.count != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let options = machine.redis.json.clone();
    let reach = Reach::new(options.max_depth.min(json::DEPTH_MAX), false);
    let (data, taken) = machine.data_given(given, 1, reach)?;
    let text = machine.within(|_, budget| {
        let mut out = Vec::new();
        for data in &data {
            json::encode(data, &options, &mut out, budget)?;
        }
        Ok(out)
    })?;
    machine.heap.give_back(taken);
    machine.text_result(&text)
}

fn json_decode(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if given.count != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let text = machine.text_given(given, 1)?;
    let options = machine.redis.json.clone();
    let data = machine.within(|machine, budget| json::decode(machine.heap.bytes(text), &options, budget))?;
    let value = machine.value_of_data(data)?;
    machine.one_result(value)
}

fn configure(machine: &mut Machine, function: Codec, given: Arguments) -> Result<Replied, Raise> {
    if function == Codec::JsonNew {
        let name = machine.text_value(b"cjson")?;
        let library = machine.heap.of(machine.globals).get(name);
        return machine.one_result(library);
    }
    let limit = |machine: &mut Machine, low: i64, high: i64| match machine.given(given, 1) {
        Value::Nil => Ok(None),
        _ => {
            let number = machine.integer_given(given, 1)?;
            if !(low..=high).contains(&number) {
                return Err(Raise::argument(1, format!("expected integer between {low} and {high}")));
            }
            Ok(Some(number as usize))
        }
    };
    let most = i64::from(i32::MAX);
    let value = match function {
        Codec::JsonEncodeDepth => {
            if let Some(depth) = limit(machine, 1, most)? {
                machine.redis.json.max_depth = depth;
            }
            Value::Number(machine.redis.json.max_depth as f64)
        }
        Codec::JsonDecodeDepth => {
            if let Some(depth) = limit(machine, 1, most)? {
                machine.redis.json.decode_max_depth = depth;
            }
            Value::Number(machine.redis.json.decode_max_depth as f64)
        }
        Codec::JsonPrecision => {
            if let Some(digits) = limit(machine, 1, 14)? {
                machine.redis.json.number_precision = digits;
            }
            Value::Number(machine.redis.json.number_precision as f64)
        }
        Codec::JsonDecodeInvalid => {
            if !machine.given(given, 1).is_nil() {
                machine.redis.json.decode_invalid_numbers = machine.truth(machine.given(given, 1))?;
            }
            Value::Bool(machine.redis.json.decode_invalid_numbers)
        }
        Codec::JsonEncodeInvalid => return encode_invalid(machine, given),
        Codec::JsonSparse => return sparse(machine, given),
        _ => Value::Bool(true),
    };
    machine.one_result(value)
}

fn encode_invalid(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    match machine.given(given, 1) {
        Value::Nil => {}
        Value::Bool(true) => machine.redis.json.encode_invalid_numbers = InvalidNumbers::Written,
        Value::Bool(false) => machine.redis.json.encode_invalid_numbers = InvalidNumbers::Refused,
        Value::Text(text) if machine.heap.bytes(text) == b"null" => {
            machine.redis.json.encode_invalid_numbers = InvalidNumbers::Null;
        }
        other => {
            machine.looked(other)?;
            return Err(Raise::argument(1, "invalid option"));
        }
    }
    match machine.redis.json.encode_invalid_numbers {
        InvalidNumbers::Refused => machine.one_result(Value::Bool(false)),
        InvalidNumbers::Written => machine.one_result(Value::Bool(true)),
        InvalidNumbers::Null => machine.text_result(b"null"),
    }
}

fn sparse(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if !machine.given(given, 1).is_nil() {
        machine.redis.json.sparse_convert = machine.truth(machine.given(given, 1))?;
    }
    for index in [2, 3] {
        if machine.given(given, index).is_nil() {
            continue;
        }
        let number = machine.integer_given(given, index)?;
        let Some(number) = u32::try_from(number).ok().filter(|number| *number <= i32::MAX as u32) else {
            return Err(Raise::argument(index, format!("expected integer between 0 and {}", i32::MAX)));
        };
        if index == 2 {
            machine.redis.json.sparse_ratio = number;
        } else {
            machine.redis.json.sparse_safe = number;
        }
    }
    let json = &machine.redis.json;
    let results = [
        Value::Bool(json.sparse_convert),
        Value::Number(f64::from(json.sparse_ratio)),
        Value::Number(f64::from(json.sparse_safe)),
    ];
    machine.results.extend(results);
    Ok(Replied::Now)
}

fn pack(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    if given.count == 0 {
        return Err(Raise::argument(0, "MessagePack pack needs input."));
    }
    let (data, taken) = machine.data_given(given, 1, Reach::new(PACKED_DEPTH, true))?;
    let packed = machine.within(|_, budget| {
        let mut out = Vec::new();
        for data in &data {
            msgpack::encode(data, &mut out, budget)?;
        }
        Ok(out)
    })?;
    machine.heap.give_back(taken);
    machine.text_result(&packed)
}

/// All values of a text, or with `bounds` (how many, which argument may say where from) the place behind them first.
fn unpack(machine: &mut Machine, given: Arguments, bounds: Option<(i64, usize)>) -> Result<Replied, Raise> {
    let text = machine.text_given(given, 1)?;
    let length = machine.heap.bytes(text).len();
    let (mut limit, mut offset) = (i64::MAX, 0);
    if let Some((many, place)) = bounds {
        limit = if many == 0 { machine.integer_given(given, 2)? } else { many };
        offset = machine.integer_or(given, place, 0)?;
        if offset < 0 || limit < 0 {
            let wrong = format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
            return Err(Raise::called(wrong));
        }
        if limit == 0 {
            limit = i64::MAX;
        }
        if offset > length as i64 {
            let wrong = format!("Start offset {offset} greater than input length {length}.");
            return Err(Raise::called(wrong));
        }
    }
    let mut place = offset as usize;
    let mut values = Vec::new();
    while place < length && (values.len() as i64) < limit {
        if values.len() >= 7_990 {
            return Err(Raise::called("too many results to unpack"));
        }
        let (data, next) =
            machine.within(|machine, budget| msgpack::decode_one(machine.heap.bytes(text), place, budget))?;
        values.push(machine.value_of_data(data)?);
        place = next;
    }
    if bounds.is_some() {
        let next = if place >= length { -1.0 } else { place as f64 };
        machine.results.push(Value::Number(next));
    }
    machine.results.extend(values);
    Ok(Replied::Now)
}

fn struct_pack(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let format = machine.text_given(given, 1)?;
    let (data, taken) = machine.data_given(given, 2, Reach::new(1, true))?;
    let packed =
        machine.within(|machine, budget| packing::pack(machine.heap.bytes(format), &data, budget))?;
    machine.heap.give_back(taken);
    machine.text_result(&packed)
}

fn struct_unpack(machine: &mut Machine, given: Arguments) -> Result<Replied, Raise> {
    let (format, text) = (machine.text_given(given, 1)?, machine.text_given(given, 2)?);
    let position = usize::try_from(machine.integer_or(given, 3, 1)?).unwrap_or_default();
    let (values, next) = machine.within(|machine, budget| {
        packing::unpack(machine.heap.bytes(format), machine.heap.bytes(text), position, budget)
    })?;
    for data in values {
        let value = machine.value_of_data(data)?;
        machine.results.push(value);
    }
    machine.results.push(Value::Number(next as f64));
    Ok(Replied::Now)
}
