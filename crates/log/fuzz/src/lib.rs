//! What the fuzzers share: files in memory, and frames with right checksums around any bytes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Once;

use claret_log::{Disk, LogError, Writer, recover};

/// The store that all files are of.
const STORE: u64 = 7;

/// The first byte of an input that is a file as it is, behind its first line. Behind any other one are bodies, which get frames with
/// right checksums: each body behind a byte of options and two bytes that are its length.
pub const AS_IT_IS: u8 = 0;

/// Files in memory.
#[derive(Clone, Debug, Default)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// Adds a file of this kind (`log`, `snapshot`), whose name is that of position 0.
    pub fn with(mut self, kind: &str, input: &[u8]) -> Self {
        let says = format!("claret {kind} 1 {STORE:016x}");
        let mut file = format!("{says} {:08x}\n", crc32fast::hash(says.as_bytes())).into_bytes();
        match input.split_first() {
            Some((&AS_IT_IS, rest)) => file.extend_from_slice(rest),
            Some((_, rest)) => framed(&mut file, rest, kind == "snapshot"),
            None => {}
        }
        self.0.insert(format!("{kind}-{:016x}", 0), file);
        self
    }
}

/// Adds bodies, each with its frame.
fn framed(file: &mut Vec<u8>, mut rest: &[u8], is_snapshot: bool) {
    let (mut position, mut frames) = (0u64, 0u64);
    while let [options, low, high, behind @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (body, next) = behind.split_at(length);
        let (place, synced) = match is_snapshot {
            true => (u64::from(*options), frames),
            false => (position, if options & 1 == 1 { position } else { 0 }),
        };
        let mut frame = (length as u32).to_le_bytes().to_vec();
        [STORE, place, synced].iter().for_each(|number| frame.extend_from_slice(&number.to_le_bytes()));
        frame.extend_from_slice(body);
        file.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
        file.extend_from_slice(&frame);
        (position, frames, rest) = (position + length as u64, frames + 1, next);
    }
}

/// Adds a body to an input.
pub fn add_body(input: &mut Vec<u8>, options: u8, body: &[u8]) {
    input.push(options);
    input.extend_from_slice(&u16::try_from(body.len()).expect("it is short").to_le_bytes());
    input.extend_from_slice(body);
}

/// Reads the files: refused, or a store that goes on, and is the same when it is read again.
pub fn read(mut files: Files) {
    static QUIET: Once = Once::new();
    // Effects that do not fit their record panic, and the reader says that the file is damaged. Other panics end the target.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    match recover(&mut files, &mut |_| {}) {
        Err(LogError::Damaged { .. } | LogError::Newer { .. }) | Ok(None) => {}
        Err(error) => panic!("{error}"),
        Ok(Some(read)) => {
            Writer::go_on(files.clone(), &read, 1 << 20).expect("what was read can go on");
            let again = recover(&mut files, &mut |_| {}).expect("it was read").expect("it is there");
            assert_eq!((again.records.len(), again.position), (read.records.len(), read.position));
        }
    }
}

impl Disk for Files {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.0.get(name).ok_or(io::ErrorKind::NotFound)?.len() as u64)
    }

    fn read(&mut self, name: &str, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        let bytes = file.get(at as usize..).unwrap_or_default();
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.0.insert(name.to_owned(), Vec::new());
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut(name).ok_or(io::ErrorKind::NotFound)?.extend_from_slice(bytes);
        Ok(())
    }

    fn write_again(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        assert_eq!(&file[at as usize..][..bytes.len()], bytes, "it is there already");
        Ok(())
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.0.get_mut(name).ok_or(io::ErrorKind::NotFound)?.truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.0.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.0.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.0.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
}
