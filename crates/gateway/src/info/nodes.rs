//! What the nodes say in `INFO`, as one server would say it of all of them.

use std::collections::HashMap;

use crate::login::version;

/// What each node says.
pub(super) struct OfNodes<'a>(Vec<HashMap<&'a str, &'a str>>);

impl<'a> OfNodes<'a> {
    /// From the text of each.
    pub(super) fn read(said: impl IntoIterator<Item = &'a str>) -> Self {
        let fields =
            |text: &'a str| text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        OfNodes(said.into_iter().map(fields).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let name = name.to_owned();
        self.0.iter().filter_map(move |node| node.get(name.as_str()).copied())
    }

    fn numbers(&self, name: &str) -> impl Iterator<Item = i64> {
        self.all(name).filter_map(|value| value.parse().ok())
    }

    /// The sum of all nodes; 0 of what none says.
    pub(super) fn sum(&self, name: &str) -> i64 {
        self.numbers(name).fold(0, i64::saturating_add)
    }

    /// The largest number.
    pub(super) fn max(&self, name: &str) -> Option<i64> {
        self.numbers(name).max()
    }

    /// What all of them say, or the first that says something else than `well`.
    pub(super) fn worst(&self, name: &str, well: &str) -> Option<&'a str> {
        self.all(name).find(|value| *value != well).or_else(|| self.all(name).next())
    }

    /// What the node of the lowest version says of itself: programs look at it for what they may use, and any node may be asked.
    pub(super) fn oldest(&self) -> Option<&HashMap<&'a str, &'a str>> {
        self.0.iter().min_by_key(|node| version(node.get("redis_version").copied().unwrap_or_default()))
    }

    /// Keys, those of them that expire, and how long these last on an average, in milliseconds.
    pub(super) fn keys(&self) -> (i64, i64, i64) {
        let (mut keys, mut expire, mut lasts) = (0, 0, 0);
        for said in self.all("db0") {
            let field = |name: &str| -> i64 {
                let found = said.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
                found.and_then(|value| value.parse().ok()).unwrap_or(0)
            };
            let expires = field("expires");
            keys += field("keys");
            lasts += field("avg_ttl").saturating_mul(expires);
            expire += expires;
        }
        (keys, expire, lasts.checked_div(expire).unwrap_or(0))
    }
}

/// Bytes as people read them: `1.50M`.
pub(super) fn human(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_as_one_server() {
        let (first, second) = (
            "# Server\r\nredis_version:7.2.4\r\narch_bits:64\r\nused_memory:100\r\nloading:0\r\n\
             maxmemory_policy:noeviction\r\ndb0:keys=3,expires=1,avg_ttl=900\r\n",
            "redis_version:7.0.15\r\nused_memory:20\r\nloading:1\r\nmaxmemory_policy:allkeys-lru\r\n\
             db0:keys=4,expires=2,avg_ttl=300\r\n",
        );
        let nodes = OfNodes::read([first, second]);
        assert_eq!(nodes.oldest().expect("two")["redis_version"], "7.0.15");
        assert_eq!((nodes.sum("used_memory"), nodes.sum("nothing"), nodes.max("loading")), (120, 0, Some(1)));
        assert_eq!(nodes.worst("maxmemory_policy", "noeviction"), Some("allkeys-lru"));
        assert_eq!(nodes.keys(), (7, 3, 500));
        assert!(version("7.0.15") < version("7.2.4") && version("7.2.4") < version("10.0"));
        assert!(OfNodes::read([]).oldest().is_none());
        assert_eq!(OfNodes::read(["redis_version:x"]).keys(), (0, 0, 0));
    }

    #[test]
    fn bytes_are_shown_as_servers_show_them() {
        let shown = [(0, "0B"), (1023, "1023B"), (1536, "1.50K"), (5 << 20, "5.00M"), (3 << 30, "3.00G")];
        shown.into_iter().for_each(|(bytes, text)| assert_eq!(human(bytes), text));
    }
}
