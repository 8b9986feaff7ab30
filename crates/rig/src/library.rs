//! Libraries of this project that servers load: where they are, and how they are built in a checkout.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::RigError;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    /// Its package.
    pub(crate) package: &'static str,
    /// Its file.
    pub(crate) file: &'static str,
    /// The variable of the environment that may name another file.
    pub(crate) variable: &'static str,
}

impl Library {
    /// The file that the variable names; else the one beside this program; else one that was built in this checkout, and it is
    /// built if there is none.
    ///
    /// # Errors
    /// There is none, and how to get it.
    pub(crate) fn find(&self) -> Result<PathBuf, RigError> {
        if let Some(named) = self.named() {
            return file_at(&named);
        }
        let built =
            target_folders().into_iter().flat_map(|target| [target.join("release"), target.join("debug")]);
        let mut files = beside_program().into_iter().chain(built).map(|folder| folder.join(self.file));
        match files.find(|it| it.is_file()) {
            Some(path) => file_at(&path),
            None => self.build(),
        }
    }

    /// The file that the variable names, else that of this checkout as its sources are now.
    ///
    /// # Errors
    /// It does not compile, or this is no checkout.
    pub(crate) fn of_sources(&self) -> Result<PathBuf, RigError> {
        self.named().map_or_else(|| self.build(), |named| file_at(&named))
    }

    fn named(&self) -> Option<PathBuf> {
        env::var_os(self.variable).filter(|named| !named.is_empty()).map(PathBuf::from)
    }

    /// Builds it in the profile that this was built in.
    fn build(&self) -> Result<PathBuf, RigError> {
        let Library { package, file, variable } = self;
        let Some(root) = checkout().filter(|root| root.join("crates/module/Cargo.toml").is_file()) else {
            let how = format!(
                "in a checkout run `cargo build --release -p {package}`, and put {file} beside this program or name it in {variable}"
            );
            return Err(RigError::NoLibrary(how));
        };
        let (profile, folder) =
            if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "-p", package, "--profile", profile])
            .current_dir(&root)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                RigError::NoLibrary(format!("cargo, to build {file}, cannot be run: {error}"))
            })?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(RigError::NoLibrary(format!("building {file} failed:\n{said}")));
        }
        let target = target_folders().into_iter().next().unwrap_or_else(|| root.join("target"));
        file_at(&target.join(folder).join(file))
    }
}

/// This file.
pub(crate) fn file_at(path: &Path) -> Result<PathBuf, RigError> {
    match path.canonicalize() {
        Ok(path) if path.is_file() => Ok(path),
        Ok(_) | Err(_) => Err(RigError::NoLibrary(format!("{} is not a file", path.display()))),
    }
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
