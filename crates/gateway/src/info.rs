//! `INFO` of the gateway.

use std::sync::atomic::Ordering;

use bytes::Bytes as Word;

use crate::about::SERVER_VERSION;
use crate::answer::Answer;
use crate::client::Client;
use crate::session::Backing;

impl Client {
    /// `INFO`, or some of its sections.
    pub(crate) async fn info(&mut self, words: &[Word]) -> Answer {
        let sections: Vec<String> =
            words[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
        let has = |name: &str| {
            sections.is_empty()
                || sections
                    .iter()
                    .any(|asked| asked == name || matches!(asked.as_str(), "all" | "everything" | "default"))
        };
        let mut text = String::new();
        let shared = &self.shared;
        if has("server") {
            text += &format!(
                "# Server\r\nredis_version:{SERVER_VERSION}\r\nredis_mode:standalone\r\nclaret_gateway_version:{}\r\nprocess_id:{}\r\n\
                 uptime_in_seconds:{}\r\n\r\n",
                env!("CARGO_PKG_VERSION"),
                std::process::id(),
                shared.started.elapsed().as_secs()
            );
        }
        if has("clients") {
            text += &format!(
                "# Clients\r\nconnected_clients:{}\r\nmaxclients:{}\r\nblocked_clients:{}\r\n\r\n",
                shared.registry.len(),
                shared.limits.connections_max,
                shared.metrics.blocked.load(Ordering::Relaxed)
            );
        }
        if has("persistence") {
            text += "# Persistence\r\nloading:0\r\n\r\n";
        }
        if has("replication") {
            text += "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n";
        }
        if has("cluster") {
            text += "# Cluster\r\ncluster_enabled:0\r\n\r\n";
        }
        if has("gateway") {
            text += &shared.metrics.info();
            text += "\r\n";
        }
        if has("keyspace")
            && let Some(keys) = self.count_keys().await
            && keys > 0
        {
            text += &format!("# Keyspace\r\ndb0:keys={keys},expires=0,avg_ttl=0\r\n\r\n");
        }
        Answer::Verbatim(text.into())
    }

    /// How many keys all nodes have, if they say so.
    async fn count_keys(&mut self) -> Option<i64> {
        let session = self.session.clone()?;
        let Backing::Nodes(nodes) = &session.backing else { return None };
        let plain = nodes.plain(self.state.protocol).await.ok()?;
        let mut sum = 0;
        for node in plain.nodes() {
            let answer = crate::asking::at(plain, &node, &[b"DBSIZE"], true).await.ok()?;
            let text = std::str::from_utf8(answer.strip_prefix(b":")?).ok()?;
            sum += text.trim_end().parse::<i64>().ok()?;
        }
        Some(sum)
    }
}
