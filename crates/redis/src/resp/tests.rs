//! What a server says, read whole and in pieces, within its bounds and beyond; and commands as they are written.

use super::*;
use crate::bounds::ReplyLimits;

fn reader() -> Reader {
    Reader::new(ReplyLimits::default().of_work())
}

fn told(input: &[u8]) -> Result<Reply, ServerError> {
    match reader().next(input) {
        Ok(Some((Message::Reply(value), length))) => {
            assert_eq!(length, input.len());
            value.reply()
        }
        _ => panic!("no reply"),
    }
}

/// The bound that this is over.
fn over(limits: ReplyLimits, input: &[u8]) -> &'static str {
    match Reader::new(limits.of_work()).next(input) {
        Err(Unreadable::Over(bound)) => bound.name,
        Err(other) => panic!("{other:?}"),
        Ok(read) => panic!("taken: {}", read.is_some()),
    }
}

#[test]
fn replies_are_what_claret_answers() {
    assert_eq!(told(b"+OK\r\n"), Ok(Reply::Ok));
    assert_eq!(told(b"_\r\n"), Ok(Reply::Nil));
    assert_eq!(
        told(b"%1\r\n+a\r\n,1.5\r\n"),
        Ok(Reply::Array(vec![Reply::Bytes("a".into()), Reply::Float(1.5)]))
    );
    assert_eq!(told(b"|1\r\n+ttl\r\n:9\r\n*1\r\n*0\r\n"), Ok(Reply::Array(vec![Reply::Array(Vec::new())])));
    assert_eq!(told(b"=5\r\ntxt:x\r\n"), Ok(Reply::Bytes("x".into())));
    let error = told(b"*2\r\n:1\r\n-WRONGTYPE it is a list\r\n").unwrap_err();
    assert_eq!(error.code(), "WRONGTYPE");
}

/// In one go or at length, the same is read.
#[test]
fn short_replies_are_what_they_are_at_length() {
    for said in [
        ":0\r\n",
        ":007\r\n",
        ":999999999999999999\r\n",
        ":-1\r\n",
        ":9223372036854775807\r\n",
        "+OK\r\n",
        "+\r\n",
        "+a\rb\r\n",
        "_\r\n",
        "$0\r\n\r\n",
        "$3\r\na\r\n\r\n",
        "$12\r\nabcdefghijkl\r\n",
    ] {
        let input = said.as_bytes();
        let (frame, length) = decode_range(input).expect("well formed").expect("whole");
        assert_eq!(length, input.len());
        if let Some((quick, taken)) = short(input, Protocol::Resp3) {
            assert_eq!((quick, taken), (frame.clone(), length), "{said:?}");
        }
        assert_eq!(told(input), Value { input, frame }.reply(), "{said:?}");
        for end in 0..input.len() {
            assert!(matches!(reader().next(&input[..end]), Ok(None)), "{:?}", &said[..end]);
        }
    }
    for said in [":\r\n", ":1x\r\n", "_x\r\n", "$-1\r\n", "$3\r\nabcde\r\n", "-ERR x\r\n", "*0\r\n"] {
        assert!(short(said.as_bytes(), Protocol::Resp3).is_none(), "{said:?}");
    }
}

#[test]
fn what_is_not_all_there_is_waited_for() {
    let whole = b">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nxy\r\n";
    let mut reader = reader();
    for end in 0..whole.len() {
        assert!(matches!(reader.next(&whole[..end]), Ok(None)), "{end}");
    }
    let Ok(Some((Message::Push(values), _))) = reader.next(whole) else { panic!("a push") };
    assert_eq!(values[2].bytes(), Some(&b"xy"[..]));
}

#[test]
fn a_large_array_that_comes_byte_by_byte_is_looked_through_once() {
    const COUNT: usize = 20_000;
    let mut whole = format!("*{COUNT}\r\n").into_bytes();
    (0..COUNT).for_each(|_| whole.extend_from_slice(b"+x\r\n"));
    let mut reader = reader();
    let mut steps = 0;
    for end in 1..whole.len() {
        let before = reader.at;
        assert!(matches!(reader.next(&whole[..end]), Ok(None)));
        steps += reader.at - before;
        assert!(end - reader.at <= 8, "it stands where the array goes on");
    }
    assert!(steps < whole.len());
    assert!(matches!(reader.next(&whole), Ok(Some((Message::Reply(_), length))) if length == whole.len()));
}

#[test]
fn nested_arrays_are_refused_before_they_cost_stack() {
    for levels in [33, 2_000, 1_000_000] {
        assert_eq!(over(ReplyLimits::default(), &b"*1\r\n".repeat(levels)), "reply_depth_max");
    }
    let attributes = b"|1\r\n+a\r\n*1\r\n".repeat(100);
    assert_eq!(over(ReplyLimits::default(), &attributes), "reply_depth_max");
    let mut deep = b"*1\r\n".repeat(32);
    deep.extend_from_slice(b":1\r\n");
    assert!(told(&deep).is_ok());
    let endless = ReplyLimits { reply_depth_max: usize::MAX, ..ReplyLimits::default() };
    assert_eq!(over(endless, &b"*1\r\n".repeat(1_000_000)), "reply_depth_max");
}

#[test]
fn what_announces_too_much_is_refused_before_it_comes() {
    let limits = ReplyLimits::default();
    for (said, bound) in [
        ("$9000000000\r\n", "reply_bytes_max"),
        ("$18446744073709551610\r\nabc\r\n", "reply_bytes_max"),
        ("$99999999999999999999999999\r\n", "reply_bytes_max"),
        ("*1\r\n!1073741824\r\n", "reply_bytes_max"),
        ("*2147483647\r\n", "reply_elements_max"),
        ("*18446744073709551615\r\n", "reply_elements_max"),
        ("%4611686018427387904\r\n", "reply_elements_max"),
        ("%9223372036854775808\r\n", "reply_elements_max"),
        ("~4194304\r\n", "reply_elements_max"),
    ] {
        assert_eq!(over(limits, said.as_bytes()), bound, "{said}");
    }
    assert_eq!(over(limits, &[&b"+"[..], &[b'x'; 70_000]].concat()), "line_bytes_max");
    assert_eq!(over(limits, &b"|0\r\n".repeat(5_000_000)), "reply_elements_max");
    let small = ReplyLimits { reply_bytes_max: 100, ..limits };
    assert_eq!(over(small, &[&b"*100\r\n"[..], &b"+abc\r\n".repeat(20)].concat()), "reply_bytes_max");
}

#[test]
fn what_is_no_resp_is_malformed() {
    for said in [
        "HTTP/1.1 400\r\n",
        "\r\n",
        "$-1\r\n",
        "*?\r\n",
        "$?\r\n",
        "*\r\n",
        "$+3\r\nabc\r\n",
        "*1\r\n>0\r\n",
        "$3\r\nabcde\r\n",
        ";1\r\nx\r\n",
        ".\r\n",
        ":x\r\n",
        "#q\r\n",
        "HELLO 3\r\n",
        "=1\r\nx\r\n",
    ] {
        let read = reader().next(said.as_bytes());
        assert!(matches!(read, Err(Unreadable::Malformed(_))), "{said:?}");
    }
}

#[test]
fn pushes_that_nobody_asked_for_are_counted_from_reply_to_reply() {
    let limits = ReplyLimits { pushes_max: 2, ..ReplyLimits::default() };
    let mut reader = Reader::new(limits.of_work());
    assert!(reader.note_push().is_ok() && reader.note_push().is_ok());
    assert!(matches!(reader.next(b"+OK\r\n"), Ok(Some(_))));
    assert!(reader.note_push().is_ok() && reader.note_push().is_ok());
    assert_eq!(reader.note_push(), Err(Unreadable::Over(Bound { name: "pushes_max", limit: 2 })));
}

#[test]
fn errors_of_servers_neither_command_a_terminal_nor_fill_it() {
    let error = told(b"-ERR \x1b[31m\x1b]0;owned\x07 \xc2\x9b2J evil\r\n").unwrap_err();
    assert_eq!(error.to_string(), "ERR \\u{1b}[31m\\u{1b}]0;owned\\u{7} \\u{9b}2J evil");
    let long = [&b"!1000000\r\n"[..], &[b'x'; 1_000_000], b"\r\n"].concat();
    assert!(told(&long).unwrap_err().to_string().len() < 1_100);
}

#[test]
fn a_command_is_an_array_of_strings() {
    let mut out = BytesMut::new();
    encode(&mut out, &["GET", "k"]);
    assert_eq!(&out[..], b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    let mut out = BytesMut::new();
    encode(&mut out, &[&[][..], &[b'x'; 1203]]);
    assert!(out.starts_with(b"*2\r\n$0\r\n\r\n$1203\r\nxx"));
    assert_eq!(out.len(), 4 + 4 + 2 + 7 + 1203 + 2);
}

#[test]
fn words_of_all_lengths_are_written_alike() {
    for length in 0..300 {
        let (mut out, word) = (BytesMut::new(), "x".repeat(length));
        encode(&mut out, &[&word]);
        assert_eq!(out, format!("*1\r\n${length}\r\n{word}\r\n"));
    }
}

fn older() -> Reader {
    Reader::of(Protocol::Resp2, ReplyLimits::default().of_work())
}

/// What is taken as it came has the length of what is decoded, in one go or at length, and waits for as many bytes.
#[test]
fn raw_replies_have_the_lengths_of_decoded_ones() {
    let long = format!("${}\r\n{}\r\n", 70_000, "x".repeat(70_000));
    for said in [
        ":0\r\n",
        ":-17\r\n",
        "+OK\r\n",
        "+a\rb\r\n",
        "-ERR what\r\n",
        "$0\r\n\r\n",
        "$3\r\na\r\n\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
        &long,
    ] {
        let input = said.as_bytes();
        for reader in [reader, older] {
            let Ok(Some((_, length))) = reader().next(input) else { panic!("{said:?}") };
            assert_eq!(reader().next_raw(input), Ok(Some(Measured { length, is_push: false })), "{said:?}");
            assert_eq!(length, input.len());
            let behind = [input, b"+more\r\n"].concat();
            assert_eq!(reader().next_raw(&behind), Ok(Some(Measured { length, is_push: false })));
            for end in (0..input.len()).take(100).chain(input.len() - 3..input.len()) {
                assert_eq!(reader().next_raw(&input[..end]), Ok(None), "{:?}", &said[..end.min(20)]);
            }
        }
    }
    let push = b">2\r\n+invalidate\r\n_\r\n";
    assert_eq!(reader().next_raw(push), Ok(Some(Measured { length: push.len(), is_push: true })));
    assert!(matches!(reader().next_raw(b"|1\r\n+a\r\n:1\r\n>0\r\n"), Err(Unreadable::Malformed(_))));
}

/// What is not there has a length below zero in the older protocol alone; what it does not have is malformed.
#[test]
fn what_is_not_there_is_said_in_two_ways() {
    for (said, is_within) in [("$-1\r\n", false), ("*-1\r\n", false), ("*2\r\n$-1\r\n*-1\r\n", true)] {
        let input = said.as_bytes();
        let measured = Measured { length: input.len(), is_push: false };
        assert_eq!(older().next_raw(input), Ok(Some(measured)));
        let Ok(Some((Message::Reply(value), length))) = older().next(input) else { panic!("{said:?}") };
        let expected = if is_within { Reply::Array(vec![Reply::Nil, Reply::Nil]) } else { Reply::Nil };
        assert_eq!((value.reply(), length), (Ok(expected), input.len()));
        assert!(matches!(reader().next_raw(input), Err(Unreadable::Malformed(_))), "{said:?}");
    }
    for said in [
        "_\r\n",
        "#t\r\n",
        ",1\r\n",
        "%0\r\n",
        "~0\r\n",
        ">0\r\n",
        "|0\r\n",
        "!1\r\nx\r\n",
        "=5\r\ntxt:x\r\n",
        "(1\r\n",
    ] {
        assert!(matches!(older().next_raw(said.as_bytes()), Err(Unreadable::Malformed(_))), "{said:?}");
        assert!(matches!(older().next(said.as_bytes()), Err(Unreadable::Malformed(_))), "{said:?}");
    }
    for said in ["$-2\r\n", "*-2\r\n", "$-01\r\n", "$-\r\n", "$--1\r\n"] {
        assert!(matches!(older().next_raw(said.as_bytes()), Err(Unreadable::Malformed(_))), "{said:?}");
    }
}

#[test]
fn raw_replies_are_within_the_bounds() {
    let small = ReplyLimits { reply_bytes_max: 100, line_bytes_max: 50, ..ReplyLimits::default() };
    for (said, bound) in [
        ("$9000000000\r\n", "reply_bytes_max"),
        ("$200\r\n", "reply_bytes_max"),
        ("*2147483647\r\n", "reply_bytes_max"),
        ("%18446744073709551615\r\n", "reply_elements_max"),
        (&*format!("+{}", "x".repeat(60)), "line_bytes_max"),
        (&*"*1\r\n".repeat(40), "reply_bytes_max"),
        (&*"*1\r\n".repeat(33), "reply_bytes_max"),
    ] {
        let read = Reader::new(small.of_work()).next_raw(said.as_bytes());
        assert!(
            matches!(read, Err(Unreadable::Over(Bound { name, .. })) if name == bound),
            "{said}: {read:?}"
        );
    }
    let deep = b"*1\r\n".repeat(33);
    let read = reader().next_raw(&deep);
    assert!(matches!(read, Err(Unreadable::Over(Bound { name: "reply_depth_max", .. }))), "{read:?}");
}

/// Bug: an answer of more values than a client may decode broke the connection that others of its user share, though nobody decodes it.
#[test]
fn what_is_passed_on_is_bounded_by_its_bytes_alone() {
    let few = ReplyLimits { reply_elements_max: 3, ..ReplyLimits::default() };
    let many = b"*5\r\n:1\r\n:2\r\n*1\r\n:3\r\n:4\r\n$1\r\nx\r\n";
    let mut reader = Reader::new(few.of_work());
    assert!(reader.next_raw(&many[..20]).is_ok_and(|read| read.is_none()));
    let read = reader.next_raw(many).expect("it is taken");
    assert_eq!(read.map(|raw| raw.length), Some(many.len()));
    assert_eq!(over(few, many), "reply_elements_max", "what is decoded is counted");
    assert!(matches!(reader.next(many), Err(Unreadable::Over(bound)) if bound.name == "reply_elements_max"));
}

/// An error is looked into only where it sends the command elsewhere.
#[test]
fn redirections_are_known_by_their_first_word() {
    for said in ["MOVED 5 h:1", "ASK 5 h:1", "TRYAGAIN x", "CLUSTERDOWN", "LOADING x"] {
        let error = redirection_in(format!("-{said}\r\n").as_bytes()).expect("it is one");
        assert_eq!(error.to_string(), said);
        assert!(is_redirection(error.code()));
    }
    for said in [
        "-ERR MOVED\r\n",
        "-MOVEDX 5 h:1\r\n",
        "+MOVED 5 h:1\r\n",
        "$5\r\nMOVED\r\n",
        "-\r\n",
        "-WRONGTYPE\r\n",
        ":1\r\n",
    ] {
        assert_eq!(redirection_in(said.as_bytes()), None, "{said}");
    }
}
