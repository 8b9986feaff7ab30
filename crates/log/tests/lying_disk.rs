//! A store on a disk that loses what was not synced, in any part: after each crash all is there that was reported, every
//! transaction as a whole, and nothing without what came before it (D1, D2, D4, D6).
//!
//! Shards and coordinators are the real ones, and a seed says who goes on next. The reference carries out whole transactions one
//! after another, in the order of their entries.

mod disk;
mod host;

use claret_log::LogError;
use disk::LyingDisk;
use host::{Host, Random};

/// Crashes a run survives.
const CRASHES: usize = 4;

fn run(seed: u64) -> Result<(usize, usize), String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let disk = LyingDisk::default();
    let mut host = Host::open(disk.clone(), &mut random)?;
    for _ in 0..CRASHES {
        for _ in 0..random.below(400) {
            host.step(&mut random)?;
        }
        host = host.crash(&mut random)?;
    }
    Ok((host.commits(), host.snapshots()))
}

#[test]
fn what_was_reported_is_there_after_every_crash() {
    let (mut commits, mut snapshots) = (0, 0);
    for seed in 0..400 {
        let (more, also) = run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        (commits, snapshots) = (commits + more, snapshots + also);
    }
    assert!(commits > 10_000 && snapshots > 400, "{commits} commits and {snapshots} snapshots are few");
}

/// While transactions run and snapshots are made: all is there up to its position, and nothing else; and before it is whole it is
/// not opened (D14).
#[test]
fn a_backup_is_the_store_as_of_a_position() {
    for seed in 0..100 {
        let mut random = Random(seed + 1);
        let mut host = Host::open(LyingDisk::default(), &mut random).expect("it begins");
        for _ in 0..10 {
            for _ in 0..random.below(100) {
                host.step(&mut random).expect("it goes on");
            }
            host.backed_up(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// Every byte of a closed store's files is changed, one after another: nothing is read as if it was right.
#[test]
fn a_changed_byte_is_found() {
    // Without a snapshot, and with one.
    for steps in [25, 200, 600] {
        let mut random = Random(7);
        let disk = LyingDisk::default();
        let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
        for _ in 0..steps {
            host.step(&mut random).expect("it goes on");
        }
        host.close().expect("it closes");
        let expected = host.digest();
        let files = disk.names();
        let has_snapshot = files.iter().any(|name| name.starts_with("snapshot-"));
        assert_eq!(has_snapshot, steps > 25, "{files:?}");
        for (name, at) in disk.places() {
            for bits in [1 << (at % 8), 1, 0x20] {
                let mut copy = disk.copy();
                copy.flip(&name, at, bits);
                match claret_log::recover(&mut copy, &mut |_| {}) {
                    Err(LogError::Damaged { file, .. }) => {
                        assert!(
                            file == name || file.starts_with("log"),
                            "{file} is named, and {name} is damaged at {at}"
                        );
                    }
                    Err(error) => panic!("{name} at {at}: {error}"),
                    // The mark at the end says nothing that is missed, and nor does a snapshot that was not done.
                    Ok(Some(read)) => assert_eq!(host::digest_of(&read), expected, "{name} at {at}"),
                    Ok(None) => panic!("{name} at {at}: nothing is found"),
                }
            }
        }
    }
}

/// A file that is gone, or shorter than it was, is missed.
#[test]
fn what_is_missing_is_found() {
    let mut random = Random(7);
    let disk = LyingDisk::default();
    let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
    while host.snapshots() < 2 {
        host.step(&mut random).expect("it goes on");
    }
    for _ in 0..100 {
        host.step(&mut random).expect("it goes on");
    }
    host.close().expect("it closes");
    let names = disk.names();
    let logs = names.iter().filter(|name| name.starts_with("log-"));
    for name in logs {
        let mut copy = disk.copy();
        copy.lose(name);
        match claret_log::recover(&mut copy, &mut |_| {}) {
            Err(LogError::Damaged { .. }) => {}
            // The last file has more than the snapshot knows of; nothing else says that it was there.
            Ok(Some(_)) if Some(name) == names.iter().rfind(|name| name.starts_with("log-")) => {}
            other => panic!("without {name}: {other:?}"),
        }
    }
}

/// A sync fails, and the store is opened again without a crash. The system takes its pages for written then: were they not written
/// again, a later crash would leave a hole before what was reported.
#[test]
fn what_a_failed_sync_left_is_written_again() {
    for seed in 0..50 {
        let mut random = Random(seed + 1);
        let disk = LyingDisk::default();
        let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
        for _ in 0..100 {
            host.step(&mut random).expect("it goes on");
        }
        host.write().expect("it is written");
        disk.fail_next_sync();
        host.sync().expect_err("the disk fails");
        let mut host = host.open_again(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for _ in 0..100 {
            host.step(&mut random).expect("it goes on");
        }
        host.sync().expect("the disk is well");
        host.crash(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A disk that is full: what was not written is written when there is room, and nothing is there twice.
#[test]
fn a_full_disk_loses_nothing() {
    for seed in 0..50 {
        let mut random = Random(seed + 1);
        let disk = LyingDisk::default();
        let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
        for at in 0..300 {
            disk.set_room((at % 40 < 20).then(|| random.below(200) as usize));
            host.step(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        disk.set_room(None);
        host.close().expect("it closes");
        host.crash(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
