//! A store on a disk that loses what was not synced, in any part: after each crash all is there that was reported, every
//! transaction as a whole, and nothing without what came before it (D1, D2, D4, D6).
//!
//! Shards and coordinators are the real ones, and a seed says who goes on next. The reference carries out whole transactions one
//! after another, in the order of their entries.

use crate::disk::{Copied, LyingDisk};
use crate::host::{Host, Random};
use claret_log::{Disk, LogError, Salvaged, UNFINISHED};

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
                    Ok(Some(read)) => assert_eq!(crate::host::digest_of(&read), expected, "{name} at {at}"),
                    Ok(None) => panic!("{name} at {at}: nothing is found"),
                }
            }
        }
    }
}

/// A file that is gone, or empty, is missed: also the newest one of the log, and the manifest.
#[test]
fn what_is_missing_is_found() {
    let mut random = Random(7);
    let disk = LyingDisk::default();
    let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
    while host.snapshots() < 2 {
        host.step(&mut random).expect("it goes on");
    }
    while disk.logs().len() < 3 {
        host.step(&mut random).expect("it goes on");
    }
    host.close().expect("it closes");
    for name in disk.names().into_iter().filter(|name| name != UNFINISHED) {
        for lose in [Copied::lose, Copied::empty] {
            let mut copy = disk.copy();
            lose(&mut copy, &name);
            match claret_log::recover(&mut copy, &mut |_| {}) {
                Err(LogError::Damaged { .. }) => {}
                other => panic!("without {name}: {other:?}"),
            }
        }
    }
}

/// Without a snapshot, and with the first file alone; closed, and killed.
#[test]
fn an_only_file_that_is_missing_is_found() {
    for closes in [true, false] {
        let (disk, mut random) = (LyingDisk::default(), Random(7));
        let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
        for _ in 0..20 {
            host.step(&mut random).expect("it goes on");
        }
        match closes {
            true => host.close().expect("it closes"),
            false => host.write().and_then(|()| host.sync()).expect("it is written"),
        }
        let only = disk.logs();
        assert_eq!(only, ["log-0000000000000000"]);
        for lose in [Copied::lose, Copied::empty] {
            let mut copy = disk.copy();
            lose(&mut copy, &only[0]);
            match claret_log::recover(&mut copy, &mut |_| {}) {
                Err(LogError::Damaged { file, .. }) => assert_eq!(file, only[0]),
                other => panic!("without its only file a store is {other:?}"),
            }
        }
    }
}

/// What a store that was closed well had at its end is missed, too: that is no group which was just being written.
#[test]
fn the_end_of_a_closed_store_is_missed() {
    let (mut disk, mut random) = (LyingDisk::default(), Random(7));
    let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
    for _ in 0..60 {
        host.step(&mut random).expect("it goes on");
    }
    host.close().expect("it closes");
    let newest = disk.logs().pop().expect("a log has a file");
    let len = disk.len(&newest).expect("it is there");
    let mut missed = 0;
    for cut in 1..len {
        let mut copy = disk.copy();
        copy.truncate(&newest, len - cut).expect("it is there");
        match claret_log::recover(&mut copy, &mut |_| {}) {
            Err(LogError::Damaged { file, .. }) => {
                assert_eq!(file, newest);
                missed += 1;
            }
            Ok(Some(read)) if crate::host::digest_of(&read) == host.digest() => {} // Marks, and nothing else.
            other => panic!("without its last {cut} bytes a store is {other:?}"),
        }
    }
    assert!(missed > len / 2, "{missed} of {len}");
}

/// A store whose files are of the first format, which had no manifest: it is opened and goes on, and from then on has one.
#[test]
fn a_store_of_the_first_format_goes_on() {
    for seed in 0..50 {
        let (mut disk, mut random) = (LyingDisk::default(), Random(seed + 1));
        let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
        for _ in 0..100 + 10 * seed {
            host.step(&mut random).expect("it goes on");
        }
        host.close().expect("it closes");
        disk.make_first_format();
        let mut host = host.open_again(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(disk.names().iter().any(|name| name == "manifest"), "seed {seed}");
        for _ in 0..200 {
            host.step(&mut random).expect("it goes on");
        }
        host.crash(&mut random).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Wherever a store is damaged: what is read up to there is the store as of that place, and no transaction is there by half. What
/// is not of one moment is said not to be.
#[test]
fn what_is_before_damage_is_the_store_as_of_there() {
    let (mut of_one_moment, mut with_commits, mut others) = (0, 0, 0);
    for steps in [150, 600] {
        let (disk, mut random) = (LyingDisk::default(), Random(7));
        let mut host = Host::open(disk.clone(), &mut random).expect("it begins");
        for _ in 0..steps {
            host.step(&mut random).expect("it goes on");
        }
        host.close().expect("it closes");
        let flips = disk.places().into_iter().step_by(3).map(|(name, at)| (name, Some(at)));
        let losses = disk.names().into_iter().map(|name| (name, None));
        for (name, at) in flips.chain(losses) {
            let mut copy = disk.copy();
            match at {
                Some(at) => copy.flip(&name, at, 1),
                None => copy.lose(&name),
            }
            if claret_log::recover(&mut copy, &mut |_| {}).is_ok() {
                continue; // A mark at the end.
            }
            match claret_log::recover_until_damage(&mut copy, &mut |_| {}) {
                Ok(Some(Salvaged { recovered, damage: Some(_), is_of_one_moment: true })) => {
                    of_one_moment += 1;
                    with_commits += usize::from(host.commits_up_to(recovered.position) > 0);
                    host.is_salvaged(&recovered).unwrap_or_else(|error| panic!("{name} {at:?}: {error}"));
                }
                Ok(Some(Salvaged { damage: Some(_), .. })) => others += 1,
                // Nothing is before the damage.
                Err(LogError::Damaged { .. }) => {}
                other => panic!("{name} {at:?}: {other:?}"),
            }
        }
    }
    assert!(with_commits > 150 && others > 100, "{of_one_moment} {with_commits} {others}");
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
