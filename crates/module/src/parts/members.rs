//! Who is in the cluster, and who follows whom, as `CLUSTER NODES` says.

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// The id of this node on the cluster bus.
    pub(crate) own: String,
    /// Whom this node follows, as a replica.
    pub(crate) follows: Option<String>,
    /// The replicas of this node, connected or not: the id and the address of each.
    pub(crate) followers: Vec<(String, String)>,
    /// All others.
    pub(crate) others: Vec<String>,
}

impl Members {
    pub(crate) fn parse(listing: &str) -> Members {
        let lines = listing.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let (id, address, flags, follows) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let address = address.split(['@', ',']).next().unwrap_or_default();
            Some((id, address, flags.split(',').collect::<Vec<_>>(), follows))
        });
        let lines: Vec<_> = lines.collect();
        let mut members = Members::default();
        for (id, _, flags, follows) in &lines {
            if flags.contains(&"myself") {
                members.own = (*id).to_owned();
                members.follows = (*follows != "-").then(|| (*follows).to_owned());
            } else if !flags.contains(&"handshake") {
                members.others.push((*id).to_owned());
            }
        }
        let followers =
            lines.iter().filter(|(.., follows)| !members.own.is_empty() && *follows == members.own);
        members.followers =
            followers.map(|(id, address, ..)| ((*id).to_owned(), (*address).to_owned())).collect();
        members
    }

    /// Whether it is a node of the cluster, this one or another.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.own == id || self.others.iter().any(|other| other == id)
    }
}

#[cfg(test)]
mod tests {
    use super::Members;

    #[test]
    fn a_listing_says_who_follows_whom() {
        let listing = "\
            aa h:1@2 myself,master - 0 1 1 connected 5-10\n\
            bb h:2@3 slave aa 0 1 1 connected\n\
            cc h:3@4 slave,fail aa 0 1 1 disconnected\n\
            dd h:4@5 slave ee 0 1 1 connected\n\
            ee h:5@6 master - 0 1 1 connected 0-4\n\
            ff h:6@7 handshake - 0 1 1 connected\n";
        let members = Members::parse(listing);
        assert_eq!((members.own.as_str(), &members.follows), ("aa", &None));
        let followers =
            [("bb", "h:2"), ("cc", "h:3")].map(|(id, address)| (id.to_owned(), address.to_owned()));
        assert_eq!(members.followers, followers, "who does not answer follows still");
        assert_eq!(members.others, ["bb", "cc", "dd", "ee"]);
        assert!(members.has("aa") && members.has("dd") && !members.has("ff"));
        let at_bb =
            Members::parse("aa h:1@2 master - 0 1 1 connected\nbb h:2@3 myself,slave aa 0 1 1 connected\n");
        assert_eq!(at_bb.follows.as_deref(), Some("aa"));
        assert!(at_bb.followers.is_empty());
        assert_eq!(Members::parse("rubbish\n\n"), Members::default());
    }
}
