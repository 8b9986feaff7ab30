//! What a node with the module says to a client's hello.

use claret_rig::fake::{Asked, Say};

/// What a node with the module, whose shard this is, says to the halves of a hello.
pub(crate) fn hello(asked: &Asked, shard: u32) -> Say {
    hello_of(asked, shard, "async")
}

/// The same with that durability.
pub(crate) fn hello_of(asked: &Asked, shard: u32, durability: &str) -> Say {
    let version = claret_core::wire::VERSION;
    let begin = format!("$4\r\nwire\r\n:{version}\r\n$5\r\nshard\r\n:{shard}\r\n");
    Say::Text(match asked.arguments.iter().any(|word| word == "PROOF") {
        false => format!("*6\r\n{begin}$9\r\nchallenge\r\n$64\r\n{}\r\n", "0".repeat(64)),
        true => format!(
            "*14\r\n{begin}$11\r\nincarnation\r\n:1\r\n$8\r\nlease_us\r\n:10000000\r\n$4\r\npush\r\n:1\r\n\
             $5\r\nbears\r\n:{shard}\r\n$10\r\ndurability\r\n${}\r\n{durability}\r\n",
            durability.len()
        ),
    })
}
