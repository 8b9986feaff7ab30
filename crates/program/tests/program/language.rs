//! The language itself: where it is easy to be wrong.

use claret_program::Program;

use crate::host::evaluated;

#[test]
fn closures_share_their_variables() {
    let script = "local function make() local n = 0 return function() n = n + 1 return n end, function() return n end end \
                  local up, look = make() up() up() local up2, look2 = make() up2() return {look(), look2()}";
    assert_eq!(evaluated(script), "[2 1]");
    assert_eq!(
        evaluated(
            "local f = {} for i = 1, 3 do f[i] = function() i = i + 1 return i end end f[1]() return {f[1](), f[2]()}"
        ),
        "[3 3]"
    );
    assert_eq!(
        evaluated(
            "local f local i = 1 repeat local x = i f = f or function() return x end i = i + 1 until x == 3 return f()"
        ),
        "1"
    );
    assert_eq!(
        evaluated(
            "local f while true do local x = 7 f = function() return x end break end local y = 8 return f()"
        ),
        "7"
    );
}

#[test]
fn variadic_functions_pass_everything_on() {
    assert_eq!(
        evaluated(
            "local function f(a, ...) local b, c = ... return a, b, c, select('#', ...) end return {f(1, 2, 3, nil)}"
        ),
        "[1 2 3 3]"
    );
    assert_eq!(evaluated("local function f(...) return ... end return {f(1, 2), f(3, 4)}"), "[1 3 4]");
    assert_eq!(evaluated("local function f(...) return (...) end return {f(1, 2), (f(3, 4))}"), "[1 3]");
    assert_eq!(
        evaluated("return {(function(...) return #{...}, select(-1, ...) end)(unpack({1, 2, 3}))}"),
        "[3 3]"
    );
}

#[test]
fn assignments_take_their_values_first() {
    assert_eq!(evaluated("local a, b, c = 1, 2 a, b = b, a return {a, b, tostring(c)}"), "[2 1 \"nil\"]");
    assert_eq!(evaluated("local i, t = 1, {} i, t[i] = i + 1, 20 return {i, t[1]}"), "[2 20]");
    assert_eq!(evaluated("local x = 1 x = x and x + 1 or 0 x = {x, x} return x"), "[2 2]");
    assert_eq!(evaluated("local f = function(x) return x end f = f(f(f)) return f(3)"), "3");
}

#[test]
fn metatables_answer_for_tables() {
    let counted = "local t = setmetatable({}, {__index = function(t, k) rawset(t, k, k .. '!') return t[k] end}) return {t.a, rawget(t, 'a')}";
    assert_eq!(evaluated(counted), "[\"a!\" \"a!\"]");
    let equal = "local mt = {__eq = function(a, b) return a.v == b.v end} \
                 local a, b = setmetatable({v = 1}, mt), setmetatable({v = 1}, mt) local c = setmetatable({v = 1}, {}) return {a == b, a ~= b, a == c}";
    assert_eq!(evaluated(equal), "[1 nil nil]");
    // A comparison decided by a native function, in the middle of a condition.
    assert_eq!(
        evaluated(
            "local mt = {__lt = rawequal} local a, b = setmetatable({}, mt), setmetatable({}, mt) if a < b then return 1 else return 2 end"
        ),
        "2"
    );
    assert_eq!(
        evaluated(
            "local mt = {__le = function() return nil end} local a = setmetatable({}, mt) return {not (a <= a), a >= a}"
        ),
        "[1 nil]"
    );
    let joined = "local mt = {__concat = function(a, b) return (type(a) == 'table' and 'T' or a) .. (type(b) == 'table' and 'T' or b) end} \
                  local t = setmetatable({}, mt) return 'a' .. 'b' .. t .. 1 .. 2 .. t .. 'c'";
    assert_eq!(evaluated(joined), "\"abT12Tc\"");
}

#[test]
fn commands_are_called_from_everywhere() {
    let sorted = "local t = {3, 1, 2} table.sort(t, function(a, b) redis.call('incr', 'n') return a < b end) return {t[1], t[3], redis.call('get', 'n') + 0 > 1}";
    assert_eq!(evaluated(sorted), "[1 3 1]");
    assert_eq!(
        evaluated("return (('a,b'):gsub('%a', function(c) return redis.call('incr', c) end))"),
        "\"1,1\""
    );
    assert_eq!(
        evaluated(
            "return tostring(setmetatable({}, {__tostring = function() return redis.call('incr', 'n') .. '' end}))"
        ),
        "\"1\""
    );
    assert_eq!(
        evaluated("return setmetatable({}, {__index = function(t, k) return redis.call('incr', k) end}).x"),
        "1"
    );
    assert_eq!(
        evaluated("local t = setmetatable({}, {__call = redis.call}) return pcall(t, 'incr', 'n')"),
        "nil"
    );
    assert_eq!(evaluated("for v in redis.call, 'incr', 'n' do return v end"), "1");
    assert_eq!(evaluated("return {pcall(redis.call, 'incr', 'n')}"), "[1 1]");
    assert_eq!(
        evaluated("return table.foreach({'a'}, function(k, v) return redis.call('incr', v) end)"),
        "1"
    );
    assert_eq!(evaluated("return (function() return redis.call('incr', 'n') end)()"), "1");
    assert_eq!(
        evaluated(
            "local mt = {__lt = function() return redis.call('get', 'x') end} local a = setmetatable({}, mt) return {a < a, not (a < a)}"
        ),
        "[nil 1]"
    );
}

#[test]
fn strings_are_bytes() {
    assert_eq!(evaluated("return #'\\255\\0\\1' .. ('\\200'):byte()"), "\"3200\"");
    let mut text = b"return {#'\xff\xfe', '\x80' == '\\128', [[\r\na\r\nb]]} -- \xc3".to_vec();
    text.extend(b"\xa4");
    let program = Program::compile(&text).expect("a program");
    assert!(program.bytes() > 100);
    assert_eq!(evaluated("return [==[\n]]\n]==]"), "\"]]\\n\"");
    assert_eq!(evaluated("return 'a\\\nb\\tc\\065'"), "\"a\\nb\\tcA\"");
    assert!(evaluated("return '\\300'").starts_with("(compile)"));
}

#[test]
fn tables_keep_their_order_while_they_are_gone_through() {
    assert_eq!(
        evaluated(
            "local t, s = {}, '' t.z = 1 t.a = 2 t.m = 3 t[1] = 'x' for k in pairs(t) do s = s .. k end return s"
        ),
        "\"1zam\""
    );
    assert_eq!(
        evaluated(
            "local t, n = {}, 0 for i = 1, 100 do t['k' .. i] = i t[i] = i end for k in pairs(t) do t[k] = nil n = n + 1 end return {n, next(t) == nil}"
        ),
        "[200 1]"
    );
    assert_eq!(
        evaluated(
            "local t = {} for i = 1, 1000 do t['k' .. i] = i t['k' .. i - 1] = nil end local n = 0 for k in pairs(t) do n = n + 1 end return n"
        ),
        "1"
    );
    assert_eq!(
        evaluated(
            "local t = {} t[2^53] = 'big' t[-0.0] = 'zero' t['1'] = 's' t[1] = 'n' return {t[2^53], t[0], t['1'], t[1]}"
        ),
        "[\"big\" \"zero\" \"s\" \"n\"]"
    );
}

#[test]
fn errors_are_caught_where_they_should_be() {
    assert_eq!(evaluated("local ok, e = pcall(pcall, error, 'x') return {ok, e}"), "[1 nil]");
    assert_eq!(
        evaluated(
            "return {xpcall(function() local x = nil + 1 end, function(e) return redis.call('incr', 'n') end)}"
        ),
        "[nil 1]"
    );
    assert_eq!(
        evaluated(
            "local t = {} for i = 1, 3 do local ok, e = pcall(function() if i == 2 then error({i = i}) end return i end) t[i] = ok and e or e.i * 10 end return t"
        ),
        "[1 20 3]"
    );
    // Variables that a failed function captured outlive it.
    assert_eq!(
        evaluated(
            "local f pcall(function() local x = 5 f = function() x = x + 1 return x end error('e') end) f() return f()"
        ),
        "7"
    );
    assert_eq!(
        evaluated("\n\nlocal x = nil\nreturn x.y"),
        "-ERR user_script:4: attempt to index local 'x' (a nil value)"
    );
    assert_eq!(evaluated("local function f()\n error('deep')\nend\nf()"), "-ERR user_script:2: deep");
    assert_eq!(evaluated("error({code = 1})"), "-ERR unknown error");
}

#[test]
fn what_is_not_there_is_said_before_it_runs() {
    let message = |script: &str| Program::compile(script.as_bytes()).expect_err(script).to_string();
    assert_eq!(
        message("local x = 1\nreturn loadstring('x')"),
        "2:8: there is no loadstring: write the function itself"
    );
    assert_eq!(
        message("for i = 1, 2 do\n  goto continue\nend"),
        "2:3: Lua 5.1 has no goto: use if, or a function that returns"
    );
    assert_eq!(
        message("return coroutine.wrap"),
        "1:8: there is no coroutine: use a function that keeps its state in local variables"
    );
    assert!(message("break").ends_with("no loop to break"));
    assert!(message("return function() return ... end").contains("outside a vararg function"));
    // Names are names if the script gives them.
    assert_eq!(evaluated("local load, print = 1, 2 return load + print"), "3");
    assert_eq!(evaluated("return ({require = 5}).require"), "5");
}

#[test]
fn a_first_line_says_what_the_script_is() {
    let program = Program::compile(b"#!lua flags=no-writes,allow-stale\nreturn x").expect("a program");
    assert!(program.flags().no_writes && program.flags().allow_stale && program.flags().is_given);
    assert!(!program.flags().allow_oom);
    assert_eq!(
        evaluated("#!lua\nreturn nil + 1"),
        "-ERR user_script:2: attempt to perform arithmetic on a nil value"
    );
    assert_eq!(evaluated("#!python\nreturn 1"), "(compile) 1:1: Unexpected engine in script shebang: python");
    assert_eq!(
        evaluated("#!lua flags=foo\nreturn 1"),
        "(compile) 1:1: Unexpected flag in script shebang: foo"
    );
}
