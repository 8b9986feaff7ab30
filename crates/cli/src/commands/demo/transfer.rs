//! `claret demo transfer`: money moves between two keys, all or nothing; on a cluster they are on different shards, and plain Redis is
//! asked for the same.

use std::io::{self, Write};

use claret::blocking::Store;

use claret::{Abort, Error, Records};
use claret_redis::Command;
use claret_rig::{Cluster, Module};

use crate::commands::store_arg::{SHARDS, StoreArg};

/// On the first shard and on the last, however many share the slots evenly.
const ADA: &str = "demo:account:ada";
const BOB: &str = "demo:account:bob";

const INTRO: &str = "\
Ada has 100, Bob has 0. A transaction moves money from the one key to the other; where Ada would have less than 0, nothing of it
happens:

    store.transaction(|tx| {
        tx.counter(ada).add(-amount)?;
        tx.counter(bob).add(amount)?;
        if tx.counter(ada).get()? < 0 {
            return Err(Abort::because(\"not enough\"));
        }
        Ok(())
    })
";

/// Runs it.
pub(super) fn run(store: &StoreArg, out: &mut dyn Write) -> Result<(), String> {
    writeln!(out, "{INTRO}").map_err(failed)?;
    match store {
        StoreArg::Embedded => moved(&claret::Store::in_memory().blocking(), out),
        StoreArg::Cluster => {
            let started =
                Module::find().and_then(|module| Cluster::options(SHARDS as u16, 0).module(module).start());
            // It ends when the demo does.
            let cluster = started.map_err(|error| error.to_string())?;
            on_cluster(&cluster.url(), out)
        }
        StoreArg::Url(url) => on_cluster(url, out),
        StoreArg::File(_) | StoreArg::Model => {
            Err("the transfer runs on embedded, cluster or redis://HOST:PORT".into())
        }
    }
}

fn on_cluster(url: &str, out: &mut dyn Write) -> Result<(), String> {
    let store = Store::connect(url).map_err(|error| error.to_string())?;
    for key in [ADA, BOB] {
        if store.key(key).exists().map_err(text)? {
            return Err(format!(
                "the key '{key}' is there already, and the demo would overwrite it: delete it first"
            ));
        }
    }
    let shown = moved(&store, out).and_then(|()| without_claret(url, out));
    // Whatever came of it: the cluster may be somebody's.
    let cleaned = store.transaction(|tx| {
        tx.register(ADA).delete()?;
        tx.register(BOB).delete()?;
        Ok(())
    });
    shown.and(cleaned.map_err(text))
}

fn moved(store: &Store, out: &mut dyn Write) -> Result<(), String> {
    let transfer = |amount: i64| {
        store.transaction(|tx| {
            tx.counter(ADA).add(-amount)?;
            tx.counter(BOB).add(amount)?;
            if tx.counter(ADA).get()? < 0 {
                return Err(Abort::because(format!("Ada has no {amount} to give")));
            }
            Ok(())
        })
    };
    store.register(ADA).set("100").and_then(|()| store.register(BOB).set("0")).map_err(text)?;
    for amount in [30, 80] {
        let outcome = match transfer(amount) {
            Ok(()) => "committed".to_owned(),
            Err(error @ Error::Aborted { .. }) => error.to_string(),
            Err(error) => return Err(error.to_string()),
        };
        let [ada, bob] = [ADA, BOB].map(|key| store.counter(key).get());
        writeln!(
            out,
            "transfer {amount}: {outcome}. Ada has {}, Bob has {}.",
            ada.map_err(text)?,
            bob.map_err(text)?
        )
        .map_err(failed)?;
    }
    Ok(())
}

/// What the cluster says to the same in plain Redis: the node of the one key is asked to do both.
fn without_claret(url: &str, out: &mut dyn Write) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answers = runtime.map_err(|error| error.to_string())?.block_on(async {
        let plain = claret_redis::Builder::new(url).connect().await.map_err(|error| error.to_string())?;
        let mut node = plain.dedicated(ADA).await.map_err(|error| error.to_string())?;
        let mut said = vec![format!("\nThe same in plain Redis, at {}:", node.node())];
        let decr = format!("DECRBY {ADA} 30");
        let incr = format!("INCRBY {BOB} 30");
        let mset = format!("MSET {ADA} 70 {BOB} 30");
        for line in ["MULTI", &decr, &incr, "EXEC", &mset] {
            let mut words = line.split(' ');
            let name = Command::new(words.next().unwrap_or_default());
            let answer = match node.ask(&words.fold(name, Command::arg)).await {
                Ok(reply) => reply.to_string(),
                Err(error) => error.to_string(),
            };
            said.push(format!("  {line:<45} {answer}"));
        }
        Ok::<_, String>(said)
    })?;
    answers.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(failed)
}

fn text(error: Error) -> String {
    error.to_string()
}

fn failed(error: io::Error) -> String {
    format!("writing the results: {error}")
}
