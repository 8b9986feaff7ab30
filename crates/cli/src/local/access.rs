//! Who may connect to a local cluster, and how: TLS, the default user's password, other users.

use std::fmt;
use std::fs;
use std::path::Path;

use claret_rig::ClusterOptions;
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// How long a password may be.
const PASSWORD_MAX: usize = 512;

/// Who may connect, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// By TLS alone, with a certificate of the cluster's authority.
    pub(crate) tls: bool,
    /// The default user's password.
    pub(crate) password: Option<Password>,
    /// Other users: each its name and its rules, as `ACL SETUSER` takes them.
    pub(crate) users: Vec<String>,
}

impl Access {
    /// The servers with it, but for TLS: its certificates are made when there is a directory for them.
    pub(super) fn of_servers(&self, mut servers: ClusterOptions) -> ClusterOptions {
        if let Some(password) = &self.password {
            servers = servers.password(password.as_str());
        }
        self.users.iter().fold(servers, |servers, user| servers.config(&format!("user {user}")))
    }
}

/// A password of letters and digits. Debug output hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Password(String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Password {
    /// One that nobody guesses.
    pub(crate) fn random() -> Self {
        Password(format!("{:032x}", rand::rng().random::<u128>()))
    }

    /// The first line of a file.
    ///
    /// # Errors
    /// The file cannot be read, or the line is no such password.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = read(path)?;
        let word = text.lines().next().unwrap_or_default();
        let is_good =
            (1..=PASSWORD_MAX).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphanumeric());
        match is_good {
            true => Ok(Password(word.to_owned())),
            false => Err(format!(
                "the first line of {} is no password: 1 to {PASSWORD_MAX} letters and digits",
                path.display()
            )),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The users in a file: a line each, empty lines and those that begin with `#` left out.
///
/// # Errors
/// The file cannot be read, or names the default user.
pub(crate) fn read_users(path: &Path) -> Result<Vec<String>, String> {
    let text = read(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let users: Vec<String> =
        lines.map(|line| line.strip_prefix("user ").unwrap_or(line).to_owned()).collect();
    match users.iter().any(|user| user.split_whitespace().next() == Some("default")) {
        true => Err(format!("{}: the default user has its password by --password", path.display())),
        false => Ok(users),
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_and_differ() {
        let (one, other) = (Password::random(), Password::random());
        assert!(one != other && one.as_str().len() == 32);
        assert_eq!(format!("{one:?}"), "***");
    }
}
