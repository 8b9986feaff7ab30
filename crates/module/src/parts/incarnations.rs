//! Which incarnations the shard of a node has been (P26): each is later than all before it, also than those before the server
//! started, whatever its clock says.
//!
//! They are counted by the clock. A file beside the server's own says below which number all of them are. It is written ahead, so that
//! the disk is waited for once in ten minutes at most, and only when sessions come or the shard begins.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use claret_core::{Incarnation, Time};
use claret_planted::{Bug, is_planted};

/// So far ahead the file is written, in microseconds. It is less than a promoted replica is ahead of its primary.
const AHEAD_US: u64 = 600_000_000;

/// No clock comes so far, and what says so is damaged.
const END: u64 = 1 << 61;

const FORM: &str = "claret incarnations below ";

/// See the module's text.
pub(crate) struct Incarnations {
    last: Incarnation,
    /// All are below it that are used without another look at the file.
    below: Incarnation,
    file: PathBuf,
}

impl Default for Incarnations {
    fn default() -> Self {
        Incarnations { last: Incarnation(0), below: Incarnation(0), file: PathBuf::new() }
    }
}

impl Incarnations {
    /// Those of the node with this id, in the folder in which the server works.
    pub(crate) fn file_of(node: &str) -> PathBuf {
        // A server that is in no cluster has no id.
        let dash = if node.is_empty() { "" } else { "-" };
        PathBuf::from(format!("claret-incarnations{dash}{node}"))
    }

    /// Goes on behind those that the file tells of. An error leaves it with what is known without the file, and names it.
    pub(crate) fn go_on_in(&mut self, file: PathBuf) -> io::Result<()> {
        if self.file == file {
            return Ok(());
        }
        let told = read(&file).map_err(|error| named(&file, error));
        // What cannot be read now is not written over, and read again when the shard begins again.
        let is_read = told.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::InvalidData);
        self.file = if is_read { file } else { PathBuf::new() };
        // Nothing is kept in it yet.
        self.below = Incarnation(0);
        let below = told?;
        self.last = self.last.max(if is_planted(Bug::EarlierLivesForgotten) {
            Incarnation(0)
        } else {
            Incarnation(below.saturating_sub(1))
        });
        Ok(())
    }

    /// One that the shard never was, by the time of day.
    pub(crate) fn next(&self, unix: Time) -> Incarnation {
        Incarnation(unix.0.max(self.last.0 + 1))
    }

    /// The shard is `incarnation` from now on. An error says that a server which starts again may not know that; it names the file.
    pub(crate) fn become_one(&mut self, incarnation: Incarnation) -> io::Result<()> {
        self.last = self.last.max(incarnation);
        if self.last < self.below || self.file.as_os_str().is_empty() {
            return Ok(());
        }
        // Also when it cannot be written: the disk is asked again as late as if it had been.
        self.below = Incarnation(self.last.0.saturating_add(AHEAD_US));
        write(&self.file, self.below.0.min(END - 1)).map_err(|error| named(&self.file, error))
    }
}

fn named(file: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

fn read(file: &Path) -> io::Result<u64> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        text => text?,
    };
    let number = text.strip_prefix(FORM).and_then(|rest| rest.strip_suffix('\n')?.parse().ok());
    number.filter(|number| *number < END).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not `{FORM}` and a number: {:?}", text.escape_debug().to_string()),
        )
    })
}

/// After a power cut it is as it was, or says the new number. Another server may work in the same folder, and be further.
fn write(file: &Path, below: u64) -> io::Result<()> {
    let below = below.max(read(file).unwrap_or(0));
    let beside = file.with_extension(std::process::id().to_string());
    let mut new = File::create(&beside)?;
    new.write_all(format!("{FORM}{below}\n").as_bytes())?;
    new.sync_all()?;
    fs::rename(&beside, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use claret_rig::TestFolder;

    use super::*;

    fn of_file(file: &Path) -> (Incarnations, io::Result<()>) {
        let mut incarnations = Incarnations::default();
        let read = incarnations.go_on_in(file.to_owned());
        (incarnations, read)
    }

    /// Bug: they were counted by the clock alone. Consequence: a server that started again while its clock was behind what it had
    /// been was an earlier incarnation than before, and its clients took no word of it.
    #[test]
    fn one_that_starts_again_while_its_clock_is_behind_is_a_later_one() {
        let folder = TestFolder::new();
        let file = folder.path().join("incarnations");
        let (mut before, read) = of_file(&file);
        read.expect("there is no file yet");
        let mut highest = Incarnation(0);
        for time in [5_000_000_000, 5_000_000_001, 4_000_000_000, 9_000_000_000, 1_000_000] {
            let next = before.next(Time(time));
            assert!(next > highest, "{next:?} is not later than {highest:?}");
            before.become_one(next).expect("written");
            highest = next;
            let (after, read) = of_file(&file);
            read.expect("it reads");
            assert!(after.next(Time(7)) > highest);
        }
    }

    #[test]
    fn the_disk_is_waited_for_once_in_ten_minutes() {
        let folder = TestFolder::new();
        let file = folder.path().join("incarnations");
        let mut incarnations = of_file(&file).0;
        let mut become_one = |time| {
            incarnations.become_one(incarnations.next(Time(time))).expect("written");
            fs::read_to_string(&file).expect("a file")
        };
        let first = become_one(1_000_000_000);
        assert_eq!(become_one(1_000_000_000 + AHEAD_US - 1), first);
        assert_ne!(become_one(1_000_000_000 + AHEAD_US), first);
    }

    #[test]
    fn a_damaged_file_is_named_and_written_anew() {
        let folder = TestFolder::new();
        let file = folder.path().join("incarnations");
        for damaged in
            ["", "claret incarnations below 17", "claret incarnations below 99999999999999999999\n", "0\n"]
        {
            fs::write(&file, damaged).expect("written");
            let (mut incarnations, read) = of_file(&file);
            let error = read.expect_err("damaged").to_string();
            assert!(error.contains("incarnations: not `claret incarnations below ` and a number"), "{error}");
            incarnations.become_one(incarnations.next(Time(3))).expect("written");
            of_file(&file).1.expect("it reads");
        }
    }

    /// What is in it may be higher than what is known without it.
    #[test]
    fn what_cannot_be_read_is_named_and_not_written_over() {
        let folder = TestFolder::new();
        let file = folder.path().join("incarnations");
        let (mut before, read) = of_file(&file);
        read.expect("there is no file yet");
        before.become_one(Incarnation(9_000_000)).expect("written");
        let told = fs::read_to_string(&file).expect("a file");
        // A folder has its name meanwhile; `EISDIR` is as good as `EIO`.
        let aside = folder.path().join("aside");
        fs::rename(&file, &aside).expect("renamed");
        fs::create_dir(&file).expect("made");
        let (mut incarnations, read) = of_file(&file);
        let error = read.expect_err("a folder").to_string();
        assert!(error.contains("incarnations"), "{error}");
        fs::remove_dir(&file).expect("removed");
        fs::rename(&aside, &file).expect("renamed");
        incarnations.become_one(incarnations.next(Time(3))).expect("nothing is written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), told);
        incarnations.go_on_in(file).expect("it reads now");
        assert!(incarnations.next(Time(3)) > Incarnation(9_000_000));
    }

    #[test]
    fn what_cannot_be_written_is_named_and_does_not_end_the_shard() {
        let folder = TestFolder::new();
        let mut incarnations = of_file(&folder.path().join("missing/incarnations")).0;
        let next = incarnations.next(Time(3));
        let error = incarnations.become_one(next).expect_err("no folder").to_string();
        assert!(error.contains("missing/incarnations"), "{error}");
        assert!(incarnations.next(Time(3)) > next);
        incarnations.become_one(incarnations.next(Time(4))).expect("it was said");
    }

    /// Bug: the server that wrote last won. Consequence: one that started again was an earlier incarnation.
    #[test]
    fn two_servers_in_one_folder_do_not_set_each_other_back() {
        let folder = TestFolder::new();
        let file = folder.path().join("incarnations");
        let (mut one, mut other) = (of_file(&file).0, of_file(&file).0);
        one.become_one(Incarnation(9_000_000_000_000)).expect("written");
        other.become_one(Incarnation(5)).expect("written");
        assert!(of_file(&file).0.next(Time(7)) > Incarnation(9_000_000_000_000));
    }

    #[test]
    fn another_node_has_another_file() {
        assert_eq!(Incarnations::file_of(""), Path::new("claret-incarnations"));
        assert_eq!(Incarnations::file_of("07c3"), Path::new("claret-incarnations-07c3"));
    }
}
