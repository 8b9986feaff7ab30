//! `--password-file`: the password of a store's URL, from a file. What stands in an argument everybody on the machine sees who runs
//! `ps`.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

/// The longest password, in bytes.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

// Its text would be that of the command, where a command has it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PasswordFile {
    /// The password is the first line of this file, and not in the URL, where everybody on this machine sees it who runs ps.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

impl PasswordFile {
    /// The password, if there is a file.
    ///
    /// # Errors
    /// It cannot be read, or begins with an empty line.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let shown = path.display();
        let mut text = Vec::new();
        File::open(path).and_then(|file| file.take(PASSWORD_BYTES_MAX + 1).read_to_end(&mut text)).map_err(
            |error| format!("cannot read {shown}: {error}; name a file whose first line is the password"),
        )?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let word = line.strip_suffix(b"\r").unwrap_or(line);
        if word.is_empty() || word.len() as u64 > PASSWORD_BYTES_MAX {
            return Err(format!(
                "the first line of {shown} is no password: it has to have 1 to {PASSWORD_BYTES_MAX} bytes"
            ));
        }
        Ok(Some(word.to_vec()))
    }

    /// Names a store to another process of this program: `store` as this one was given it where there is a file, `url` otherwise.
    pub(crate) fn hand_on(&self, command: &mut Command, store: &str, url: &str) {
        match &self.password_file {
            Some(path) => command.args(["--store", store, "--password-file"]).arg(path),
            None => command.args(["--store", url]),
        };
    }

    /// What `--store` names, with the password where it belongs.
    ///
    /// # Errors
    /// As [`PasswordFile::read`]; or there is a password already, or the store has none.
    pub(crate) fn in_url(&self, store: &str) -> Result<String, String> {
        match self.read()? {
            None => Ok(store.to_owned()),
            Some(password) => with_password(store, &password),
        }
    }
}

fn with_password(store: &str, password: &[u8]) -> Result<String, String> {
    let (scheme, rest) = match store.split_once("://") {
        Some((scheme @ ("redis" | "rediss"), rest)) => (scheme, rest),
        _ => return Err("--password-file is of servers: say --store redis://HOST:PORT".to_owned()),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (user, hosts) = rest[..end].rsplit_once('@').unwrap_or(("", &rest[..end]));
    if user.contains(':') {
        return Err(
            "there is a password in the URL and one in --password-file: leave out that in the URL".to_owned()
        );
    }
    let hidden: String = password
        .iter()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    Ok(format!("{scheme}://{user}:{hidden}@{hosts}{}", &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_stands_where_a_url_has_it() {
        for (store, url) in [
            ("redis://h:1", "redis://:p%40%00@h:1"),
            ("rediss://ann@h:1,i:2/0?tls-ca=a@b", "rediss://ann:p%40%00@h:1,i:2/0?tls-ca=a@b"),
        ] {
            assert_eq!(with_password(store, b"p@\0").as_deref(), Ok(url));
        }
        for (store, why) in [
            ("embedded", "is of servers"),
            ("file:/a", "is of servers"),
            ("redis://ann:x@h", "in the URL and one in"),
            ("redis://:x@h", "in the URL and one in"),
        ] {
            assert!(with_password(store, b"p").expect_err("it is refused").contains(why), "{store}");
        }
    }

    #[test]
    fn the_first_line_of_the_file_is_the_password() {
        let folder = claret_rig::TestFolder::new();
        let path = folder.path().join("password");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            PasswordFile { password_file: Some(path.clone()) }.read()
        };
        assert_eq!(read(b"a b\xff\r\nmore\n"), Ok(Some(b"a b\xff".to_vec())));
        assert_eq!(read(b"word"), Ok(Some(b"word".to_vec())));
        assert!(read(b"\nword").expect_err("it is empty").contains("is no password"));
        assert!(read(&vec![b'x'; 70_000]).is_err());
        let nowhere = PasswordFile { password_file: Some(folder.path().join("nowhere")) };
        assert!(nowhere.in_url("redis://h").expect_err("there is none").contains("cannot read"));
        assert_eq!(PasswordFile::default().in_url("redis://h").as_deref(), Ok("redis://h"));
    }
}
