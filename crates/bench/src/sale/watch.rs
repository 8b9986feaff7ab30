//! The shop on a Redis server: `WATCH`, a look, the work, `MULTI`, the writes, `EXEC`; and again where that answers nil.
//!
//! The server is a child of this process, with nothing loaded into it and nothing on a disk, and ends with it. Each buyer has a
//! connection of its own, since `WATCH` is of the connection.

use std::time::Duration;

use claret::{Reply, Store};
use claret_redis::{Command, Dedicated};
use tokio::time::sleep;

use super::Stock;
use super::shop::{Ended, key};

/// A buyer's connection.
pub(super) type Connection = Dedicated;

/// The server, as long as it is needed.
pub(super) struct Server(claret_rig::Server);

impl Server {
    pub(super) async fn start(prices: &[i64], pieces: i64) -> Result<Self, String> {
        let server = claret_rig::Server::start().map(Server).map_err(|error| error.to_string())?;
        let mut connection = server.connect().await?;
        let set =
            |what: &str, at: usize, value: i64| Command::new("SET").arg(key(what, at)).arg(value.to_string());
        let fill = |(at, price): (usize, &i64)| [set("price", at, *price), set("stock", at, pieces)];
        run(&mut connection, &prices.iter().enumerate().flat_map(fill).collect::<Vec<_>>()).await?;
        Ok(server)
    }

    pub(super) async fn connect(&self) -> Result<Connection, String> {
        Store::cluster(self.0.url()).connections().dedicated(None).await.map_err(|error| error.to_string())
    }

    pub(super) async fn count(&self, products: usize) -> Result<Vec<Stock>, String> {
        let mut connection = self.connect().await?;
        let mut found = Vec::new();
        for product in 0..products {
            let [left, takings] =
                ["stock", "takings"].map(|what| Command::new("GET").arg(key(what, product)));
            let values = run(&mut connection, &[left, takings]).await?;
            found.push(Stock { left: number(&values[0])?, takings: number(&values[1])? });
        }
        Ok(found)
    }
}

/// One attempt. `None`: somebody changed a watched key, and nothing was done.
pub(super) async fn attempt(
    connection: &mut Connection,
    cart: &[usize],
    work: Duration,
) -> Result<Option<Ended>, String> {
    let seen = cart.iter().flat_map(|product| [key("price", *product), key("stock", *product)]);
    let seen: Vec<String> = seen.collect();
    let of = |name| seen.iter().fold(Command::new(name), |command, key| command.arg(key.as_str()));
    let mut answers = run(connection, &[of("WATCH"), of("MGET")]).await?;
    let Some(Reply::Array(values)) = answers.pop() else { return Err("MGET answered no array".to_owned()) };
    let mut prices = Vec::with_capacity(cart.len());
    for (product, value) in cart.iter().zip(values.chunks_exact(2)) {
        prices.push(number(&value[0])?);
        if number(&value[1])? < 1 {
            run(connection, &[Command::new("UNWATCH")]).await?;
            return Ok(Some(Ended::SoldOut { product: *product }));
        }
    }
    sleep(work).await;
    let sell = |(product, price): (&usize, &i64)| {
        let take = Command::new("DECR").arg(key("stock", *product));
        [take, Command::new("INCRBY").arg(key("takings", *product)).arg(price.to_string())]
    };
    let mut commands = vec![Command::new("MULTI")];
    commands.extend(cart.iter().zip(&prices).flat_map(sell));
    commands.push(Command::new("EXEC"));
    match run(connection, &commands).await?.pop() {
        Some(Reply::Nil) => Ok(None),
        Some(Reply::Array(_)) => Ok(Some(Ended::Bought { prices })),
        other => Err(format!("EXEC answered {other:?}")),
    }
}

async fn run(connection: &mut Connection, commands: &[Command]) -> Result<Vec<Reply>, String> {
    let answers = connection.run(commands).await.map_err(|error| error.to_string())?;
    answers.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// A number as the server keeps it; nothing is zero.
fn number(reply: &Reply) -> Result<i64, String> {
    match reply {
        Reply::Nil => Ok(0),
        Reply::Bytes(bytes) => {
            let text = bytes.to_string();
            text.parse().map_err(|_| format!("'{text}' is no number"))
        }
        other => Err(format!("the server answered {other} for a number")),
    }
}
