//! Writes what the fuzzers begin with: what each operation that changes something leaves in a log and in a snapshot, as files of
//! `corpus/TARGET`.

use std::path::Path;

use claret_core::{Incarnation, Limits, Shard, ShardId, Switches, key_hash, write_record};
use claret_log::{Gathered, Tail};
use claret_log_fuzz::add_body;
use claret_types::{Bytes, Operation, builtin_examples};

fn write(target: &str, name: &str, input: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), input)
}

/// What the examples of a type leave.
fn of(name: &str, examples: Vec<Operation>) -> std::io::Result<()> {
    let mut shard = Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default());
    shard.keep_journal();
    let (mut tail, mut log) = (Tail::new(None), vec![1]);
    for (number, op) in examples.into_iter().enumerate() {
        let key = Bytes::from(format!("{name}:{}", number % 2));
        if !matches!(shard.instant(key_hash(&key), &key, &op), Ok(Some(_))) {
            shard.undo_instant();
            continue;
        }
        shard.finish_instant();
        tail.note(ShardId(0), shard.journal().expect("it is kept"));
        let mut group = Gathered::default();
        tail.take(&mut group);
        add_body(&mut log, 1, &group.bytes);
    }
    write("log", name, &log)?;
    // Base, from where on the log is needed, unique numbers; records; the end.
    let mut snapshot = vec![1];
    add_body(&mut snapshot, 0, &[0, 0, 9]);
    for (key, state) in shard.contents() {
        let mut record = Vec::new();
        write_record(&mut record, key, Some(state));
        add_body(&mut snapshot, 0, &record);
    }
    add_body(&mut snapshot, 0, &[]);
    write("snapshot", name, &snapshot)
}

fn main() -> std::io::Result<()> {
    builtin_examples().try_for_each(|(kind, examples)| of(kind.name, examples))
}
