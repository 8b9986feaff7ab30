//! Bugs that can be planted in the hosts (the cluster client and the module), to see that their tests notice.
//!
//! With the feature `planted-bugs` the environment plants one: `CLARET_PLANT=name`. Without it [`is_planted`] is a constant
//! `false`, and no bug is in the code that is shipped. A bug stands at the line that it breaks, as
//! `is_planted(Bug::Name)`. `tools/host-bugs` builds once, plants each bug in turn, and runs the tests that are
//! named here until one fails; `CATALOGUE.md` has the same list as a table.
//!
//! Bugs of the protocol are planted for a thread, not for a process: `claret_core::planted`.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!(
    "`planted-bugs` is for tests, in a build with debug assertions: nothing that is shipped has bugs in it"
);

mod catalogue;
mod room;

use std::fmt::Write;

pub use catalogue::Bug;
pub use room::Room;

/// A test that can see a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// The crate, without `claret-`; the client's is `claret`.
    pub package: &'static str,
    /// The module of the crate's test program; `lib` for the tests within the crate.
    pub part: &'static str,
    /// It sees the bug on Valkey alone: Redis 7.0 does not name clients to the filter.
    pub on_valkey: bool,
    /// The function; within its part there is one of that name.
    pub name: &'static str,
}

impl Test {
    /// Reads `module/multi a_test` or `module/multi@valkey a_test`.
    fn parse(line: &'static str) -> Option<Test> {
        let (place, name) = line.split_once(' ')?;
        let (place, on_valkey) = match place.split_once('@') {
            Some((place, "valkey")) => (place, true),
            Some(_) => return None,
            None => (place, false),
        };
        let (package, part) = place.split_once('/')?;
        Some(Test { package, part, on_valkey, name })
    }

    /// Where the test is, from the root: the crate's `src`, or in the test program's folder the module, which is a file or a folder.
    fn file(&self) -> String {
        let crate_folder = format!("crates/{}", self.package);
        match self.part {
            "lib" => format!("{crate_folder}/src"),
            part => format!("{crate_folder}/tests/{}/{part}", self.package),
        }
    }
}

impl Bug {
    /// Its name, in words with hyphens: what the environment says.
    pub fn name(self) -> String {
        let variant = format!("{self:?}");
        let mut name = String::new();
        for (at, envelope) in variant.char_indices() {
            if at > 0 && envelope.is_uppercase() {
                name.push('-');
            }
            name.push(envelope.to_ascii_lowercase());
        }
        name
    }

    /// The bug of that name.
    pub fn parse(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.name() == name)
    }

    /// The tests that can see it, those that take least first. None of a bug that [survives](Bug::survives).
    ///
    /// # Panics
    /// When a line of the catalogue is none; a test reads them all.
    pub fn tests(self) -> Vec<Test> {
        let test = |line: &&'static str| Test::parse(line).unwrap_or_else(|| panic!("{self:?}: {line}"));
        self.seen_by().iter().map(test).collect()
    }
}

/// Whether this bug is planted in this process.
#[cfg(feature = "planted-bugs")]
pub fn is_planted(bug: Bug) -> bool {
    static PLANTED: std::sync::LazyLock<Option<Bug>> = std::sync::LazyLock::new(|| {
        let name = std::env::var("CLARET_PLANT").ok().filter(|name| !name.is_empty())?;
        let bug = Bug::parse(&name);
        if bug.is_none() {
            eprintln!(
                "error: CLARET_PLANT={name}: there is no such bug; crates/planted/src/catalogue.rs has them all"
            );
            std::process::exit(2);
        }
        bug
    });
    *PLANTED == Some(bug)
}

/// Never.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn is_planted(_: Bug) -> bool {
    false
}

/// The catalogue as a table for people, room by room.
pub fn table() -> String {
    let mut out = String::new();
    for room in Room::ALL {
        let bugs: Vec<Bug> = Bug::ALL.iter().copied().filter(|bug| bug.room() == *room).collect();
        let _ = writeln!(out, "### {}: {} bugs\n", room.title(), bugs.len());
        out.push_str("| bug | what is wrong | seen by |\n|---|---|---|\n");
        for bug in bugs {
            let seen = match bug.survives() {
                Some(why) => format!("nothing: {why}"),
                None => bug.tests().iter().map(shown).collect::<Vec<_>>().join(", "),
            };
            let _ = writeln!(out, "| `{}` | {} | {seen} |", bug.name(), bug.what());
        }
        out.push('\n');
    }
    out
}

fn shown(test: &Test) -> String {
    let valkey = if test.on_valkey { " (Valkey)" } else { "" };
    format!("{}: `{}`{valkey}", test.file().trim_start_matches("crates/"), test.name)
}
