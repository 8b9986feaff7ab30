//! How a script reports mistakes, and that its checks can fail.

use super::{play, run};

const TWO_SHARDS: &str = "shards 2\nkey x on s0\nkey y on s1\nclient c1\nc1 begin T1\n";

fn error(text: &str) -> String {
    let played = play(text);
    let error = played.error.expect("something is wrong");
    assert!(played.transcript.ends_with(&format!("error: {error}\n")), "{}", played.transcript);
    error
}

/// The example of the module's text, as it is written there.
#[test]
fn what_the_documentation_shows_is_played_so() {
    let source = include_str!("mod.rs");
    let example = source.split("//! ```").nth(1).expect("an example").lines().skip(1);
    let text: String = example
        .map(|line| line.trim_start_matches("//!").trim_start_matches(' '))
        .fold(String::new(), |text, line| text + line + "\n");
    let played: String = run(&text).lines().map(|line| line.trim_start().to_owned() + "\n").collect();
    assert_eq!(
        played.trim_end(),
        text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n").trim_end()
    );
}

#[test]
fn what_came_of_it_before_is_replaced_and_all_else_is_kept() {
    let text =
        "# A story.\n\nshards 1\nclient c1\n# Inside.\nc1 begin T1\n----\nnot what comes of it\n\nT1 abort\n";
    let played = run(text);
    assert_eq!(
        played,
        "# A story.\n\nshards 1\nclient c1\n# Inside.\nc1 begin T1\n----\n\nT1 abort\n----\n    T1 is aborted\n"
    );
    assert_eq!(run(&played), played);
}

#[test]
fn mistakes_name_their_line_and_what_is_allowed() {
    for (commands, says) in [
        ("T1 exekute GET x", "line 6: 'T1 exekute GET x' is no command; the commands are:"),
        ("T1 execute", "it is used so: T execute OPERATION [for update]"),
        ("deliver nothing", "'nothing' chooses no message"),
        ("deliver prepare", "line 6: no message is on its way"),
        ("T2 commit", "there is no T2"),
        ("T1 execute GET x\nT1 commit", "line 7: T1 waits for the answer of #0"),
        ("T1 restart", "T1 runs; it is not told to restart"),
        ("T1 execute SADD x a", "SADD answers nothing"),
        ("T1 execute GET", "GET lacks its key"),
        ("T1 execute SISMEMBER x", "usage: SISMEMBER key member"),
        ("T1 execute FROB x", "'FROB' is no operation"),
        ("T1 execute GET z", "'z' has no place"),
        ("time 5ms", "'5ms' is no time"),
        ("limits lease_us=1", "before 'shards'"),
        ("restart s7 with votes", "there is no s7; there are 2 shards"),
        ("show everything", "locks, records, messages"),
        ("restart s0 with luck", "votes, records or nothing can"),
        ("restart s0", "it is used so: T commit | T abort | T restart; restart sN with"),
        ("kill 1", "'1' is no client"),
    ] {
        let error = error(&format!("{TWO_SHARDS}{commands}\n"));
        assert!(error.contains(says), "{error}");
    }
    assert!(error("limits leases=1").contains("the limits are phase_joins_max"));
    assert!(error("switches colour=red").contains("phasing=on|off"));
}

#[test]
fn what_is_on_its_way_is_shown_to_whoever_chooses_nothing() {
    let text = format!("{TWO_SHARDS}T1 execute GET x\ndeliver prepare\n");
    assert!(error(&text).contains("these are:\nc1 ..> s0: execute T1: #0 GET x"));
}

#[test]
fn what_is_left_behind_is_a_fault_unless_it_is_said() {
    let text = format!("{TWO_SHARDS}T1 execute GET x\ndeliver\n");
    let error = error(&text);
    assert!(
        error.contains("s0: 1 attempt open, 1 record locked") && error.contains("T1 has not ended"),
        "{error}"
    );
    let played = play(&(text + "leaves\n"));
    assert_eq!(played.error, None);
    assert!(played.transcript.contains("s0: 1 attempt open, 1 record locked"));
}
