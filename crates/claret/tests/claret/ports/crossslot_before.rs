//! A transfer between two nodes without transactions over them, as docs/howto/move-from-multi-and-watch.md shows it.

use redis::{Commands, Connection, RedisResult, transaction};

/// Moves money between accounts on two nodes; whether there was enough. One `MULTI` for both is refused (CROSSSLOT), so
/// the money is on its way for a while, in a record that has the hash tag of the account that pays.
pub fn transfer(
    (payer, from): (&mut Connection, &str),
    (payee, to): (&mut Connection, &str),
    id: &str,
    amount: i64,
) -> RedisResult<bool> {
    let on_its_way = format!("{{{from}}}:on-its-way");
    let taken: bool = transaction(payer, &[from], |payer, pipe| {
        let balance: Option<i64> = payer.get(from)?;
        if balance.unwrap_or(0) < amount {
            return Ok(Some(false));
        }
        pipe.decr(from, amount).hset(&on_its_way, id, format!("{amount} {to}"));
        let executed: Option<(i64, i64)> = pipe.query(payer)?;
        Ok(executed.map(|_| true))
    })?;
    if taken {
        arrive((payer, from), (payee, to), id, amount)?;
    }
    Ok(taken)
}

/// The second half. A job has to look for transfers that a crash has left on their way, and call this again: so it must do
/// nothing the second time, and its mark must outlive the retry.
pub fn arrive(
    (payer, from): (&mut Connection, &str),
    (payee, to): (&mut Connection, &str),
    id: &str,
    amount: i64,
) -> RedisResult<()> {
    let mark = format!("{{{to}}}:arrived:{id}");
    transaction(payee, &[&mark], |payee, pipe| {
        if payee.exists(&mark)? {
            return Ok(Some(()));
        }
        pipe.incr(to, amount).ignore().set_ex(&mark, 1, 86_400).ignore();
        pipe.query(payee)
    })?;
    payer.hdel(format!("{{{from}}}:on-its-way"), id)
}
