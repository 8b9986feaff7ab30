//! What `tools/release` makes: the tarball has what its README and its manual name, and the program in it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use claret_rig::Module;

/// A directory that goes with the test.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

#[test]
fn the_tarball_has_the_program_the_module_and_what_goes_with_them() {
    let place = Place(std::env::temp_dir().join(format!("claret-release-{}", std::process::id())));
    let (built, out) = (place.0.join("built"), place.0.join("out"));
    fs::create_dir_all(&built).expect("there is room");
    let module = Module::of_sources().expect("the module");
    for (from, to) in [
        (Path::new(env!("CARGO_BIN_EXE_claret")), "claret"),
        (Path::new(&module.path), "libclaret_module.so"),
    ] {
        // With what a debugger reads it is ten times as large.
        run(Command::new("strip").arg("-o").arg(built.join(to)).arg(from));
    }
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/release");
    let said = run(Command::new(tool).arg("--built").arg(&built).arg("--out").arg(&out));
    let tarball = PathBuf::from(said.lines().last().expect("its path"));
    let name =
        tarball.file_name().expect("a file").to_str().expect("text").strip_suffix(".tar.gz").expect("one");
    assert!(name.starts_with(concat!("claret-", env!("CARGO_PKG_VERSION"), "-")), "{name}");
    let sums =
        run(Command::new("sha256sum").args(["-c", &format!("{name}.tar.gz.sha256")]).current_dir(&out));
    assert!(sums.contains("OK"), "{sums}");

    run(Command::new("tar").arg("-xzf").arg(&tarball).arg("-C").arg(&place.0));
    let folder = place.0.join(name);
    for file in [
        "claret",
        "libclaret_module.so",
        "LICENSE",
        "LICENCES-OF-OTHERS",
        "README.md",
        "CHANGELOG.md",
        "completions/claret",
        "completions/_claret",
        "completions/claret.fish",
        "man/man1/claret.1",
        "man/man1/claret-demo.1",
    ] {
        assert!(fs::metadata(folder.join(file)).is_ok_and(|it| it.len() > 0), "{file}");
    }
    // Of each crate that the program is made of, the licence is named.
    let licences = fs::read_to_string(folder.join("LICENCES-OF-OTHERS")).expect("text");
    for crate_name in ["tokio", "serde", "redis-module"] {
        assert!(licences.contains(&format!("==== {crate_name} ")), "{crate_name}");
    }
    // Each command that its README shows is one of the program.
    let readme = fs::read_to_string(folder.join("README.md")).expect("text");
    let shown = readme.lines().filter_map(|line| line.strip_prefix("claret ")).map(|rest| rest.split(' '));
    let commands: Vec<&str> = shown.filter_map(|mut words| words.next()).collect();
    assert!(commands.len() >= 5, "{readme}");
    for command in commands {
        run(Command::new(folder.join("claret")).args([command, "--help"]));
    }
}
