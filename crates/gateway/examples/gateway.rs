//! A gateway as small as it gets: `gateway STORE-URL PORT`. It prints a line when it listens, and ends on the end of its input.
//! `claret gateway` has all settings.

use std::error::Error;
use std::io::Read;
use std::net::TcpListener;

use claret::Store;
use claret_gateway::{Behind, Door, Gateway, GatewayHandle};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, url, port] = &words[..] else { return Err("gateway STORE-URL PORT".into()) };
    let door = Door::Tcp(TcpListener::bind(("127.0.0.1", port.parse()?))?);
    let handle = GatewayHandle::default();
    let end = handle.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        end.stop();
    });
    let behind = Behind::Servers(Box::new(Store::cluster(url)));
    Gateway::new(behind).logger(|line| eprintln!("{line}")).run(vec![door], &handle, || println!("ready"))?;
    Ok(())
}
