//! The languages whose clients are run: what must be installed for each, how its programs are made ready, and how they are started.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// How one language is made ready, in a folder of its own with a copy of the sources.
struct Language {
    name: &'static str,
    /// Commands that only ask a tool for its version.
    tools: &'static [&'static [&'static str]],
    /// The file of `clients/examples`, and where it goes.
    example: (&'static str, &'static str),
    /// Fetches from a registry: where that fails, the language is skipped.
    fetch: &'static [&'static [&'static str]],
    /// Compiles: where that fails, so does the test.
    build: &'static [&'static [&'static str]],
    /// Clients, and the words that start their programs in the folder.
    programs: &'static [(&'static str, &'static [&'static str])],
    /// Clients of older versions, and the words that start their programs: what they do by default is looked at, too.
    older: &'static [(&'static str, &'static [&'static str])],
    /// The words that start the example.
    run_example: &'static [&'static str],
}

const LANGUAGES: [Language; 4] = [
    Language {
        name: "python",
        tools: &[&["python3", "--version"]],
        example: ("transfer.py", "transfer.py"),
        fetch: &[
            &["python3", "-m", "venv", "venv"],
            &["venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"],
            &["python3", "-m", "venv", "venv5"],
            &[
                "venv5/bin/pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
                "requirements-5.txt",
            ],
            &["python3", "-m", "venv", "venv6"],
            &[
                "venv6/bin/pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
                "requirements-6.txt",
            ],
        ],
        build: &[],
        programs: &[("redis-py", &["venv/bin/python", "-B", "client.py"])],
        older: &[
            ("redis-py 5", &["venv5/bin/python", "-B", "client.py"]),
            ("redis-py 6", &["venv6/bin/python", "-B", "client.py"]),
        ],
        run_example: &["venv/bin/python", "transfer.py"],
    },
    Language {
        name: "go",
        tools: &[&["go", "version"]],
        example: ("transfer.go", "example/main.go"),
        fetch: &[&["go", "mod", "download", "github.com/redis/go-redis/v9"]],
        build: &[&["go", "build", "-o", "program", "."], &["go", "build", "-o", "transfer", "./example"]],
        programs: &[("go-redis", &["./program"])],
        older: &[],
        run_example: &["./transfer"],
    },
    Language {
        name: "java",
        tools: &[&["javac", "-version"], &["java", "-version"], &["mvn", "--version"]],
        example: ("transfer.java", "example/transfer.java"),
        fetch: &[&[
            "mvn",
            "--quiet",
            "--batch-mode",
            "dependency:copy-dependencies",
            "-DoutputDirectory=jars",
        ]],
        build: &[&["sh", "-c", "javac -nowarn -cp 'jars/*' -d classes *.java"]],
        programs: &[
            ("Jedis", &["java", "-cp", "classes:jars/*", "JedisProgram"]),
            ("Lettuce", &["java", "-cp", "classes:jars/*", "LettuceProgram"]),
        ],
        older: &[],
        run_example: &["java", "-cp", "jars/*", "example/transfer.java"],
    },
    Language {
        name: "javascript",
        tools: &[&["node", "--version"], &["npm", "--version"]],
        example: ("transfer.js", "transfer.js"),
        fetch: &[&["npm", "ci", "--omit=dev", "--no-audit", "--no-fund"]],
        build: &[],
        programs: &[("node-redis", &["node", "node-redis.js"]), ("ioredis", &["node", "ioredis.js"])],
        older: &[],
        run_example: &["node", "transfer.js"],
    },
];

/// A program that is ready.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its client, without the version.
    pub(crate) client: &'static str,
    words: Vec<String>,
    folder: PathBuf,
}

impl Program {
    /// The command that runs it, with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}

/// What can be run here.
#[derive(Debug)]
pub(crate) struct Ready {
    /// A program for each client.
    pub(crate) clients: Vec<Program>,
    /// And one for each older version.
    pub(crate) older: Vec<Program>,
    /// The example of each language that has one.
    pub(crate) examples: Vec<Program>,
}

/// Whether nothing may be skipped.
pub(crate) fn all_wanted() -> bool {
    match env::var("CLARET_CLIENTS") {
        Err(_) => false,
        Ok(wanted) if wanted.is_empty() => false,
        Ok(wanted) if wanted == "all" => true,
        Ok(wanted) => panic!("CLARET_CLIENTS is `all` or not set, not {wanted:?}"),
    }
}

/// All that can be run here, made ready once. What cannot is printed with the reason, and with `CLARET_CLIENTS=all` nothing may be.
pub(crate) fn ready() -> &'static Ready {
    static READY: OnceLock<Ready> = OnceLock::new();
    READY.get_or_init(|| {
        let mut ready = Ready { clients: vec![of_rust()], older: Vec::new(), examples: Vec::new() };
        for language in &LANGUAGES {
            match language.prepare() {
                Ok(folder) => language.add_to(&mut ready, &folder),
                Err(reason) => {
                    let clients: Vec<&str> = language.programs.iter().map(|(client, _)| *client).collect();
                    let skipped = format!("{} ({}): skipped: {reason}", language.name, clients.join(", "));
                    assert!(!all_wanted(), "CLARET_CLIENTS=all, but {skipped}");
                    println!("{skipped}");
                }
            }
        }
        ready
    })
}

/// Where the programs are in this checkout.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

impl Language {
    fn add_to(&self, ready: &mut Ready, folder: &Path) {
        let program = |client: &'static str, words: &[&str]| {
            // A relative program would be looked for where the test runs.
            let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            if words[0].contains('/') {
                words[0] = folder.join(&words[0]).to_str().expect("a path in UTF-8").to_owned();
            }
            Program { client, words, folder: folder.to_owned() }
        };
        ready.clients.extend(self.programs.iter().map(|(client, words)| program(client, words)));
        ready.older.extend(self.older.iter().map(|(client, words)| program(client, words)));
        ready.examples.push(program(self.example.0, self.run_example));
    }

    /// Its folder, made ready unless it is as it would be made. An error says why this language is skipped.
    fn prepare(&self) -> Result<PathBuf, String> {
        let mut mark = String::new();
        for tool in self.tools {
            mark.push_str(
                &run(Path::new("."), tool).map_err(|error| format!("{} is not there: {error}", tool[0]))?,
            );
        }
        let example = sources().join("examples").join(self.example.0);
        let mut files = files_of(&sources().join(self.name));
        files.push((self.example.1.to_owned(), fs::read(&example).expect("an example of each language")));
        for (name, content) in &files {
            mark.push_str(&format!("\n== {name}\n{}", String::from_utf8_lossy(content)));
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../clients").join(self.name);
        let marked = folder.join("ready.mark");
        if fs::read_to_string(&marked).is_ok_and(|found| found == mark) {
            return Ok(folder);
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("a folder of ours");
        }
        for (name, content) in &files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
            fs::write(&path, content).expect("a copy");
        }
        let folder = folder.canonicalize().expect("it was just made");
        for command in self.fetch {
            run(&folder, command).map_err(|error| format!("`{}` fails: {error}", command.join(" ")))?;
        }
        for command in self.build {
            if let Err(error) = run(&folder, command) {
                panic!("{}: `{}` fails: {error}", self.name, command.join(" "));
            }
        }
        fs::write(marked, mark).expect("the mark");
        Ok(folder)
    }
}

/// The files of a folder of sources, with names in order; nothing is in folders of it.
fn files_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder for each language");
    let paths = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let mut files: Vec<(String, Vec<u8>)> = paths
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
            (name, fs::read(&path).expect("a source"))
        })
        .collect();
    files.sort();
    files
}

/// Runs a command to its end; what it printed. An error is what it said, or why it could not be run.
fn run(folder: &Path, words: &[&str]) -> Result<String, String> {
    let program = match words[0].contains('/') {
        true => folder.join(words[0]),
        false => PathBuf::from(words[0]),
    };
    let mut command = Command::new(program);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{}: {}", output.status, said.trim())),
    }
}

/// The program of redis-rs: an example of this crate.
fn of_rust() -> Program {
    let path = example("redis-rs", &sources().join("rust"));
    let words = vec![path.to_str().expect("a path in UTF-8").to_owned()];
    let folder = path.parent().expect("it is in a folder").to_owned();
    Program { client: "redis-rs", words, folder }
}

/// An example of this crate, built if it is not there as its sources are, which are in a folder.
pub(crate) fn example(name: &str, sources: &Path) -> PathBuf {
    built(&format!("examples/{name}"), sources, &["--workspace", "--locked", "--example", name])
}

/// The program `claret`, built if it is not there as the gateway is.
pub(crate) fn claret() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    built("claret", &sources, &["--workspace", "--locked", "--bin", "claret"])
}

/// What cargo builds by these words, in the folder of this profile.
fn built(name: &str, sources: &Path, words: &[&str]) -> PathBuf {
    let test = env::current_exe().expect("this program");
    let profile = test.parent().and_then(Path::parent).expect("it is in deps of a profile");
    let path = profile.join(name);
    let built = fs::metadata(&path).and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let changed = fs::read_dir(sources).expect("its sources").map(|entry| {
        entry.and_then(|entry| entry.metadata()).and_then(|found| found.modified()).expect("a source")
    });
    if changed.max().expect("a source") > built {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        let output = Command::new(cargo)
            .args(["build", "--quiet", "--profile", profile])
            .args(words)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "building it: {}", String::from_utf8_lossy(&output.stderr));
    }
    path
}
