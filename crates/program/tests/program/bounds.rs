//! Steps, memory, depth: what a script may use, and what it cannot catch.

use claret_program::{Answer, FailureKind, Limits, Pause};

use crate::host::{Host, LIMITS, evaluated, evaluated_with, started};

fn failed(script: &str, limits: Limits) -> FailureKind {
    match Host::default().run(&mut started(script, limits), 10_000) {
        Err(failure) => failure.kind,
        Ok(answer) => panic!("{script}: {answer:?}"),
    }
}

#[test]
fn a_loop_ends_when_its_steps_are_used() {
    let limits = Limits { steps: 100_000, ..LIMITS };
    assert_eq!(failed("while true do end", limits), FailureKind::Steps);
    let mut run = started("while true do end", limits);
    assert_eq!(run.resume(1_000), Pause::Rested);
    assert!((900..=1_100).contains(&run.steps_used()), "{}", run.steps_used());
}

#[test]
fn a_script_that_catches_every_error_ends() {
    let limits = Limits { steps: 100_000, ..LIMITS };
    let script = "local function f() while true do pcall(function() f() error('x') end) end end while true do pcall(f) end";
    assert_eq!(failed(script, limits), FailureKind::Steps);
    assert_eq!(failed("while true do pcall(string.rep, 'x', 1e10) end", limits), FailureKind::Memory);
}

#[test]
fn tail_calls_take_no_depth_and_do_not_last_for_ever() {
    assert_eq!(
        evaluated("local function f(n) if n == 0 then return 'end' end return f(n - 1) end return f(100000)"),
        "\"end\""
    );
    assert_eq!(
        failed("local function f() return f() end f()", Limits { steps: 50_000, ..LIMITS }),
        FailureKind::Steps
    );
}

#[test]
fn too_many_calls_in_each_other_are_an_error_that_can_be_caught() {
    assert_eq!(
        evaluated("local function f() return 1 + f() end return f()"),
        "-ERR user_script:1: stack overflow"
    );
    let script = "local function f() return 1 + f() end return {pcall(f)}";
    assert_eq!(evaluated(script), "[nil \"user_script:1: stack overflow\"]");
    // Without a bound on calls, memory is the bound.
    let limits = Limits { depth: u32::MAX, bytes: 4 << 20, ..LIMITS };
    assert_eq!(failed("local function f() return 1 + f() end return f()", limits), FailureKind::Memory);
}

#[test]
fn a_string_of_a_gigabyte_is_refused_before_it_is_made() {
    assert_eq!(failed("return string.rep('x', 1e9)", LIMITS), FailureKind::Memory);
    assert_eq!(failed("return string.rep('x', 2^53)", LIMITS), FailureKind::Memory);
    assert_eq!(failed("local s = 'x' while true do s = s .. s end", LIMITS), FailureKind::Memory);
    assert_eq!(
        failed("local s = ('x'):rep(1000) return (s:gsub('x', s):gsub('x', s))", LIMITS),
        FailureKind::Memory
    );
    assert_eq!(
        failed("local t = {} for i = 1, 1000 do t[i] = ('x'):rep(100000) end return table.concat(t)", LIMITS),
        FailureKind::Memory
    );
}

#[test]
fn keys_of_tables_count() {
    let limits = Limits { bytes: 8 << 20, ..LIMITS };
    assert_eq!(failed("local t = {} for i = 1, 1e6 do t['k' .. i] = i end", limits), FailureKind::Memory);
    assert_eq!(failed("local t = {} for i = 1, 1e6 do t[i] = {} end", limits), FailureKind::Memory);
    assert_eq!(
        failed("local t = {} for i = 1, 1e6 do t[i] = function() return i end end", limits),
        FailureKind::Memory
    );
}

#[test]
fn what_nothing_refers_to_is_freed() {
    let limits = Limits { bytes: 2 << 20, steps: 100_000_000, ..LIMITS };
    assert_eq!(
        evaluated_with(
            "local s for i = 1, 100000 do s = 'a long string number ' .. i end return #s",
            limits,
            10_000
        ),
        "27"
    );
    assert_eq!(
        evaluated_with("local t for i = 1, 100000 do t = {i, {i}, x = i} end return t[2][1]", limits, 10_000),
        "100000"
    );
    let kept = "local keep = {} for i = 1, 100 do keep[i] = 'kept ' .. i end \
                for i = 1, 50000 do local f = function() return i end f() end return keep[1] .. keep[100]";
    assert_eq!(evaluated_with(kept, limits, 10_000), "\"kept 1kept 100\"");
}

#[test]
fn patterns_cost_what_they_do() {
    let limits = Limits { steps: 1_000_000, ..LIMITS };
    let script = "return ('a'):rep(30000):find(('a*'):rep(20) .. 'b')";
    assert_eq!(failed(script, limits), FailureKind::Steps);
}

#[test]
fn answers_count() {
    let mut run = started("return redis.call('get', 'x')", Limits { bytes: 1 << 20, ..LIMITS });
    assert!(matches!(run.resume(1_000), Pause::Call(_)));
    run.answered(Answer::Bulk(vec![0; 2 << 20]));
    let Pause::Failed(failure) = run.resume(1_000) else { panic!("it has no room") };
    assert_eq!(failure.kind, FailureKind::Memory);
    // A table that contains itself twice is an answer without an end.
    let kind = failed("local t = {} t[1] = t t[2] = t return t", Limits { bytes: 1 << 20, ..LIMITS });
    assert_eq!(kind, FailureKind::Memory);
}

#[test]
fn every_place_to_rest_is_the_same_run() {
    let script = "local t = {} for i = 1, 200 do t[i] = (i * 7919) % 211 end table.sort(t, function(a, b) return a < b end) \
                  local s = ('x'):rep(50):gsub('x', function(c) return redis.call('incr', 'n') .. ',' end) \
                  return {t[1], t[200], s, pcall(error, 'e')}";
    let whole = evaluated(script);
    for steps in [1, 2, 3, 7, 50] {
        assert_eq!(evaluated_with(script, LIMITS, steps), whole);
    }
}

#[test]
fn work_that_is_large_costs_much() {
    let limits = Limits { steps: 2_000_000, ..LIMITS };
    let begun = std::time::Instant::now();
    for script in [
        "local s = ('1'):rep(1e6) while true do local x = s + 1 end",
        "local s = ('1'):rep(1e6) while true do tonumber(s) end",
        "local t = {} for i = 1, 7000 do t[i] = i end local function f(...) return ... end while true do f(unpack(t)) end",
        "local function deep(n) if n > 0 then return 1 + deep(n - 1) end while true do pcall(error, 'x', 1e9) end end deep(9000)",
        "local s = ('x'):rep(1e6) while true do pcall(error, s) end",
        "local s = ('x'):rep(1e6) local r = s .. 'y' while true do local x = s < r end",
        "local t = {} for i = 1, 1e5 do t['k' .. i] = i end for i = 1, 1e5 do t['k' .. i] = nil end while true do next(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 0) end",
    ] {
        assert_eq!(failed(script, limits), FailureKind::Steps, "{script}");
    }
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn errors_keep_their_bytes() {
    assert_eq!(evaluated("local ok, e = pcall(error, 'a\\255\\0b', 0) return e"), "\"a\\xff\\x00b\"");
    assert_eq!(
        evaluated("local ok, e = pcall(function() error('\\255') end) return e"),
        "\"user_script:1: \\xff\""
    );
}
