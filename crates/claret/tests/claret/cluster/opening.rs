//! Opening a store: what works, and which errors come when it does not.

use std::time::Duration;

use claret::lab::Grants;
use claret::{Records, Store, TxOptions, blocking};
use claret::{cluster::ConnectError, lab::ClusterLab};
use claret_redis::{Builder, Command};
use claret_rig::{Cluster, Server};

use super::rig::{fresh, keys, prefix, shared};

async fn refused(url: &str) -> ConnectError {
    Store::cluster(url).connect_timeout(Duration::from_secs(2)).connect().await.expect_err("no store")
}

#[tokio::test]
async fn a_node_without_the_module_is_named() {
    let _limit = super::limit::of_test();
    let cluster = Cluster::options(3, 0).start().expect("a cluster");
    let error = refused(&cluster.url()).await;
    assert!(matches!(error, ConnectError::NoModule { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn a_password_is_needed_and_must_be_right() {
    let _limit = super::limit::of_test();
    let module = claret_rig::Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 0).module(module).password("right").start().expect("a cluster");
    let store = Store::connect(cluster.url()).await.expect("with the right one");
    store.counter("k").add(1).await.expect("counted");
    let address = cluster.servers()[0].address();
    for url in [format!("redis://{address}"), format!("redis://:wrong@{address}")] {
        let error = refused(&url).await;
        assert!(matches!(error, ConnectError::Denied { .. }), "{error}");
        assert!(!error.to_string().contains("wrong@"), "{error}");
    }
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_polls() {
    let _limit = super::limit::of_test();
    let cluster = shared();
    for shard in 0..cluster.masters() {
        let rights = ["ACL", "SETUSER", "poller", "on", ">pw", "~*", "resetchannels", "+@all"];
        cluster.query::<()>(shard, &rights).expect("a user");
    }
    let url = cluster.url().replace("redis://", "redis://poller:pw@");
    for store in [
        Store::connect(url).await.expect("a store"),
        Store::cluster(cluster.url()).grants(Grants::Poll).connect().await.expect("a store"),
    ] {
        contend(&store).await;
    }
}

/// Names with what channels, patterns and hash tags are made of; each may hear on its own channels alone.
#[tokio::test]
async fn a_user_is_pushed_to_on_channels_of_its_own_whatever_its_name() {
    let _limit = super::limit::of_test();
    let cluster = fresh(2);
    for (name, in_url, own) in
        [("a", "a", "a"), ("{a}", "%7Ba%7D", "%7Ba%7D"), ("a:b*", "a%3Ab*", "a%3Ab%2A")]
    {
        for shard in 0..cluster.masters() {
            let channels = format!("&claret:{own}:*");
            let rights = ["ACL", "SETUSER", name, "on", ">pw", "~*", "resetchannels", &channels, "+@all"];
            cluster.query::<()>(shard, &rights).expect("a user");
        }
        let store = Store::connect(cluster.url().replace("redis://", &format!("redis://{in_url}:pw@")));
        let store = store.await.expect("a store");
        contend(&store).await;
        for shard in 0..cluster.masters() {
            let open: Vec<String> = cluster.query(shard, &["PUBSUB", "SHARDCHANNELS"]).expect("a list");
            let begins = format!("claret:{own}:{{");
            assert!(open.len() == 1 && open[0].starts_with(&begins), "{name}: {open:?}");
        }
        store.close().await.expect("it closes");
    }
}

/// Two tasks that wait for each other's locks: some grants come late.
async fn contend(store: &Store) {
    let prefix = prefix();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, key) = (store.clone(), format!("{prefix}k"));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let swap = |tx: claret::Tx| {
                        let key = key.clone();
                        async move {
                            let seen = tx.counter(&key).get_for_update().await?;
                            tx.register(&key).set((seen + 1).to_string())?;
                            Ok(())
                        }
                    };
                    store.transaction(swap).await.expect("swapped");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("done");
    }
    assert_eq!(store.counter(format!("{prefix}k")).get().await.expect("read"), 40);
}

#[tokio::test]
async fn nobody_there_and_no_cluster_are_told() {
    let _limit = super::limit::of_test();
    let error = refused("redis://127.0.0.1:1").await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let error = refused("redis://127.0.0.1:1/2").await;
    assert!(error.to_string().contains("database 0 only"), "{error}");
    let server = Server::options().config("cluster-enabled yes").start().expect("a server");
    let error = refused(&server.url()).await;
    assert!(matches!(&error, ConnectError::Uncovered { slots } if slots[..] == [(0, 16383)]), "{error}");
}

/// At the beginning they are refused by name. Later nothing is done at one that the names lead to.
#[tokio::test]
async fn nodes_of_two_clusters_are_told_apart() {
    let _limit = super::limit::of_test();
    let (mut one, two) = (fresh(1), fresh(2));
    let hosts = |clusters: [&Cluster; 2]| {
        let [first, second] = clusters.map(|cluster| cluster.url().replace("redis://", ""));
        format!("redis://{},{}", first.trim_end_matches('/'), second)
    };
    let url = hosts([&one, &two]);
    let connect = || Store::cluster(&*url).connect_timeout(Duration::from_secs(20)).connect();
    let mut tries = 0;
    let error = loop {
        // Who does not answer in time is not compared.
        match connect().await {
            Err(error) => break error,
            Ok(store) => store.close().await.expect("it closes"),
        }
        tries += 1;
        assert!(tries < 20, "nodes of two clusters are not told apart");
    };
    assert!(matches!(&error, ConnectError::AnotherCluster { .. }), "{error}");
    for cluster in [&one, &two] {
        let is_named = |server: &Server| error.to_string().contains(&server.address());
        assert!(cluster.servers().iter().any(is_named), "{error}");
    }

    // It is silent, and speaks again later.
    two.servers().iter().for_each(Server::pause);
    let patience = TxOptions::new().deadline(Duration::from_secs(8));
    let store = connect().await.expect("who is silent is not compared");
    store.counter("k").add(1).await.expect("counted");
    two.servers().iter().for_each(Server::resume);
    one.server_mut(0).kill();
    let add_to_it = |tx: claret::Tx| async move {
        tx.counter("k").get_for_update().await?;
        Ok(tx.counter("k").add(1)?)
    };
    let error = store.tx().options(patience).run(add_to_it).await.expect_err("it is gone");
    assert!(error.to_string().contains("two clusters"), "{error}");
    for node in 0..two.masters() {
        assert_eq!(two.query::<i64>(node, &["DBSIZE"]).expect("a number"), 0);
    }
}

#[tokio::test]
async fn tls_is_spoken_with_servers_whose_certificate_is_trusted() {
    let _limit = super::limit::of_test();
    let folder = std::env::temp_dir().join(format!("claret-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name).display().to_string();
    for name in ["own", "foreign"] {
        let made = rcgen::generate_simple_self_signed(["db.example".to_owned()]).expect("a certificate");
        std::fs::write(file(&format!("{name}.pem")), made.cert.pem()).expect("written");
        std::fs::write(file(&format!("{name}.key")), made.signing_key.serialize_pem()).expect("written");
    }
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let options = Server::options().config(&format!("tls-port {port}")).config("tls-auth-clients no");
    let own = |name: &str| format!("\"{}\"", file(name));
    let options = options.config(&format!("tls-cert-file {}", own("own.pem")));
    let _server = options.config(&format!("tls-key-file {}", own("own.key"))).start().expect("a server");
    let url = |ca: &str, name: &str| {
        format!("rediss://127.0.0.1:{port}/?connect-timeout-ms=1000&tls-ca={}&tls-name={name}", file(ca))
    };
    let plain = Builder::new(url("own.pem", "db.example")).connect().await.expect("trusted");
    let big = "x".repeat(1 << 20);
    plain.ask(Command::new("SET").key("k").arg(big.clone())).await.expect("set");
    assert_eq!(plain.ask(Command::new("GET").key("k")).await, Ok(claret::Reply::Bytes(big.into())));
    for wrong in [url("foreign.pem", "db.example"), url("own.pem", "other.example")] {
        let error = Builder::new(wrong).connect().await.expect_err("not trusted");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// An authority, and certificates that it signed: of the server, of a client; and one that it did not sign.
struct Certificates {
    folder: std::path::PathBuf,
}

impl Certificates {
    fn make() -> Self {
        let folder = std::env::temp_dir().join(format!("claret-mtls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let made = Certificates { folder };
        let params = |name: &str| {
            let mut params = rcgen::CertificateParams::new(vec!["db.example".to_owned()]).expect("a host");
            // One that is named as who signed it is taken for one that signed itself.
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params
        };
        let key = || rcgen::KeyPair::generate().expect("a key");
        let mut authority = params("authority");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(authority, key()).expect("an authority");
        made.write("ca.pem", &authority.as_ref().pem());
        for name in ["server", "client"] {
            let key = key();
            let signed = params(name).signed_by(&key, &authority).expect("signed");
            made.write(&format!("{name}.pem"), &signed.pem());
            made.write(&format!("{name}.key"), &key.serialize_pem());
        }
        let key = key();
        made.write("stranger.pem", &params("stranger").self_signed(&key).expect("signed").pem());
        made.write("stranger.key", &key.serialize_pem());
        made
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }
}

#[tokio::test]
async fn tls_with_a_server_that_asks_for_certificates_takes_those_that_its_authority_signed() {
    let _limit = super::limit::of_test();
    let made = Certificates::make();
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let mut options = Server::options().module(claret_rig::Module::of_sources().expect("the module"));
    for line in ["cluster-enabled yes", "tls-cluster yes", "tls-auth-clients yes"] {
        options = options.config(line);
    }
    for (setting, name) in
        [("tls-ca-cert-file", "ca.pem"), ("tls-cert-file", "server.pem"), ("tls-key-file", "server.key")]
    {
        options = options.config(&format!("{setting} \"{}\"", made.path(name)));
    }
    let server = options.config(&format!("tls-port {port}")).start().expect("a server");
    server.query::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).expect("its slots");
    let serving = || server.info("claret", "claret_serving").expect("its numbers");
    let since = std::time::Instant::now();
    while serving().as_deref() != Some("1") {
        assert!(since.elapsed() < Duration::from_secs(60), "it serves its slots");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let base = format!(
        "rediss://127.0.0.1:{port}/?connect-timeout-ms=5000&tls-name=db.example&tls-ca={}",
        made.path("ca.pem")
    );
    let with =
        |name: &str, key: &str| format!("{base}&tls-cert={}&tls-key={}", made.path(name), made.path(key));
    let read = |name: &str| std::fs::read(made.path(name)).expect("read");
    let by_url = Store::connect(with("client.pem", "client.key")).await.expect("it is known");
    let by_builder = Store::cluster(&base).client_certificate(read("client.pem"), read("client.key"));
    let by_builder = by_builder.connect().await.expect("it is known");
    for store in [by_url, by_builder] {
        let added = store.transaction(|tx| async move { Ok(tx.counter("k").add_returning(1).await?) });
        assert!(added.await.expect("committed") > 0);
        store.close().await.expect("it closes");
    }
    for url in [base.clone(), with("stranger.pem", "stranger.key")] {
        let error = Store::cluster(url).connect_timeout(Duration::from_secs(2)).connect().await;
        let error = error.expect_err("it is not known");
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    }
    // What does not fit together is told before anybody is asked.
    let error = refused(&with("client.pem", "stranger.key")).await;
    assert!(matches!(error, ConnectError::Url { .. }) && error.to_string().contains("tls-key"), "{error}");
    let error = refused(&with("client.key", "client.pem")).await;
    assert!(matches!(error, ConnectError::Url { .. }), "{error}");
    std::fs::remove_dir_all(&made.folder).expect("removed");
}

#[tokio::test]
async fn one_dead_seed_does_not_matter() {
    let _limit = super::limit::of_test();
    let url = shared().url().replace("redis://", "redis://127.0.0.1:1,");
    let store = Store::connect(url).await.expect("a store");
    store.counter(prefix()).add(1).await.expect("counted");
}

#[test]
fn threads_without_a_runtime_have_a_store_too() {
    let _limit = super::limit::of_test();
    let store = blocking::Store::connect(shared().url()).expect("a store");
    let keys = keys(shared());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, keys) = (store.clone(), keys.clone());
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let moved = store.transaction(|tx| {
                        tx.counter(&keys[0]).add(-1)?;
                        tx.counter(&keys[1]).add(1)?;
                        Ok(tx.counter(&keys[0]).get()?)
                    });
                    assert!(moved.expect("moved") < 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("done"));
    assert_eq!(store.counter(&keys[1]).get().expect("read"), 100);
    store.close().expect("it closes");
    assert!(matches!(blocking::Store::connect("redis://127.0.0.1:1"), Err(ConnectError::Unreachable { .. })));
}
