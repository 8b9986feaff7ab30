//! A payment with `WATCH`, as docs/howto/move-from-multi-and-watch.md shows it.

use redis::{Commands, Connection, RedisResult};

/// Pays out of Ada's balance; whether there was enough.
pub fn pay(redis: &mut Connection, amount: i64) -> RedisResult<bool> {
    loop {
        redis::cmd("WATCH").arg("balance:ada").exec(redis)?;
        let balance: Option<i64> = redis.get("balance:ada")?;
        if balance.unwrap_or(0) < amount {
            redis::cmd("UNWATCH").exec(redis)?;
            return Ok(false);
        }
        let mut both = redis::pipe();
        both.atomic().decr("balance:ada", amount).rpush("payments:ada", amount);
        let executed: Option<(i64, i64)> = both.query(redis)?;
        if executed.is_some() {
            return Ok(true);
        }
        // Somebody touched the balance: start over.
    }
}
