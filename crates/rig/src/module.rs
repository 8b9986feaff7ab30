//! Finding the module that the servers load.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::RigError;

const FILE: &str = "libclaret_module.so";

/// The module, and what is said to it when it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its file.
    pub path: PathBuf,
    /// Arguments behind it, if any.
    pub args: Vec<String>,
}

impl Module {
    /// The module in this file.
    ///
    /// # Errors
    /// There is no such file.
    pub fn at(path: &Path) -> Result<Self, RigError> {
        match path.canonicalize() {
            Ok(path) if path.is_file() => Ok(Module { path, args: Vec::new() }),
            Ok(_) | Err(_) => Err(RigError::NoModule(format!("{} is not a file", path.display()))),
        }
    }

    /// The module in `CLARET_MODULE`; else the one beside this program; else one that was built in this checkout,
    /// and it is built if there is none.
    ///
    /// # Errors
    /// There is none, and how to get it.
    pub fn find() -> Result<Self, RigError> {
        if let Some(named) = named() {
            return Module::at(&named);
        }
        let built =
            target_folders().into_iter().flat_map(|target| [target.join("release"), target.join("debug")]);
        match beside_program()
            .into_iter()
            .chain(built)
            .map(|folder| folder.join(FILE))
            .find(|it| it.is_file())
        {
            Some(path) => Module::at(&path),
            None => Module::build(),
        }
    }

    /// The module in `CLARET_MODULE`, else the one of this checkout as its sources are now. For tests, that would
    /// otherwise run what was built once.
    ///
    /// # Errors
    /// It does not compile, or this is no checkout.
    pub fn of_sources() -> Result<Self, RigError> {
        match named() {
            Some(named) => Module::at(&named),
            None => Module::build(),
        }
    }

    /// With these arguments.
    #[must_use]
    pub fn with_args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|&arg| arg.to_owned()).collect();
        self
    }

    /// Builds it in the profile that this was built in.
    fn build() -> Result<Self, RigError> {
        let checkout = checkout().filter(|root| root.join("crates/module/Cargo.toml").is_file());
        let Some(root) = checkout else {
            let how = format!(
                "in a checkout run `cargo build --release -p claret-module`, and put {FILE} beside this program or \
                 name it in CLARET_MODULE"
            );
            return Err(RigError::NoModule(how));
        };
        let (profile, folder) =
            if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "-p", "claret-module", "--profile", profile])
            .current_dir(&root)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| RigError::NoModule(format!("cargo, to build it, cannot be run: {error}")))?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(RigError::NoModule(format!("building it failed:\n{said}")));
        }
        let target = target_folders().into_iter().next().unwrap_or_else(|| root.join("target"));
        Module::at(&target.join(folder).join(FILE))
    }
}

fn named() -> Option<PathBuf> {
    env::var_os("CLARET_MODULE").filter(|named| !named.is_empty()).map(PathBuf::from)
}

/// The folder of this program; for a test or an example also the one above it.
fn beside_program() -> Vec<PathBuf> {
    let Ok(program) = env::current_exe() else { return Vec::new() };
    let Some(folder) = program.parent() else { return Vec::new() };
    let is_inner = ["deps", "examples"].iter().any(|inner| folder.ends_with(inner));
    let above = folder.parent().filter(|_| is_inner);
    [Some(folder), above].into_iter().flatten().map(Path::to_path_buf).collect()
}

/// The checkout that this was built in, if it is still there.
fn checkout() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()
}

/// Where cargo puts what it builds.
fn target_folders() -> Vec<PathBuf> {
    let Some(root) = checkout() else { return Vec::new() };
    match env::var_os("CARGO_TARGET_DIR").filter(|named| !named.is_empty()) {
        Some(named) => vec![root.join(named)],
        None => vec![root.join("target")],
    }
}
