//! Snapshots: all records, each as of a position of the log (D6).
//!
//! Nobody is stopped while one is made: records are written a few at a time, as they are then, with the position up to which the log
//! is in them. The first frame says from where on the log is needed, and the last one is empty: a file without it is not whole.

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{HEADER, Header, Kind, Line, put_number, take_number};
use crate::frames::Frames;

/// What a snapshot is called until it is whole.
pub const UNFINISHED: &str = "snapshot.new";

/// After so many bytes the file is synced: all of it at once would keep the log waiting for the disk.
const SYNC_AFTER: u64 = 1 << 20;

/// What the first frame says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begin {
    /// Nothing that took place before is missing in it: the log is carried out from here on.
    pub(crate) base: u64,
    /// From here on the log is needed: commits parts of which took place later.
    pub(crate) log_from: u64,
    /// Unique numbers were given up to this count.
    pub(crate) unique: u64,
}

/// Writes one. Dropped before it is finished, it leaves a file that the next one replaces.
#[derive(Debug)]
pub struct SnapshotWriter<D> {
    disk: D,
    store: u64,
    begin: Begin,
    frames: u64,
    bytes: u64,
    unsynced: u64,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins one. Since `base` every change is in the log, and the keys that left their place are kept
    /// ([`claret_core::Shard::keep_gone`]); `log_from` is [`crate::Tail::open_since`] at that moment.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn begin(mut disk: D, store: u64, base: u64, log_from: u64, unique: u64) -> Result<Self, LogError> {
        let names = disk.list().map_err(LogError::io("list", "the folder"))?;
        if names.iter().any(|name| name == UNFINISHED) {
            disk.remove(UNFINISHED).map_err(LogError::io("remove", UNFINISHED))?;
        }
        disk.create(UNFINISHED).map_err(LogError::io("create", UNFINISHED))?;
        let line = Kind::Snapshot.line(store);
        disk.append(UNFINISHED, line.as_bytes()).map_err(LogError::io("write", UNFINISHED))?;
        let begin = Begin { base, log_from, unique };
        let mut writer = SnapshotWriter { disk, store, begin, frames: 0, bytes: 0, unsynced: 0 };
        let mut body = Vec::new();
        [base, log_from, unique].into_iter().for_each(|number| put_number(&mut body, number));
        writer.frame(base, &body)?;
        Ok(writer)
    }

    /// Adds records ([`claret_core::write_record`]) as they are at this position of the log.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn add(&mut self, as_of: u64, records: &[u8]) -> Result<(), LogError> {
        if records.is_empty() { Ok(()) } else { self.frame(as_of, records) }
    }

    /// How many bytes of records there are.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It is whole. The log must be synced up to the last position that was added. Earlier snapshots go; from which position on the
    /// log is still needed.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn finish(mut self) -> Result<u64, LogError> {
        self.frame(self.begin.base, &[])?;
        self.disk.sync(UNFINISHED).map_err(LogError::io("sync", UNFINISHED))?;
        let name = Kind::Snapshot.name(self.begin.base);
        self.disk.rename(UNFINISHED, &name).map_err(LogError::io("rename", UNFINISHED))?;
        self.disk.sync_names().map_err(LogError::io("sync", "the folder"))?;
        for other in self.disk.list().map_err(LogError::io("list", "the folder"))? {
            if Kind::Snapshot.position(&other).is_some_and(|base| base < self.begin.base) {
                self.disk.remove(&other).map_err(LogError::io("remove", &other))?;
            }
        }
        Ok(self.begin.log_from)
    }

    fn frame(&mut self, position: u64, body: &[u8]) -> Result<(), LogError> {
        if u32::try_from(body.len()).is_err() {
            return Err(LogError::Stopped(format!(
                "records of {} bytes are too large for a snapshot",
                body.len()
            )));
        }
        let header = Header { store: self.store, position, synced: self.frames };
        let mut frame = header.before(body).to_vec();
        frame.extend_from_slice(body);
        self.disk.append(UNFINISHED, &frame).map_err(LogError::io("write", UNFINISHED))?;
        self.frames += 1;
        self.bytes += body.len() as u64;
        self.unsynced += frame.len() as u64;
        if self.unsynced >= SYNC_AFTER {
            self.unsynced = 0;
            self.disk.sync(UNFINISHED).map_err(LogError::io("sync", UNFINISHED))?;
        }
        Ok(())
    }
}

/// A part of a snapshot.
pub(crate) struct Frame<'a> {
    /// Where in the file it is.
    pub(crate) at: u64,
    pub(crate) header: Header,
    pub(crate) body: &'a [u8],
}

impl Frame<'_> {
    /// Whether it has records: the first one says where the snapshot begins, and the last one that it is whole.
    pub(crate) fn has_records(&self) -> bool {
        self.header.synced > 0 && !self.body.is_empty()
    }
}

/// Reads a snapshot: hands each frame on. What its first line and its first frame say.
///
/// # Errors
/// See [`LogError`]: a snapshot is whole, or damaged.
pub(crate) fn read(
    disk: &mut dyn Disk,
    name: &str,
    mut each: impl FnMut(Frame<'_>) -> Result<(), LogError>,
) -> Result<(Line, Begin), LogError> {
    let mut file = Frames::open(disk, name)?;
    let Some(line) = file.line(disk, Kind::Snapshot)? else {
        return Err(LogError::damaged(name, 0, "its first line is not that of a snapshot"));
    };
    let mut at = line.len;
    let (mut frames, mut first) = (0, None);
    loop {
        let damaged = |what: &str| LogError::damaged(name, at, what);
        if at + HEADER as u64 > file.len() {
            return Err(damaged("it ends in the middle"));
        }
        let Some((header, body)) = file.frame(disk, at)? else {
            return Err(damaged("a checksum is wrong, or it ends in the middle"));
        };
        if header.store != line.store || header.synced != frames {
            return Err(damaged("a frame is of another place"));
        }
        let (len, is_last) = (header.frame_len(body), body.is_empty());
        if frames == 0 {
            first = Some(read_begin(body).ok_or_else(|| damaged("its first frame says nothing"))?);
        }
        each(Frame { at, header, body })?;
        if let Some(begin) = first.filter(|_| is_last) {
            return Ok((line, begin));
        }
        (at, frames) = (at + len, frames + 1);
    }
}

fn read_begin(mut body: &[u8]) -> Option<Begin> {
    let body = &mut body;
    Some(Begin { base: take_number(body)?, log_from: take_number(body)?, unique: take_number(body)? })
}
