//! The addresses of a target. They may change during a run: another thread looks the name up, and
//! the workers notice the change.

use eventloop::Address;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Each label has a histogram of 270 kB in every worker, so further addresses share the last one.
const MAX_LABELS: usize = 200;
const OTHERS: &str = "other addresses";

/// The index of the label of an address.
#[inline]
pub(crate) fn label_of(number: u32) -> usize {
    (number as usize).min(MAX_LABELS - 1)
}

/// The addresses of the hosts of a run, shared by whoever looks them up and the workers.
#[derive(Debug, Clone)]
pub struct AddressBook(Arc<AddressTable>);

/// What the handles ([`AddressBook`]) share.
#[derive(Debug)]
struct AddressTable {
    /// Increases whenever the lists change.
    generation: AtomicU64,
    lists: Mutex<Lists>,
    /// Whether requests are counted by address.
    is_counted: bool,
}

#[derive(Debug, Clone, Default)]
struct Lists {
    /// Every address there has been. Its index is its number, which never changes.
    known: Vec<Address>,
    /// By host, the numbers of those in use.
    current: Vec<Vec<u32>>,
}

impl AddressBook {
    /// A book with these addresses, at least one. Requests are counted by address if there are
    /// several, or if they may change.
    #[must_use]
    pub fn new(addresses: Vec<Address>, may_change: bool) -> Self {
        Self::of_hosts(vec![addresses], may_change)
    }

    /// A book with the addresses of several hosts, at least one of each.
    #[must_use]
    pub fn of_hosts(hosts: Vec<Vec<Address>>, may_change: bool) -> Self {
        let is_counted = may_change || hosts.len() > 1 || hosts.iter().any(|it| it.len() > 1);
        let mut lists = Lists::default();
        for (host, addresses) in hosts.into_iter().enumerate() {
            lists.replace(host, addresses);
        }
        Self(Arc::new(AddressTable {
            generation: AtomicU64::new(0),
            lists: Mutex::new(lists),
            is_counted,
        }))
    }

    /// Number of hosts that the requests of the run go to.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.lock().current.len() as u32
    }

    /// Uses these addresses of the first host from now on; an empty list changes nothing. Returns
    /// whether they differ from those before. Connections to other addresses are closed after their
    /// responses.
    pub fn replace(&self, addresses: Vec<Address>) -> bool {
        let mut lists = self.lock();
        let has_changed = !addresses.is_empty() && lists.replace(0, addresses);
        if has_changed {
            self.0.generation.fetch_add(1, Ordering::Release);
        }
        has_changed
    }

    /// Whether one of these addresses of the first host is in use.
    #[must_use]
    pub fn is_using_any(&self, addresses: &[Address]) -> bool {
        let lists = self.lock();
        let mut current = lists.current.iter().take(1).flatten();
        current.any(|number| addresses.contains(&lists.known[*number as usize]))
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists {
    /// Replaces the addresses in use. Those that were in use before keep their order, because DNS
    /// servers often rotate theirs.
    fn replace(&mut self, host: usize, addresses: Vec<Address>) -> bool {
        if self.current.len() <= host {
            self.current.resize(host + 1, Vec::new());
        }
        let current = &mut self.current[host];
        let before = current.clone();
        let known = &self.known;
        current.retain(|number| addresses.contains(&known[*number as usize]));
        for address in addresses {
            let number = match self.known.iter().position(|known| *known == address) {
                Some(number) => number as u32,
                None => {
                    self.known.push(address);
                    self.known.len() as u32 - 1
                }
            };
            if !current.contains(&number) {
                current.push(number);
            }
        }
        *current != before
    }
}

/// The addresses as one worker knows them.
#[derive(Debug)]
pub(crate) struct WorkerAddresses {
    book: AddressBook,
    generation: u64,
    lists: Lists,
    /// By number: connections of this worker that have the address.
    connections: Vec<u32>,
}

/// The number that stands for no address.
pub(crate) const NO_ADDRESS: u32 = u32::MAX;

impl WorkerAddresses {
    pub(crate) fn new(book: AddressBook) -> Self {
        let lists = book.lock().clone();
        Self {
            generation: book.0.generation.load(Ordering::Acquire),
            book,
            connections: vec![0; lists.known.len()],
            lists,
        }
    }

    /// Takes over the lists if they have changed. Returns whether they have.
    #[inline]
    pub(crate) fn refresh(&mut self) -> bool {
        let generation = self.book.0.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return false;
        }
        self.generation = generation;
        self.lists = self.book.lock().clone();
        self.connections.resize(self.lists.known.len(), 0);
        true
    }

    /// Uses only this address from now on: the choice of a script.
    pub(crate) fn set(&mut self, address: Address) {
        self.lists.replace(0, vec![address]);
        self.connections.resize(self.lists.known.len(), 0);
    }

    /// The number of the address for a connection to this host that had `before`: the same, unless
    /// it is no longer used or others have fewer connections. The first of equals is the one that
    /// this number of the connection in the run falls on, so that all workers together are even,
    /// too.
    pub(crate) fn assign(&mut self, before: u32, host: u32, connection: u64) -> u32 {
        let Self {
            lists, connections, ..
        } = self;
        let current = &lists.current[host as usize];
        let had = match connections.get_mut(before as usize) {
            Some(count) => {
                *count = count.saturating_sub(1);
                current.contains(&before).then_some(before)
            }
            None => None,
        };
        let first = (connection % current.len().max(1) as u64) as usize;
        let (behind, ahead) = current.split_at(first);
        let fewest = ahead.iter().chain(behind).copied();
        let fewest = fewest.min_by_key(|number| connections[*number as usize]);
        let fewest = fewest.unwrap_or_default();
        let has_fewest =
            |number: &u32| connections[*number as usize] <= connections[fewest as usize];
        let number = had.filter(has_fewest).unwrap_or(fewest);
        connections[number as usize] += 1;
        number
    }

    /// All addresses that are known.
    pub(crate) fn count(&self) -> usize {
        self.lists.known.len()
    }

    pub(crate) fn get(&self, number: u32) -> &Address {
        &self.lists.known[number as usize]
    }

    /// Whether connections to this address of a host are kept.
    pub(crate) fn is_current(&self, host: u32, number: u32) -> bool {
        self.lists.current[host as usize].contains(&number)
    }

    /// The labels under which requests are counted, by number. Empty if they are not.
    pub(crate) fn labels(&self) -> impl Iterator<Item = String> {
        let counted = if self.book.0.is_counted {
            self.lists.known.len()
        } else {
            0
        };
        let own = &self.lists.known[..counted.min(MAX_LABELS - 1)];
        let labels = own.iter().map(|address| match address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => path.display().to_string(),
        });
        labels.chain((counted > own.len()).then(|| OTHERS.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ports: &[u16]) -> Vec<Address> {
        let address = |port: &u16| Address::Tcp(([127, 0, 0, 1], *port).into());
        ports.iter().map(address).collect()
    }

    #[test]
    fn connections_are_spread_evenly_and_numbers_never_change() {
        let book = AddressBook::new(addresses(&[1, 2, 3]), true);
        let mut mine = WorkerAddresses::new(book.clone());
        let mut chosen: Vec<u32> = (0..7).map(|key| mine.assign(NO_ADDRESS, 0, key)).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(mine.assign(2, 0, 9), 2, "a connection keeps its address");
        assert!(
            !book.replace(addresses(&[3, 1, 2])),
            "only the order is another"
        );
        assert!(!book.replace(Vec::new()) && !mine.refresh());
        assert!(book.replace(addresses(&[4, 3])));
        assert!(mine.refresh() && !mine.refresh());
        for (key, number) in (0..).zip(&mut chosen) {
            *number = mine.assign(*number, 0, key);
        }
        chosen.sort_unstable();
        assert_eq!(chosen, [2, 2, 2, 2, 3, 3, 3], "{chosen:?}");
        assert!(!mine.is_current(0, 0) && mine.is_current(0, 2));
        let labels: Vec<String> = mine.labels().collect();
        assert_eq!(labels.last().map(String::as_str), Some("127.0.0.1:4"));
        assert_eq!(labels.len(), 4);
    }

    #[test]
    fn workers_together_spread_their_connections_evenly() {
        for (workers, each, count) in [(3, 2, 3), (2, 3, 2), (3, 2, 4), (4, 5, 3), (1, 7, 2)] {
            let ports: Vec<u16> = (1..=count).collect();
            let book = AddressBook::new(addresses(&ports), false);
            let mut of_address = vec![0; usize::from(count)];
            for worker in 0..workers {
                let mut mine = WorkerAddresses::new(book.clone());
                for key in 0..each {
                    let number = mine.assign(NO_ADDRESS, 0, key * workers + worker);
                    of_address[number as usize] += 1;
                }
            }
            let (least, most) = (of_address.iter().min(), of_address.iter().max());
            let spread = most.zip(least).map(|(most, least)| most - least);
            assert!(spread <= Some(1), "{workers} x {each}: {of_address:?}");
        }
    }

    #[test]
    fn hosts_have_addresses_of_their_own_and_may_share_one() {
        let hosts = vec![addresses(&[1, 2]), addresses(&[2]), addresses(&[3])];
        let mut mine = WorkerAddresses::new(AddressBook::of_hosts(hosts, false));
        let mut chosen = |host, key| mine.assign(NO_ADDRESS, host, key);
        assert_eq!((chosen(0, 0), chosen(1, 0), chosen(2, 0)), (0, 1, 2));
        assert_eq!(chosen(1, 1), 1, "the second host has only one");
        assert!(mine.is_current(1, 1) && !mine.is_current(1, 0));
        assert_eq!(mine.labels().count(), 3);
    }

    #[test]
    fn addresses_beyond_the_most_share_a_label() {
        let ports: Vec<u16> = (1..=300).collect();
        let mine = WorkerAddresses::new(AddressBook::new(addresses(&ports), false));
        let labels: Vec<String> = mine.labels().collect();
        assert_eq!((labels.len(), labels[199].as_str()), (200, OTHERS));
        assert_eq!(
            (label_of(198), label_of(199), label_of(299)),
            (198, 199, 199)
        );
    }

    #[test]
    fn a_single_address_that_cannot_change_is_not_counted() {
        let mine = WorkerAddresses::new(AddressBook::new(addresses(&[1]), false));
        assert_eq!(mine.labels().count(), 0);
    }
}
