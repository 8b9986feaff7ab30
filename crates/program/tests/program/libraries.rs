//! What scripts have of Redis: commands and their answers, answers that come later, and libraries of functions.

use std::sync::Arc;

use claret_program::{Answer, Call, Failure, FailureKind, Library, Limits, Pause, Program, Run, Start};

use crate::host::{Host, LIMITS, evaluated, shown, started};

fn bulk(text: &str) -> Answer {
    Answer::Bulk(text.as_bytes().to_vec())
}

/// What a script answers when its commands are answered so, one after the other.
fn with_answers(script: &str, answers: Vec<Answer>) -> Result<Answer, Failure> {
    let mut run = started(script, LIMITS);
    let mut answers = answers.into_iter();
    loop {
        match run.resume(1_000) {
            Pause::Rested => {}
            Pause::Call(_) => run.answered(answers.next().expect("an answer")),
            Pause::Done(answer) => return Ok(answer),
            Pause::Failed(failure) => return Err(failure),
        }
    }
}

#[test]
fn a_call_says_its_words_and_its_line() {
    let mut run = started("local x = 1\nredis.pcall('SET', KEYS[1], 12, 1.5)", LIMITS);
    let words = ["SET", "k1", "12", "1.5"].map(|word| word.as_bytes().to_vec()).to_vec();
    assert_eq!(run.resume(100), Pause::Call(Call { words, line: 2, is_dropped: true, is_tried: true }));
    // It still waits.
    assert!(matches!(run.resume(100), Pause::Call(_)));
    run.answered(Answer::Nil);
    assert_eq!(run.resume(100), Pause::Done(Answer::Nil));
    assert_eq!(run.resume(100), Pause::Done(Answer::Nil));
}

#[test]
fn what_is_known_later_is_returned_and_not_looked_at() {
    let returned = "local id = redis.call('xadd') local t = {id, {x = id}} local function f(...) return ... end return {f(id), t[2].x, select(2, 1, id)}";
    let answer = with_answers(returned, vec![Answer::Later(7)]).expect("an answer");
    assert_eq!(answer, Answer::Array(vec![Answer::Later(7), Answer::Later(7), Answer::Later(7)]));
    let looks = [
        "id + 1",
        "id == 1",
        "id == id",
        "id .. 'x'",
        "id.x",
        "tostring(id)",
        "id and 1",
        "not id",
        "type(id)",
        "({})[id]",
        "({[id] = 1})",
        "redis.call('get', id)",
        "redis.pcall('get', id)",
        "cjson.encode({id})",
        "cmsgpack.pack(id)",
        "id < 1",
        "#id",
        "-id",
        "id()",
        "id:x()",
        "('x'):rep(id)",
        "table.concat({id})",
        "math.floor(id)",
        "rawequal(id, id)",
        "next({}, id)",
        "select(id)",
        "assert(id)",
        "error(id)",
        "string.format('%s', id)",
        "tonumber(id)",
        "bit.band(id)",
        "redis.sha1hex(id)",
        "unpack(id)",
        "pairs(id)",
        "table.sort({id, id})",
        "pcall(id)",
        "setmetatable({}, id)",
        "getmetatable(id)",
        "redis.log(1, id)",
        "('a'):gsub('a', id)",
        "('a'):gsub('a', function() return id end)",
        "struct.pack('s', id)",
        "redis.error_reply(id)",
        "rawget({}, id)",
        "rawset({}, id, 1)",
        "tostring(setmetatable({}, {__tostring = function() return id end}))",
    ];
    for look in looks {
        for script in [
            format!("local id = redis.call('XADD')\nlocal x = {look}"),
            format!(
                "local id = redis.call('XADD')\nwhile true do pcall(function() local x = {look} end) end"
            ),
            format!("local id = redis.call('XADD')\nxpcall(function() local x = {look} end, function() end)"),
        ] {
            let failure = with_answers(&script, vec![Answer::Later(7)]).expect_err(&script);
            let expected = "ERR user_script:2: the answer of 'xadd' is known when the script has ended: it can be returned, not looked at";
            assert_eq!(
                (failure.message.as_str(), failure.line, failure.kind),
                (expected, 2, FailureKind::Looked),
                "{script}"
            );
        }
    }
}

#[test]
fn answers_arrive_as_the_protocol_says() {
    let map = || Answer::Map(vec![(bulk("a"), Answer::Int(1))]);
    assert_eq!(
        with_answers("return redis.call('x')", vec![map()]).map(|answer| shown(&answer)),
        Ok("[\"a\" 1]".into())
    );
    let three = "redis.setresp(3) local r = redis.call('x') return ";
    let asked = |script: &str, answer: Answer| {
        with_answers(&format!("{three}{script}"), vec![answer]).map(|answer| shown(&answer))
    };
    assert_eq!(asked("r.map.a", map()), Ok("1".into()));
    assert_eq!(asked("r", map()), Ok("[\"a\" 1]".into()));
    assert_eq!(asked("r.set.x == true and 1", Answer::Set(vec![bulk("x")])), Ok("1".into()));
    assert_eq!(asked("tostring(r.double)", Answer::Double(1.5)), Ok("\"1.5\"".into()));
    assert_eq!(asked("r == true", Answer::Bool(true)), Ok("1".into()));
    assert_eq!(asked("tostring(r)", Answer::Null3), Ok("\"nil\"".into()));
    assert_eq!(asked("r.big_number", Answer::BigNumber(b"12".to_vec())), Ok("\"12\"".into()));
    let verbatim = Answer::Verbatim { format: *b"txt", text: b"hi".to_vec() };
    assert_eq!(
        asked("r.verbatim_string.format .. r.verbatim_string.string", verbatim),
        Ok("\"txthi\"".into())
    );
    assert_eq!(
        with_answers("return redis.call('x')", vec![Answer::Double(0.1)]),
        Ok(bulk("0.10000000000000001"))
    );
    assert_eq!(with_answers("return redis.call('x') == false", vec![Answer::Nil]), Ok(Answer::Int(1)));
    assert_eq!(
        with_answers("return redis.call('x').ok", vec![Answer::Status(b"QUEUED".to_vec())]),
        Ok(bulk("QUEUED"))
    );
}

#[test]
fn errors_of_commands_have_their_code() {
    let error = || vec![Answer::Error(b"WRONGTYPE no".to_vec())];
    let failure = with_answers("\nredis.call('x')", error()).expect_err("an error");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str(), failure.line),
        ("WRONGTYPE", "WRONGTYPE no", 2)
    );
    assert_eq!(with_answers("return redis.pcall('x').err", error()), Ok(bulk("WRONGTYPE no")));
    assert_eq!(with_answers("return redis.pcall('x')", error()), Ok(Answer::Error(b"WRONGTYPE no".to_vec())));
    assert_eq!(
        with_answers("local ok, e = pcall(redis.call, 'x') return e", error()),
        Ok(bulk("WRONGTYPE no"))
    );
}

#[test]
fn the_log_is_given_to_the_host() {
    let mut run =
        started("redis.log(redis.LOG_WARNING, 'a', 'b') for i = 1, 1000 do redis.log(0, i) end", LIMITS);
    assert_eq!(run.resume(100_000), Pause::Done(Answer::Nil));
    let log = run.take_log();
    assert_eq!((log.len(), log.first()), (100, Some(&(3, b"a b".to_vec()))));
    assert!(run.take_log().is_empty());
}

const LIBRARY: &str = "#!lua name=mylib\nlocal n = 0\nlocal function count(keys, args) n = n + 1 return {n, keys[1], args[1], redis.call('incr', keys[1])} end\n\
                       redis.register_function('count', count)\n\
                       redis.register_function{function_name = 'look', callback = function() return n end, flags = {'no-writes'}, description = 'looks'}";

#[test]
fn a_library_has_functions() {
    let library = Arc::new(Library::load(LIBRARY.as_bytes(), &LIMITS).expect("a library"));
    assert_eq!(library.name(), "mylib");
    let names: Vec<&str> = library.functions().iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["count", "look"]);
    let look = library.functions().get(1).expect("two functions");
    assert!(look.flags.no_writes && look.description.as_deref() == Some("looks"));
    let start = || Start { keys: vec![b"k".to_vec()], args: vec![b"a".to_vec()], limits: LIMITS, seed: 0 };
    for _ in 0..2 {
        // Each run has variables of its own.
        let mut run = Run::function(Arc::clone(&library), "COUNT", start()).expect("a function");
        let answer = Host::default().run(&mut run, 10).expect("an answer");
        assert_eq!(shown(&answer), "[1 \"k\" \"a\" 1]");
    }
    assert!(Run::function(library, "none", start()).is_none());
}

#[test]
fn what_is_no_library_is_refused() {
    let refused = |text: &str| Library::load(text.as_bytes(), &LIMITS).expect_err(text).to_string();
    assert_eq!(refused("return 1"), "Missing library metadata");
    assert_eq!(refused("#!lua\nreturn 1"), "Library name was not given");
    assert_eq!(refused("#!lua name=x\nreturn 1"), "No functions registered");
    assert_eq!(
        refused("#!lua name=x\nredis.call('get', 'x')"),
        "ERR user_function:2: ERR redis.call/pcall can only be called inside a script invocation"
    );
    assert_eq!(
        refused(
            "#!lua name=x\nlocal f = function() end redis.register_function('f', f) redis.register_function('F', f)"
        ),
        "ERR Function already exists in the library"
    );
    let limits = Limits { steps: 1_000, ..LIMITS };
    let endless = Library::load(b"#!lua name=x\nwhile true do end", &limits).expect_err("it does not end");
    assert!(endless.to_string().contains("too many steps"));
}

#[test]
fn a_run_goes_where_its_host_wants_it() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    fn shared<T: Send + Sync>(value: T) -> T {
        value
    }
    let program = Arc::new(shared(Program::compile(b"return redis.call('get', 'x')").expect("a program")));
    let mut run = sent(Run::new(program, Start { limits: LIMITS, ..Start::default() }));
    assert!(matches!(run.resume(100), Pause::Call(_)));
    let mut run = std::thread::spawn(move || {
        run.answered(Answer::Int(3));
        run
    })
    .join()
    .expect("a thread");
    assert_eq!(run.resume(100), Pause::Done(Answer::Int(3)));
}

#[test]
fn library_tables_are_protected() {
    for script in ["redis.x = 1", "cjson.x = 1", "string.format = 1", "table.x = 1", "_G.x = 1", "KEYS = 1"] {
        assert_eq!(evaluated(script), "-ERR user_script:1: Attempt to modify a readonly table", "{script}");
    }
    assert_eq!(evaluated("setmetatable(_G, {__index = {}})"), "-ERR Attempt to modify a readonly table");
    assert_eq!(evaluated("return {_G == _G._G, rawget(_G, 'nothing') == nil}"), "[1 1]");
}
