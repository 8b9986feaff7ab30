//! Whose keys are whose, and what a user tries to do with those that are not its own.

use claret_rig::slot_of;

use super::dice::Dice;

/// What the user may read and write begins so. What stands beside a top list has the name in braces.
pub(crate) const OWN: &str = "eve:";

/// So many keys the user has: more commands meet on fewer, and one that waits in vain takes a tick of the module's clock.
const OWN_KEYS: usize = 40;

/// Keys of one slot, so that commands may have several.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    tag: String,
    own: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
}

impl Keys {
    /// Keys of a slot that a node with the lower half of the slots serves.
    pub(crate) fn new() -> Keys {
        let tag = (0..)
            .map(|number| format!("{{t{number}}}"))
            .find(|tag| slot_of(tag) < 8_192)
            .expect("one of two is");
        let named = |name: &str| format!("{name}{tag}").into_bytes();
        let own = (0..OWN_KEYS).map(|number| named(&format!("{OWN}{number}:"))).collect();
        let mut others: Vec<Vec<u8>> = SENTINELS.iter().map(|(name, _)| named(name)).collect();
        others.extend([
            named("bank:0"),
            named("bank:1"),
            named("nobody:"),
            Vec::new(),
            b"eve:elsewhere".to_vec(),
        ]);
        others.push(vec![b'k'; 3_000]);
        Keys { tag, own, others }
    }

    /// The name of a key in the slot.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{name}{}", self.tag)
    }

    /// Mostly one of the user's own.
    pub(crate) fn one(&self, dice: &mut Dice) -> Vec<u8> {
        if dice.once_in(40) { dice.pick(&self.others).clone() } else { dice.pick(&self.own).clone() }
    }

    pub(crate) fn own(&self) -> &[Vec<u8>] {
        &self.own
    }

    /// Whether somebody with no other rights than the user may have made a key of this name.
    pub(crate) fn may_be_the_users(key: &[u8]) -> bool {
        [OWN, "{eve:", "write:", "{write:"].iter().any(|prefix| key.starts_with(prefix.as_bytes()))
    }
}

/// Keys that the user may not write, and what makes them. The user may read those that begin with `read:`.
pub(crate) const SENTINELS: [(&str, &str); 9] = [
    ("other:string:", "SET KEY value"),
    ("other:number:", "SET KEY 7"),
    ("other:list:", "RPUSH KEY a b c"),
    ("other:set:", "SADD KEY a b c"),
    ("other:hash:", "HSET KEY f v g w"),
    ("other:zset:", "ZADD KEY 1 a 2 b"),
    ("read:string:", "SET KEY value"),
    ("read:list:", "RPUSH KEY 1 2 3"),
    ("read:zset:", "ZADD KEY 1 a 2 b"),
];
