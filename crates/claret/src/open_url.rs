//! `Store::open_url`: any store, by one text, as a program's configuration has it.

use thiserror::Error as Describe;

use crate::blocking;
#[cfg(feature = "cluster")]
use crate::cluster::ConnectError;
use crate::durability::OpenError;
use crate::store::Store;

/// Why no store was opened by its URL.
#[derive(Debug, Describe)]
#[non_exhaustive]
pub enum OpenUrlError {
    /// The one in a folder was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no connection to the cluster.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It names no store that this program knows. What follows the scheme is not shown, since it may have a password.
    #[error(
        "'{scheme}' names no store; the stores are 'embedded', 'file:FOLDER'{}",
        if cfg!(feature = "cluster") { " and 'redis://HOST:PORT' (or 'rediss://')" } else { "; a cluster needs the cargo feature 'cluster'" }
    )]
    NoStore {
        /// What is before the first colon.
        scheme: String,
    },
}

/// What a URL names.
enum Place<'a> {
    Memory,
    Folder(&'a str),
    #[cfg(feature = "cluster")]
    Cluster(&'a str),
}

fn place(url: &str) -> Result<Place<'_>, OpenUrlError> {
    match url.split_once(':') {
        None if url == "embedded" => Ok(Place::Memory),
        // A path without a name would be the current folder.
        Some(("file", folder)) if !folder.is_empty() => {
            Ok(Place::Folder(folder.strip_prefix("//").unwrap_or(folder)))
        }
        #[cfg(feature = "cluster")]
        Some(("redis" | "rediss", _)) => Ok(Place::Cluster(url)),
        other => {
            let scheme = other.map_or(url, |(scheme, _)| scheme);
            Err(OpenUrlError::NoStore { scheme: scheme.chars().take(64).collect() })
        }
    }
}

impl Store {
    /// Opens the store that a text names, as a program's configuration has it: `embedded`, an empty store in this process
    /// ([`Store::in_memory`]); `file:FOLDER` ([`Store::open`]); `redis://HOST:PORT` or `rediss://HOST:PORT`, a cluster (`Store::connect`,
    /// with the cargo feature `cluster`). The program's commands take the same as `--store`.
    ///
    /// # Errors
    /// See [`OpenUrlError`].
    ///
    /// # Panics
    /// Of a cluster: outside a tokio runtime; see [`blocking::Store::open_url`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let url = std::env::var("STORE").unwrap_or("embedded".into());
    /// let store = Store::open_url(&url).await?;
    /// store.counter("visits").add(1).await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn open_url(url: &str) -> Result<Self, OpenUrlError> {
        match place(url)? {
            Place::Memory => Ok(Store::in_memory()),
            Place::Folder(folder) => Ok(Store::open(folder)?),
            #[cfg(feature = "cluster")]
            Place::Cluster(url) => Ok(Store::connect(url).await?),
        }
    }
}

impl blocking::Store {
    /// [`Store::open_url`] for threads. The connections of a cluster live on a thread of their own.
    ///
    /// # Errors
    /// See [`OpenUrlError`].
    pub fn open_url(url: &str) -> Result<Self, OpenUrlError> {
        match place(url)? {
            Place::Memory => Ok(Store::in_memory().blocking()),
            Place::Folder(folder) => Ok(blocking::Store::open(folder)?),
            #[cfg(feature = "cluster")]
            Place::Cluster(url) => Ok(blocking::Store::connect(url)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_names_no_store_is_an_error_without_what_may_be_secret() {
        for url in ["", "embeded", "file:", "http://ada:secret@host", "secret", "redis//ada:secret@host"] {
            let error = place(url).err().expect("it names none").to_string();
            assert!(error.contains("the stores are 'embedded', 'file:FOLDER'"), "{url}: {error}");
            assert!(!error.contains("secret@"), "{error}");
        }
    }

    #[test]
    fn a_folder_is_opened_by_its_url() {
        let folder = std::env::temp_dir().join(format!("claret-open-url-{}", std::process::id()));
        for url in [format!("file:{}", folder.display()), format!("file://{}", folder.display())] {
            let store = pollster::block_on(Store::open_url(&url)).expect("it opens");
            assert!(store.log_status().is_ok());
            drop(store);
        }
        assert!(folder.join("manifest").exists(), "where it was named");
        std::fs::remove_dir_all(&folder).expect("it is removed");
        let store = blocking::Store::open_url("embedded").expect("it opens");
        assert!(store.log_status().is_err());
    }
}
