//! Stores that outlive their process: what was reported is there when they are opened again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use claret::types::{ExpiresAt, Expiry};
use claret::{
    Error, Operation, Records, Reply, Store, blocking,
    durability::{BackupError, OpenError, SyncPolicy},
    errors::BeginError,
};
use claret_rig::TestFolder;

use crate::faulty::{Faulty, FaultyOp};

fn wait<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

#[test]
fn records_of_every_type_are_there_again() {
    let folder = TestFolder::new();
    let store = Store::open(folder.path()).expect("it begins");
    wait(async {
        store.register("register").set("a").await?;
        store.counter("counter").add(41).await?;
        store.counter("counter").add(1).await?;
        store.set("set").add("x").await?;
        store.set("set").add("y").await?;
        store.set("set").remove("x").await?;
        store.dict("dict").set("field", "value").await?;
        store.list("list").push_back("1").await?;
        store.list("list").push_back("2").await?;
        store.bounded_counter("bounded").create(10, 0, 10).await?;
        assert!(store.bounded_counter("bounded").try_take(3).await?);
        store.counter("gone").add(1).await?;
        store.key("gone").delete().await?;
        Ok::<_, Error>(())
    })
    .expect("nobody is in the way");
    wait(store.close()).expect("it closes");
    let store = Store::builder().shards(3).open(folder.path()).expect("it is there");
    wait(async {
        assert_eq!(store.register("register").get::<String>().await?.as_deref(), Some("a"));
        assert_eq!(store.counter("counter").get().await?, 42);
        assert!(!store.set("set").contains("x").await? && store.set("set").contains("y").await?);
        assert_eq!(store.dict("dict").get::<String>("field").await?.as_deref(), Some("value"));
        assert_eq!(store.list("list").len().await?, 2);
        assert_eq!(store.bounded_counter("bounded").get().await?, Some(7));
        assert!(!store.key("gone").exists().await?);
        Ok::<_, Error>(())
    })
    .expect("nobody is in the way");
    store.check_invariants();
}

/// A35: an id that was drawn is the same when the log is read again, and what comes later is behind it. Both from the log and from a
/// snapshot.
#[test]
fn streams_are_there_again_with_the_ids_they_had() {
    let folder = TestFolder::new();
    let run = |store: &Store, words: &[&str]| -> Result<Reply, Error> {
        let batch = store.batch();
        let answer = batch.command("log", words);
        wait(batch.commit())?.get(answer)
    };
    let mut seen = Reply::Array(Vec::new());
    for snapshot in [false, true, false] {
        let store = Store::open(folder.path()).expect("it is opened");
        assert_eq!(run(&store, &["XRANGE", "log", "-", "+"]).expect("it is read"), seen);
        for _ in 0..3 {
            run(&store, &["XADD", "log", "MAXLEN", "5", "*", "f", "v"]).expect("it is added");
        }
        run(&store, &["EXPIRE", "log", "1000"]).expect("it is there");
        seen = run(&store, &["XRANGE", "log", "-", "+"]).expect("it is read");
        if snapshot {
            let folder = TestFolder::new();
            let copy = folder.path().join("copy");
            wait(store.backup(&copy)).expect("it is copied");
            let again = Store::open(&copy).expect("the copy is opened");
            assert_eq!(run(&again, &["XRANGE", "log", "-", "+"]).expect("it is read"), seen);
            wait(again.close()).expect("it closes");
        }
        assert!(wait(store.key("log").ttl()).is_ok());
        wait(store.close()).expect("it closes");
    }
    assert!(matches!(&seen, Reply::Array(entries) if entries.len() == 5));
    let store = Store::open(folder.path()).expect("it is opened");
    let refused = run(&store, &["GEOADD", "log", "1", "1", "x"]).expect_err("no server is here").to_string();
    assert!(refused.contains("GEOADD is carried out by servers"), "{refused}");
    let error = wait(store.list("log").push_back("x")).expect_err("it is a stream").to_string();
    assert!(error.contains("stream"), "{error}");
}

/// The last time that servers have, and one that was refused for long.
#[test]
fn an_expiry_after_the_year_10889_is_there_again() {
    let folder = TestFolder::new();
    let ends = [("far", (1 << 48) + 1), ("last", i64::MAX as u64)];
    let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    for begins in [true, false] {
        let store = Store::open(folder.path()).expect("it is opened");
        for (key, ms) in ends {
            if begins {
                wait(store.register(key).set_until("v", at(ms))).expect("nobody is in the way");
            }
            let expires = wait(store.key(key).expires_at()).expect("an answer");
            assert_eq!(expires, ExpiresAt::At(Expiry::at_ms(ms).expect("in range")));
        }
        wait(store.close()).expect("it closes");
    }
}

/// What others did to the folder meanwhile nobody counted.
#[test]
fn a_store_that_is_opened_again_has_other_versions() {
    let folder = TestFolder::new();
    let mut told = Vec::new();
    for _ in 0..3 {
        let store = Store::open(folder.path()).expect("it opens");
        for key in ["k", "absent"] {
            let version = wait(store.key(key).version()).expect("an answer");
            assert_eq!(wait(store.key(key).version()).expect("an answer"), version);
            assert!(!told.contains(&version), "{key}");
            told.push(version);
        }
        wait(store.register("k").set("a")).expect("nobody is in the way");
        wait(store.close()).expect("it closes");
    }
}

#[test]
fn a_store_is_open_once() {
    let folder = TestFolder::new();
    let store = Store::open(folder.path()).expect("it begins");
    let error = Store::open(folder.path()).expect_err("it is open");
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    drop(store);
    Store::open(folder.path()).expect("it was closed");
}

/// Whoever removes the file that is locked does not open the store a second time.
#[test]
fn a_store_whose_lock_file_was_removed_is_open_once() {
    let folder = TestFolder::new();
    let store = Store::open(folder.path()).expect("it begins");
    std::fs::remove_file(folder.path().join("lock")).expect("it is there");
    let error = Store::open(folder.path()).expect_err("it is open");
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    drop(store);
    Store::open(folder.path()).expect("it was closed");
}

/// Nobody else may read what is in a store, or in a backup of it; a folder that was there is left as it is, and files in it are for
/// their owner alone, too.
#[cfg(unix)]
#[test]
fn a_store_and_its_backups_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let folder = TestFolder::new();
    let there = folder.path().join("there");
    std::fs::create_dir(&there).expect("a folder");
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    for path in [folder.path().join("new/store"), there.clone()] {
        let store = Store::open(&path).expect("it begins");
        wait(store.counter("a").add(1)).expect("nobody is in the way");
        let copy = path.with_extension("copy");
        wait(store.backup(&copy)).expect("there is room");
        wait(store.close()).expect("it closes");
        for files in [&path, &copy] {
            for file in std::fs::read_dir(files).expect("a folder") {
                let file = file.expect("a file").path();
                assert_eq!(mode(&file), 0o600, "{}", file.display());
            }
        }
        assert_eq!(mode(&copy), 0o700);
    }
    assert_eq!(mode(&folder.path().join("new/store")), 0o700);
    assert_eq!(mode(&there), 0o755, "it was there, and is somebody's");
}

/// What a program of the version before wrote, byte for byte: see `tests/stored/README.md`.
#[test]
fn a_folder_of_the_first_format_is_opened_and_goes_on() {
    let folder = TestFolder::new();
    let hex: String = include_str!("stored/format-1.log.hex").split_whitespace().collect();
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"));
    let log = folder.path().join("log-0000000000000000");
    std::fs::write(log, bytes.collect::<Vec<u8>>()).expect("it is written");
    for round in 0..2 {
        let store = Store::open(folder.path()).expect("it is read");
        assert_eq!(wait(store.counter("counter").get()), Ok(42 + round));
        assert_eq!(wait(store.list("list").len()), Ok(2));
        assert_eq!(wait(store.set("set").contains("a")), Ok(true));
        wait(store.counter("counter").add(1)).expect("nobody is in the way");
        wait(store.close()).expect("it closes");
    }
    std::fs::remove_file(folder.path().join("log-0000000000000000")).expect("it is there");
    let error = Store::open(folder.path()).expect_err("from now on it is missed");
    assert!(error.to_string().contains("'log-0000000000000000' is damaged"), "{error}");
}

/// As another process does that was just forked, or a thread that has the last handle.
#[test]
fn who_holds_the_lock_for_a_moment_more_is_waited_for() {
    let folder = TestFolder::new();
    drop(Store::open(folder.path()).expect("it begins"));
    let lock = std::fs::File::open(folder.path().join("lock")).expect("it is there");
    lock.lock().expect("nobody has it for long");
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(lock);
    });
    Store::open(folder.path()).expect("it is free after a moment");
    holder.join().expect("no panic");
}

#[test]
fn transactions_over_shards_are_there_as_a_whole() {
    let folder = TestFolder::new();
    let accounts: Vec<String> = (0..20).map(|number| format!("account:{number}")).collect();
    for round in 0..3 {
        let store = Store::open(folder.path()).expect("it opens");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, accounts) = (&store, &accounts);
                scope.spawn(move || {
                    for at in 0..50 {
                        let (from, to) =
                            (&accounts[(at * 7 + thread) % 20], &accounts[(at * 3 + thread * 5 + 1) % 20]);
                        let transfer = store.transaction(async |tx| {
                            let has = tx.counter(from).get().await?;
                            tx.counter(from).add(-1 - has % 3)?;
                            tx.counter(to).add(1 + has % 3)?;
                            tx.list("journal").push_back(format!("{round} {thread} {at}"))?;
                            Ok(())
                        });
                        wait(transfer).expect("it commits");
                    }
                });
            }
        });
        let sum = async {
            let mut sum = 0;
            for account in &accounts {
                sum += store.counter(account).get().await?;
            }
            Ok::<_, Error>((sum, store.list("journal").len().await?))
        };
        assert_eq!(wait(sum).expect("nobody is in the way"), (0, 200 * (round + 1)));
        if round == 1 {
            // As when the process ends by itself.
            drop(store);
        } else {
            wait(store.close()).expect("it closes");
        }
    }
}

#[test]
fn commits_that_are_not_waited_for_are_there_after_a_close() {
    let folder = TestFolder::new();
    let every = || Store::builder().sync(SyncPolicy::Every(Duration::from_secs(60)));
    let store = every().open(folder.path()).expect("it begins");
    for _ in 0..1_000 {
        wait(store.counter("hits").add(1)).expect("nobody is in the way");
    }
    drop(store);
    let store = every().open(folder.path()).expect("it is there");
    assert_eq!(wait(store.counter("hits").get()), Ok(1_000));
}

#[test]
fn unique_numbers_are_not_given_twice() {
    let folder = TestFolder::new();
    let mut given = std::collections::HashSet::new();
    for _ in 0..3 {
        let store = Store::open(folder.path()).expect("it opens");
        for _ in 0..100 {
            let id = wait(store.uid_generator("orders").next()).expect("nobody is in the way");
            assert!(given.insert(id), "{id} was given before");
        }
    }
}

/// The log is cut behind each snapshot, and work goes on while one is made.
#[test]
fn snapshots_keep_the_log_short() {
    const BYTES: u64 = 20_000;
    let folder = TestFolder::new();
    let open = || {
        Store::builder()
            .sync(SyncPolicy::Every(Duration::from_millis(1)))
            .snapshot_after(BYTES)
            .open(folder.path())
    };
    for round in 1..=3i64 {
        let store = open().expect("it opens");
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let store = &store;
                scope.spawn(move || {
                    for at in 0..3_000 {
                        let transfer = store.transaction(async |tx| {
                            let sum = tx.counter(format!("counter:{}", at % 97)).add_returning(1).await?;
                            tx.counter(format!("other:{}", (at + thread) % 89)).add(sum % 2)?;
                            tx.counter(format!("other:{}", (at + thread) % 89)).add(-(sum % 2))?;
                            tx.set(format!("set:{}", at % 7)).add(sum.to_string())?;
                            if at % 5 == 0 {
                                tx.key(format!("set:{}", (at + 1) % 7)).delete()?;
                            }
                            Ok(())
                        });
                        wait(transfer).expect("it commits");
                    }
                });
            }
        });
        let end = Instant::now() + Duration::from_secs(60);
        while folder.path().join("log-0000000000000000").exists() {
            assert!(Instant::now() < end, "the log is never cut: {:?}", store.log_status());
            wait(store.counter("more").add(1)).expect("nobody is in the way");
        }
        assert!(store.log_status().is_ok_and(|it| it.snapshot > 0 && it.snapshot_error.is_none()));
        wait(store.close()).expect("it closes");
        let store = open().expect("it opens");
        let mut sum = 0;
        for at in 0..97 {
            sum += wait(store.counter(format!("counter:{at}")).get()).expect("nobody is in the way");
        }
        assert_eq!(sum, 6_000 * round);
        for at in 0..89 {
            assert_eq!(wait(store.counter(format!("other:{at}")).get()), Ok(0));
        }
        assert_eq!(
            store.type_of("counter:1").expect("in this process"),
            Some("counter"),
            "also where it is from a snapshot"
        );
    }
}

/// Whoever moves money moves it in a backup, too: as a whole, and not again. What was reported before is in it.
#[test]
fn backups_under_load_are_the_store_at_one_moment() {
    const ACCOUNTS: i64 = 20;
    const THREADS: i64 = 3;
    let folder = TestFolder::new();
    let store = Store::builder()
        .snapshot_after(5_000)
        .open(folder.path().join("bank"))
        .expect("it begins")
        .blocking();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let mut done = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let (from, to) = ((done * 7 + thread) % ACCOUNTS, (done * 3 + thread * 5 + 1) % ACCOUNTS);
                    let transfer = store.transaction(|tx| {
                        let has = tx.counter(format!("account:{from}")).get()?;
                        tx.counter(format!("account:{from}")).add(-1 - has % 3)?;
                        tx.counter(format!("account:{to}")).add(1 + has % 3)?;
                        tx.counter(format!("done:{thread}")).add(1)?;
                        Ok(())
                    });
                    transfer.expect("it commits");
                    done += 1;
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(60);
        let had_snapshot = || store.log_status().is_ok_and(|it| it.snapshot > 0);
        let mut rounds = 0;
        // A panic is told once those who commit have ended.
        let all = catch_unwind(AssertUnwindSafe(|| {
            while rounds < 6 || !had_snapshot() {
                assert!(Instant::now() < end, "no snapshot is made: {:?}", store.log_status());
                let copy = folder.path().join(format!("copy-{rounds}"));
                let before = sum(&store, "done", THREADS);
                // By the store itself, and by whoever may read its files.
                match rounds % 2 {
                    0 => store.backup(&copy).expect("there is room"),
                    _ => Store::backup_of(folder.path().join("bank"), &copy).expect("there is room"),
                }
                let after = sum(&store, "done", THREADS);
                let copy = Store::open(&copy).expect("it is a store").blocking();
                assert_eq!(sum(&copy, "account", ACCOUNTS), 0, "a transfer is there in part");
                let done = sum(&copy, "done", THREADS);
                assert!((before..=after).contains(&done), "{before} to {after}, and {done} in the backup");
                rounds += 1;
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        all.unwrap_or_else(|panicked| resume_unwind(panicked));
    });
}

/// Of these counters.
fn sum(store: &blocking::Store, name: &str, count: i64) -> i64 {
    (0..count).map(|at| store.counter(format!("{name}:{at}")).get().expect("nobody is in the way")).sum()
}

#[test]
fn a_backup_has_what_was_reported_and_not_synced() {
    let folder = TestFolder::new();
    let builder = Store::builder().sync(SyncPolicy::Every(Duration::from_secs(3600)));
    let store = builder.open(folder.path().join("store")).expect("it begins");
    for round in 1..=3 {
        wait(store.counter("hits").add(1)).expect("nobody is in the way");
        let copy = folder.path().join(format!("copies/{round}"));
        wait(store.backup(&copy)).expect("the folders are made");
        let copy = Store::open(copy).expect("it is a store");
        assert_eq!(wait(copy.counter("hits").get()), Ok(round));
    }
}

/// Bug: the folder was called damaged where a process had died while it made a file of the log: opened, it loses nothing.
#[test]
fn a_file_of_the_log_that_was_just_being_made_is_not_missed_in_a_backup() {
    let folder = TestFolder::new();
    let (own, to) = (folder.path().join("store"), |name: &str| folder.path().join(name));
    let store = Store::open(&own).expect("it begins");
    wait(store.counter("n").add(3)).expect("added");
    wait(store.close()).expect("it closes");
    let read = claret_log::recover(&mut claret_log::Folder::new(&own), &mut |_| {}).expect("it is read");
    let end = read.expect("there is a store").position;
    for (no, begun) in ["", "clar"].iter().enumerate() {
        std::fs::write(own.join(format!("log-{end:016x}")), begun).expect("written");
        let to = to(&format!("copy{no}"));
        Store::backup_of(&own, &to).expect("nothing is damaged");
        let copy = Store::open(&to).expect("it is whole");
        assert_eq!(wait(copy.counter("n").get()).expect("an answer"), 3);
        wait(copy.close()).expect("it closes");
    }
    let again = Store::open(&own).expect("nothing is damaged");
    assert_eq!(wait(again.counter("n").get()).expect("an answer"), 3);
    wait(again.close()).expect("it closes");
}

#[test]
fn where_no_backup_can_be_is_said() {
    let folder = TestFolder::new();
    let store = Store::open(folder.path().join("store")).expect("it begins");
    let backup = |name: &str| wait(store.backup(folder.path().join(name)));
    std::fs::create_dir_all(folder.path().join("full")).expect("a folder");
    std::fs::write(folder.path().join("full/photo.jpg"), "a photo").expect("a file");
    assert!(matches!(backup("full"), Err(BackupError::NotEmpty { .. })));
    assert!(matches!(backup("full/photo.jpg"), Err(BackupError::Io { .. })));
    for own in ["store", "store/copy", "store/a/b", "full/../store/copy"] {
        let error = backup(own).expect_err("the store could not be opened any more");
        assert!(matches!(error, BackupError::OwnFolder { .. }), "{own}: {error}");
    }
    assert!(!folder.path().join("store/copy").exists() && folder.path().join("full/photo.jpg").exists());
    let error =
        wait(Store::in_memory().backup(folder.path().join("copy"))).expect_err("nothing is on a disk");
    assert!(matches!(error, BackupError::InMemory) && error.to_string().contains("Store::open"), "{error}");
    let closed = store.clone();
    wait(store.close()).expect("it closes");
    let error = wait(closed.backup(folder.path().join("copy"))).expect_err("it is closed");
    assert!(matches!(error, BackupError::Store(Error::Begin(BeginError::Closed))), "{error}");
    assert!(!folder.path().join("copy").exists());
}

/// A folder that holds something else is left alone.
#[test]
fn what_is_no_store_is_named_and_left_alone() {
    let folder = TestFolder::new();
    std::fs::create_dir_all(folder.path()).expect("a folder");
    let file = folder.path().join("photo.jpg");
    std::fs::write(&file, "a photo").expect("a file");
    let error = Store::open(folder.path()).expect_err("it is no store").to_string();
    assert!(error.contains("'photo.jpg' is no file of a Claret store"), "{error}");
    let error = Store::open(&file).expect_err("it is a file").to_string();
    assert!(error.contains("photo.jpg' is no file of a Claret store"), "{error}");
    assert_eq!(std::fs::read(&file).expect("it is there"), b"a photo");
}

/// The log has no form for its effects, and would have to stop where it is written.
#[test]
fn a_type_that_is_not_built_in_is_refused() {
    let folder = TestFolder::new();
    let store = Store::open(folder.path()).expect("it begins");
    let add = || ("k".into(), Operation::new::<Faulty>(FaultyOp::Add(1)));
    let error = wait(store.run_all([add()])).expect_err("it is not built in").to_string();
    assert!(
        error.contains("the type faulty is not built in") && error.contains("a store in memory"),
        "{error}"
    );
    let transaction = store.transaction(async |tx| Ok(tx.execute(add().0, add().1).await?));
    let error = wait(transaction).expect_err("it is not built in").to_string();
    assert!(error.contains("the type faulty is not built in"), "{error}");
    assert_eq!(wait(store.counter("k").add(1)), Ok(()));
}
