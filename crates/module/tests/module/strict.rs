//! What the durability `strict` needs of a server, and who may speak for its primary.

use crate::common::beside::{error, ok};
use crate::common::{Server, module};

/// What is refused, and what the log says of it.
fn refused(server: &Server, settings: &str) -> String {
    let load = format!("MODULE LOADEX {}{settings}", module().display());
    let refused = error(&mut server.connect(), &load);
    assert!(refused.contains("Error loading"), "{settings}: {refused}");
    server.log()
}

#[test]
fn what_it_needs_is_said_when_it_is_loaded() {
    let alone = Server::start_without_module();
    let strict = " CONFIG claret.durability strict";
    let log = refused(&alone, strict);
    assert!(log.contains("strict needs a cluster") && log.contains("cluster-enabled yes"), "{log}");
    let secret = alone.dir().join("secret");
    let secret = secret.display();
    let with_secret = format!(" CONFIG claret.peer-secret-file {secret}");
    let log = refused(&alone, &with_secret);
    assert!(log.contains(&format!("cannot read '{secret}'")), "{log}");
    std::fs::write(alone.dir().join("secret"), "fifteen bytes..\n").expect("a file");
    let log = refused(&alone, &with_secret);
    assert!(log.contains("fewer than 16 bytes"), "{log}");
    let cluster = Server::start_in_cluster_without_module();
    let log = refused(&cluster, strict);
    assert!(log.contains("strict needs claret.peer-secret-file"), "{log}");
}

#[test]
fn the_secret_is_shown_nowhere() {
    let server = Server::start_without_module();
    let file = server.dir().join("secret");
    std::fs::write(&file, "sesame opens this one\n").expect("a file");
    let settings = format!(" CONFIG claret.peer-secret-file {}", file.display());
    ok(&mut server.connect(), &format!("MODULE LOADEX {}{settings}", module().display()));
    let shown = format!("{:?}", ok(&mut server.connect(), "CONFIG GET claret.*"));
    assert!(shown.contains("peer-secret-file") && !shown.contains("sesame"), "{shown}");
    assert!(!server.log().contains("sesame"));
}

/// It would make a replica forget what its primary told it.
#[test]
fn a_client_tells_no_changes() {
    let server = Server::start(&[]);
    let refused = error(&mut server.connect(), "CLARET.CHANGES 1 node 1 1 x");
    assert!(refused.contains("only a primary of this module"), "{refused}");
}
