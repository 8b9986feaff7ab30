//! Calls of the workloads as SQL: the tables that hold the records, and what each operation does to them.

use claret::Reply;
use claret::types::{
    Bytes, Counter, CounterOp, Dict, DictOp, Operation, ScoredSet, ScoredSetOp, Set, SetOp, SummaryBag,
    SummaryBagOp, TopK, TopKOp, UidGenerator, UidOp,
};
use rusqlite::types::{ToSql, Type, ValueRef};
use rusqlite::{Connection, Error, OptionalExtension, Row};

use crate::workload::Call;

/// A table for each type, by the record's key.
pub(super) const TABLES: &str = "
CREATE TABLE counters (key BLOB PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE members (key BLOB, member BLOB, PRIMARY KEY (key, member)) WITHOUT ROWID;
CREATE TABLE fields (key BLOB, field BLOB, value, PRIMARY KEY (key, field)) WITHOUT ROWID;
CREATE TABLE scores (key BLOB, member BLOB, score REAL NOT NULL, PRIMARY KEY (key, member)) WITHOUT ROWID;
CREATE INDEX by_score ON scores (key, score, member);
CREATE TABLE best (key BLOB, member BLOB, score REAL NOT NULL, PRIMARY KEY (key, member)) WITHOUT ROWID;
CREATE TABLE bags (key BLOB PRIMARY KEY, count INTEGER NOT NULL, sum REAL NOT NULL) WITHOUT ROWID;
";

/// Carries a call out.
pub(super) fn run(db: &Connection, call: &Call) -> Result<Reply, Error> {
    let (key, op) = (&call.key[..], &call.op);
    if let Some(op) = op.downcast::<Set>() {
        set(db, key, op)
    } else if let Some(op) = op.downcast::<Counter>() {
        counter(db, key, op)
    } else if let Some(op) = op.downcast::<Dict>() {
        dict(db, key, op)
    } else if let Some(op) = op.downcast::<ScoredSet>() {
        scored_set(db, key, op)
    } else if let Some(op) = op.downcast::<TopK>() {
        top_k(db, key, op)
    } else if let Some(op) = op.downcast::<SummaryBag>() {
        summary_bag(db, key, op)
    } else if let Some(UidOp::Next) = op.downcast::<UidGenerator>() {
        add(db, key, 1)
    } else {
        Err(not_here(op))
    }
}

fn not_here(op: &Operation) -> Error {
    Error::InvalidParameterName(format!("no workload does {} in SQL", op.method().name))
}

fn change(db: &Connection, sql: &str, with: &[&dyn ToSql]) -> Result<(), Error> {
    db.prepare_cached(sql)?.execute(with).map(drop)
}

fn one<T>(
    db: &Connection,
    sql: &str,
    with: &[&dyn ToSql],
    read: impl FnOnce(&Row<'_>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    db.prepare_cached(sql)?.query_row(with, read).optional()
}

fn count(db: &Connection, sql: &str, key: &[u8]) -> Result<Reply, Error> {
    Ok(Reply::Int(one(db, sql, &[&key], |row| row.get(0))?.unwrap_or(0)))
}

/// The columns of all rows, one after another.
fn flat(db: &Connection, sql: &str, with: &[&dyn ToSql], columns: usize) -> Result<Reply, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let (mut rows, mut replies) = (statement.query(with)?, Vec::new());
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            replies.push(bytes(row, column)?);
        }
    }
    Ok(Reply::Array(replies))
}

fn bytes(row: &Row<'_>, column: usize) -> Result<Reply, Error> {
    match row.get_ref(column)? {
        ValueRef::Integer(number) => Ok(Reply::Bytes(Bytes::from(number.to_string()))),
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Reply::Bytes(Bytes::from(bytes))),
        ValueRef::Null | ValueRef::Real(_) => {
            Err(Error::InvalidColumnType(column, "a field".into(), Type::Blob))
        }
    }
}

fn add(db: &Connection, key: &[u8], amount: i64) -> Result<Reply, Error> {
    let sql = "INSERT INTO counters VALUES (?1, ?2) \
               ON CONFLICT DO UPDATE SET value = value + excluded.value RETURNING value";
    Ok(Reply::Int(one(db, sql, &[&key, &amount], |row| row.get(0))?.unwrap_or(0)))
}

fn counter(db: &Connection, key: &[u8], op: &CounterOp) -> Result<Reply, Error> {
    match op {
        CounterOp::Add(amount) => add(db, key, *amount).map(|_| Reply::Ok),
        CounterOp::AddReturning(amount) => add(db, key, *amount),
        CounterOp::Get => count(db, "SELECT value FROM counters WHERE key = ?1", key),
    }
}

fn set(db: &Connection, key: &[u8], op: &SetOp) -> Result<Reply, Error> {
    match op {
        SetOp::Add(members) => {
            for member in members {
                change(db, "INSERT OR IGNORE INTO members VALUES (?1, ?2)", &[&key, &&member[..]])?;
            }
            Ok(Reply::Ok)
        }
        SetOp::Len => count(db, "SELECT COUNT(*) FROM members WHERE key = ?1", key),
        SetOp::Members => flat(db, "SELECT member FROM members WHERE key = ?1", &[&key], 1),
        SetOp::AddReturning(_) | SetOp::Remove(_) | SetOp::RemoveReturning(_) | SetOp::Contains(_) => {
            Err(not_here(&Operation::new::<Set>(op.clone())))
        }
    }
}

fn dict(db: &Connection, key: &[u8], op: &DictOp) -> Result<Reply, Error> {
    match op {
        DictOp::Set(fields) => {
            let sql = "INSERT INTO fields VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET value = excluded.value";
            for (field, value) in fields {
                change(db, sql, &[&key, &&field[..], &&value[..]])?;
            }
            Ok(Reply::Ok)
        }
        DictOp::Add(field, amount) => {
            let sql = "INSERT INTO fields VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + excluded.value";
            change(db, sql, &[&key, &&field[..], amount]).map(|()| Reply::Ok)
        }
        DictOp::Get(field) => {
            let sql = "SELECT value FROM fields WHERE key = ?1 AND field = ?2";
            let value = one(db, sql, &[&key, &&field[..]], |row| bytes(row, 0))?;
            Ok(value.unwrap_or(Reply::Nil))
        }
        DictOp::All => flat(db, "SELECT field, value FROM fields WHERE key = ?1 ORDER BY field", &[&key], 2),
        _ => Err(not_here(&Operation::new::<Dict>(op.clone()))),
    }
}

fn scored_set(db: &Connection, key: &[u8], op: &ScoredSetOp) -> Result<Reply, Error> {
    match op {
        ScoredSetOp::Add(members) => {
            let sql = "INSERT INTO scores VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET score = excluded.score";
            for (member, score) in members {
                change(db, sql, &[&key, &&member[..], score])?;
            }
            Ok(Reply::Ok)
        }
        ScoredSetOp::Remove(members) => {
            for member in members {
                change(db, "DELETE FROM scores WHERE key = ?1 AND member = ?2", &[&key, &&member[..]])?;
            }
            Ok(Reply::Ok)
        }
        ScoredSetOp::Score(member) => {
            let sql = "SELECT score FROM scores WHERE key = ?1 AND member = ?2";
            let score = one(db, sql, &[&key, &&member[..]], |row| row.get(0))?;
            Ok(score.map_or(Reply::Nil, Reply::Float))
        }
        ScoredSetOp::Len => count(db, "SELECT COUNT(*) FROM scores WHERE key = ?1", key),
        // A stop before the end is one that is counted from there: only the last of all is asked for.
        ScoredSetOp::Range { start: start @ 0.., stop: stop @ -1.., reverse, scores: false } => {
            let length = if *stop == -1 { -1 } else { (stop - start + 1).max(0) };
            let sql = match reverse {
                false => "SELECT member FROM scores WHERE key = ?1 ORDER BY score, member LIMIT ?2 OFFSET ?3",
                true => {
                    "SELECT member FROM scores WHERE key = ?1 ORDER BY score DESC, member DESC LIMIT ?2 OFFSET ?3"
                }
            };
            flat(db, sql, &[&key, &length, start], 1)
        }
        _ => Err(not_here(&Operation::new::<ScoredSet>(op.clone()))),
    }
}

fn top_k(db: &Connection, key: &[u8], op: &TopKOp) -> Result<Reply, Error> {
    match op {
        TopKOp::Add { capacity, score, member } => {
            let sql = "INSERT INTO best VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET score = MAX(score, excluded.score)";
            change(db, sql, &[&key, &&member[..], score])?;
            let sql = "DELETE FROM best WHERE key = ?1 AND member IN (SELECT member FROM best \
                       WHERE key = ?1 ORDER BY score DESC, member DESC LIMIT -1 OFFSET ?2)";
            change(db, sql, &[&key, capacity]).map(|()| Reply::Ok)
        }
        TopKOp::Max => {
            let sql =
                "SELECT member, score FROM best WHERE key = ?1 ORDER BY score DESC, member DESC LIMIT 1";
            let read = |row: &Row<'_>| Ok(Reply::Array(vec![bytes(row, 0)?, Reply::Float(row.get(1)?)]));
            Ok(one(db, sql, &[&key], read)?.unwrap_or(Reply::Nil))
        }
        TopKOp::List { .. } | TopKOp::Count => Err(not_here(&Operation::new::<TopK>(op.clone()))),
    }
}

fn summary_bag(db: &Connection, key: &[u8], op: &SummaryBagOp) -> Result<Reply, Error> {
    match op {
        SummaryBagOp::Add(value) => {
            let sql = "INSERT INTO bags VALUES (?1, 1, ?2) \
                       ON CONFLICT DO UPDATE SET count = count + 1, sum = sum + excluded.sum";
            change(db, sql, &[&key, value]).map(|()| Reply::Ok)
        }
        SummaryBagOp::Sum => {
            let sum = one(db, "SELECT sum FROM bags WHERE key = ?1", &[&key], |row| row.get(0))?;
            Ok(Reply::Float(sum.unwrap_or(0.0)))
        }
        SummaryBagOp::Mean => {
            let mean = one(db, "SELECT sum / count FROM bags WHERE key = ?1", &[&key], |row| row.get(0))?;
            Ok(mean.map_or(Reply::Nil, Reply::Float))
        }
        _ => Err(not_here(&Operation::new::<SummaryBag>(op.clone()))),
    }
}
