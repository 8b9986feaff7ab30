//! Reads a file's frames, in memory in proportion to a frame whose checksum is right, whatever a file says of itself or how long it
//! is: one that was damaged may say anything.

use claret_planted::{Bug, is_planted};

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{HEADER, Header, Kind, LINE_MAX, Line, frame_len, frame_sum, read_frame};

/// So much is read at once.
const CHUNK: usize = 256 << 10;

/// A file, read from its beginning or from anywhere.
pub(crate) struct Frames<'a> {
    name: &'a str,
    len: u64,
    /// What was read last, and from where on.
    buffer: Vec<u8>,
    begin: u64,
}

impl<'a> Frames<'a> {
    /// The frames of this file.
    ///
    /// # Errors
    /// Those of the disk, here and below.
    pub(crate) fn open(disk: &mut dyn Disk, name: &'a str) -> Result<Self, LogError> {
        let len = disk.len(name).map_err(LogError::io("read", name))?;
        Ok(Frames { name, len, buffer: Vec::new(), begin: 0 })
    }

    /// How long the file is.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is behind the first line, if that is there: the file may just be being made.
    pub(crate) fn may_be_new(&self, kind: Kind) -> bool {
        self.len <= kind.line_len() as u64
    }

    /// What the first line says. `None`: it is none.
    pub(crate) fn line(&mut self, disk: &mut dyn Disk, kind: Kind) -> Result<Option<Line>, LogError> {
        let (name, count) = (self.name, self.len.min(LINE_MAX as u64));
        let line = self.bytes(disk, 0, count)?.unwrap_or_default();
        kind.read_line(name, line)
    }

    /// The frame at a place; `None` if there is none, or not all of it.
    pub(crate) fn frame(
        &mut self,
        disk: &mut dyn Disk,
        at: u64,
    ) -> Result<Option<(Header, &[u8])>, LogError> {
        let Some(header) = self.bytes(disk, at, HEADER as u64)? else { return Ok(None) };
        let (len, sum) = (frame_len(header), frame_sum(header));
        if len > self.len - at || (len > CHUNK as u64 && !self.sums_up(disk, at, len, sum)?) {
            return Ok(None);
        }
        Ok(self.bytes(disk, at, len)?.and_then(read_frame))
    }

    /// Whether a frame from this place on says that more was synced than this position, so that what is here was, too.
    pub(crate) fn says_synced(
        &mut self,
        disk: &mut dyn Disk,
        from: u64,
        store: u64,
        position: u64,
    ) -> Result<bool, LogError> {
        let store = store.to_le_bytes();
        let mut at = from;
        while at + HEADER as u64 <= self.len {
            let count = (self.len - at).min(CHUNK as u64);
            let Some(bytes) = self.bytes(disk, at, count)? else { return Ok(false) };
            let places = bytes.windows(HEADER).enumerate().filter(|(_, header)| header[8..16] == store);
            let places: Vec<u64> = places.map(|(place, _)| at + place as u64).collect();
            for place in places {
                if self.frame(disk, place)?.is_some_and(|(header, _)| header.synced > position) {
                    return Ok(true);
                }
            }
            at += count - (HEADER as u64 - 1);
        }
        Ok(false)
    }

    /// Whether a large frame's checksum is right. It is read in parts, and none of it is kept.
    fn sums_up(&mut self, disk: &mut dyn Disk, at: u64, len: u64, sum: u32) -> Result<bool, LogError> {
        let mut hasher = crc32fast::Hasher::new();
        let (mut from, end) = (at + 4, at + len);
        while from < end {
            let count = (end - from).min(CHUNK as u64);
            let Some(bytes) = self.bytes(disk, from, count)? else { return Ok(false) };
            hasher.update(bytes);
            from += count;
        }
        Ok(hasher.finalize() == sum || is_planted(Bug::TornGroupTaken))
    }

    /// Bytes from a place on; `None` if the file ends before.
    fn bytes(&mut self, disk: &mut dyn Disk, at: u64, count: u64) -> Result<Option<&[u8]>, LogError> {
        if at > self.len || count > self.len - at {
            return Ok(None);
        }
        let is_here = at >= self.begin && at + count <= self.begin + self.buffer.len() as u64;
        if !is_here {
            let wanted = count.max((CHUNK as u64).min(self.len - at));
            self.buffer.resize(wanted as usize, 0);
            self.begin = at;
            let read = disk.read(self.name, at, &mut self.buffer);
            let read = read.inspect_err(|_| self.buffer.clear()).map_err(LogError::io("read", self.name))?;
            self.buffer.truncate(read);
        }
        let from = (at - self.begin) as usize;
        Ok(self.buffer.get(from..from + count as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Folder;
    use crate::recovery::recover;

    const STORE: u64 = 7;

    /// A file of a terabyte without content takes neither memory nor, as far as it is none of a log's, time.
    #[test]
    fn a_huge_file_is_refused_at_once() {
        let path = std::env::temp_dir().join(format!("claret-log-huge-{}", std::process::id()));
        for (kind, len) in [(Kind::Log, 1 << 40), (Kind::Snapshot, 1 << 40), (Kind::Snapshot, 1 << 20)] {
            std::fs::create_dir_all(&path).expect("a folder");
            let name = kind.name(0);
            // A frame that says that it has 64 MiB.
            let mut header = Header { store: STORE, position: 0, synced: 0 }.before(&[]);
            header[4..8].copy_from_slice(&(64u32 << 20).to_le_bytes());
            std::fs::write(path.join(&name), [kind.line(STORE).as_bytes(), &header].concat())
                .expect("it is written");
            std::fs::File::options()
                .write(true)
                .open(path.join(&name))
                .expect("it is there")
                .set_len(len)
                .expect("it grows");
            let error = recover(&mut Folder::new(&path), &mut |_| {}).expect_err("it is damaged");
            assert!(matches!(&error, LogError::Damaged { file, .. } if *file == name), "{error}");
            std::fs::remove_dir_all(&path).expect("it is removed");
        }
    }
}
