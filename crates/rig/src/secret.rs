//! What the nodes of a cluster sign with (`claret.peer-secret-file`), in a file that goes with its owner.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::RigError;
use crate::folder::Folder;

/// A file with a secret that the nodes of a cluster sign with, for as long as it is kept.
#[derive(Debug)]
pub struct SecretFile {
    /// It goes when this is dropped.
    _folder: Folder,
    path: PathBuf,
}

impl SecretFile {
    /// A new secret, that nobody knows.
    ///
    /// # Errors
    /// The file cannot be written, or the system has no random bytes.
    pub fn write() -> Result<Self, RigError> {
        let folder = Folder::temporary()?;
        let source = PathBuf::from("/dev/urandom");
        let mut random = [0_u8; 16];
        File::open(&source)
            .and_then(|mut file| file.read_exact(&mut random))
            .map_err(|error| RigError::io("reading", &source, error))?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.path().join("peer-secret");
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| RigError::io("writing", &path, error))?;
        Ok(SecretFile { _folder: folder, path })
    }

    /// The line of a server's configuration that names it.
    pub fn setting(&self) -> String {
        format!("claret.peer-secret-file {}", self.path.display())
    }
}
