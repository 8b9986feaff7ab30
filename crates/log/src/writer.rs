//! Writes groups to the log's files, one after another.

use claret_planted::{Bug, is_planted};

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{Header, Kind, SEGMENT_BYTES_MAX};
use crate::manifest::{MANIFEST, Manifest};
use crate::recovery::Recovered;
use crate::tail::Gathered;

/// Writes groups to the log's files, one after another. Invariant: what is before the position is in the files, and what is before
/// `synced` stays there.
#[derive(Debug)]
pub struct Writer<D> {
    disk: D,
    store: u64,
    /// Where the files begin, the last one is written to.
    segments: Vec<u64>,
    name: String,
    /// How long that one is.
    len: u64,
    position: u64,
    synced: u64,
    /// Once a file is so long another one is begun. At most [`SEGMENT_BYTES_MAX`].
    segment_bytes: u64,
    /// What the manifest says. `None`: the store is of a format that had none.
    manifest: Option<Manifest>,
    stopped: Option<String>,
}

impl<D: Disk> Writer<D> {
    /// The log of a new store, with an identity that no other has.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn create(mut disk: D, store: u64, segment_bytes: u64) -> Result<Self, LogError> {
        let name = Kind::Log.name(0);
        let names = disk.list().map_err(LogError::io("list", "the folder"))?;
        // An earlier attempt to create the store ended before it was done: see `recover`.
        if names.contains(&name) {
            disk.remove(&name).map_err(LogError::io("remove", &name))?;
        }
        let mut writer = Writer {
            disk,
            store,
            segments: Vec::new(),
            name,
            len: 0,
            position: 0,
            synced: 0,
            segment_bytes: segment_bytes.min(SEGMENT_BYTES_MAX),
            manifest: None,
            stopped: None,
        };
        writer.begin_segment()?;
        Ok(writer)
    }

    /// Goes on behind what was read. What was torn off is cut off.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn go_on(mut disk: D, read: &Recovered, segment_bytes: u64) -> Result<Self, LogError> {
        for name in &read.leftover {
            disk.remove(name).map_err(LogError::io("remove", name))?;
        }
        let segments = read.segments.clone();
        let name = Kind::Log.name(*segments.last().expect("a store that was read has a log"));
        if read.torn.is_some() {
            disk.truncate(&name, read.last_len).map_err(LogError::io("shorten", &name))?;
        }
        if !is_planted(Bug::DoubtfulNotWrittenAgain) {
            // The system may take it for written since a sync of it failed (D8).
            let mut doubtful = vec![0; (read.last_len - read.unsynced_from) as usize];
            disk.read(&name, read.unsynced_from, &mut doubtful).map_err(LogError::io("read", &name))?;
            disk.write_again(&name, read.unsynced_from, &doubtful).map_err(LogError::io("write", &name))?;
        }
        let mut writer = Writer {
            disk,
            store: read.store,
            segments,
            name,
            len: read.last_len,
            position: read.position,
            synced: 0,
            segment_bytes: segment_bytes.min(SEGMENT_BYTES_MAX),
            manifest: read.manifest,
            stopped: None,
        };
        writer.sync()?;
        writer.sync_names()?;
        let newest = writer.segments.last();
        let names_newest = read.manifest.is_some_and(|manifest| newest == Some(&manifest.newest));
        match writer.write_manifest() {
            // A full disk is no reason not to read what is there.
            Err(error) if error.is_full() && names_newest => {}
            written => written?,
        }
        Ok(writer)
    }

    /// The store's identity.
    pub fn store(&self) -> u64 {
        self.store
    }

    /// Up to where the log is written.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Up to where it stays written, whatever happens.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Writes a group. After an error that [is about room](LogError::is_full) nothing of it is there, and it may be written again.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn write(&mut self, group: &Gathered) -> Result<(), LogError> {
        self.check()?;
        assert_eq!(group.position, self.position, "groups are written in their order");
        if self.len >= self.segment_bytes && self.segments.last() < Some(&self.position) {
            self.sync()?;
            self.begin_segment()?;
        }
        if u32::try_from(group.bytes.len()).is_err() {
            return Err(self.stop(format!("a group of {} bytes", group.bytes.len())));
        }
        self.append(&group.bytes)?;
        self.position += group.bytes.len() as u64;
        Ok(())
    }

    /// Writes that everything is synced, so that damage to the last group is told from a group that was never whole.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn mark(&mut self) -> Result<(), LogError> {
        self.check()?;
        self.append(&[])
    }

    /// Makes what is written stay.
    ///
    /// # Errors
    /// See [`LogError`]. Nobody knows then what stays, so nothing more is written (D8).
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check()?;
        if !is_planted(Bug::SyncSkipped)
            && let Err(error) = self.disk.sync(&self.name)
        {
            self.stop(error.to_string());
            return Err(LogError::io("sync", &self.name)(error));
        }
        self.synced = self.position;
        Ok(())
    }

    /// Nothing more is written: the log is synced, and the manifest says up to where. Without room for that it is as it was.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn close(&mut self) -> Result<(), LogError> {
        self.sync()?;
        match self.write_manifest() {
            Err(error) if error.is_full() => Ok(()),
            written => written,
        }
    }

    /// A snapshot has what is before this position: files that hold nothing else go.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn remove_before(&mut self, position: u64) -> Result<(), LogError> {
        while let [first, second, ..] = self.segments[..]
            && second <= position
            && !is_planted(Bug::OldFilesStay)
        {
            let name = Kind::Log.name(first);
            self.disk.remove(&name).map_err(LogError::io("remove", &name))?;
            self.segments.remove(0);
        }
        Ok(())
    }

    fn append(&mut self, body: &[u8]) -> Result<(), LogError> {
        let header = Header { store: self.store, position: self.position, synced: self.synced };
        let mut frame = Vec::with_capacity(crate::format::HEADER + body.len());
        frame.extend_from_slice(&header.before(body));
        frame.extend_from_slice(body);
        if let Err(error) = self.disk.append(&self.name, &frame) {
            // So that what comes next is not behind half a frame.
            if !is_planted(Bug::HalfAGroupLeft)
                && let Err(error) = self.disk.truncate(&self.name, self.len)
            {
                self.stop(error.to_string());
            }
            return Err(LogError::io("write", &self.name)(error));
        }
        self.len += frame.len() as u64;
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<(), LogError> {
        let (name, line) = (Kind::Log.name(self.position), Kind::Log.line(self.store));
        if let Err(error) = self.make(&name, &line) {
            // Half a file would be in the way of the next try.
            let _ = self.disk.remove(&name);
            return Err(LogError::io("create", &name)(error));
        }
        self.segments.push(self.position);
        if let Err(error) = self.write_manifest() {
            self.segments.pop();
            if self.stopped.is_none() {
                let _ = self.disk.remove(&name); // The manifest does not name it.
            }
            return Err(error);
        }
        (self.name, self.len) = (name, line.len() as u64);
        Ok(())
    }

    /// The manifest says what is the newest file, and up to where the log is synced, and stays. Before the newest file has entries.
    fn write_manifest(&mut self) -> Result<(), LogError> {
        let newest = *self.segments.last().expect("a log has a file");
        let manifest = Manifest { store: self.store, newest, synced: self.synced };
        if self.manifest == Some(manifest) {
            return Ok(());
        }
        manifest.put(&mut self.disk).map_err(LogError::io("write", MANIFEST))?;
        self.manifest = Some(manifest);
        if is_planted(Bug::ManifestUnsynced) { Ok(()) } else { self.sync_names() }
    }

    /// After an error nobody knows which files there will be, so nothing more is written.
    fn sync_names(&mut self) -> Result<(), LogError> {
        self.disk.sync_names().map_err(|error| {
            self.stop(error.to_string());
            LogError::io("sync", "the folder")(error)
        })
    }

    fn make(&mut self, name: &str, line: &str) -> std::io::Result<()> {
        self.disk.create(name)?;
        self.disk.append(name, line.as_bytes())?;
        self.disk.sync(name)?;
        if is_planted(Bug::NamesUnsynced) { Ok(()) } else { self.disk.sync_names() }
    }

    fn check(&self) -> Result<(), LogError> {
        self.stopped.as_ref().map_or(Ok(()), |reason| Err(LogError::Stopped(reason.clone())))
    }

    fn stop(&mut self, reason: String) -> LogError {
        self.stopped = Some(reason.clone());
        LogError::Stopped(reason)
    }
}
