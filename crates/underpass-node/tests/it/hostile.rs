//! A domain that writes anything into its page, and sends anything over its socket.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use underpass_harness::alone;
use underpass_node::NAME;
use underpass_node::page::layout::{LAYOUT_VERSION, LEN, SERVER, TransferKind, at, head, row};
use underpass_node::page::{PageLink, PageView, PageWords, take};
use underpass_node::server::{NodeServer, NodeServerEnd, ask_status};
use underpass_os::futex::{self, FutexScope};
use underpass_os::{Directory, Memory, MemoryWindows, Socket, published};

/// Far longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Checks again and again until `found` returns something.
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what} does not come");
        thread::yield_now();
    }
}

/// A server of two processors in a directory of its own.
struct Node {
    path: PathBuf,
    ended: Receiver<NodeServerEnd>,
}

fn run(server: NodeServer, end: Sender<NodeServerEnd>) {
    thread::spawn(move || end.send(server.run()));
}

impl Node {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("underpass-hostile-{}-{number}", std::process::id()));
        let (end, ended) = channel();
        run(NodeServer::start(&Directory::at(&path), 2, false, None).unwrap(), end);
        Self { path, ended }
    }

    fn status(&self) -> String {
        ask_status(&Directory::at(&self.path), LIMIT).unwrap()
    }

    /// Ends the server, which must have lived until now.
    fn end(self) {
        let next = NodeServer::start(&Directory::at(&self.path), 2, true, None).unwrap();
        assert_eq!(self.ended.recv_timeout(LIMIT), Ok(NodeServerEnd::Replaced));
        drop(next);
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The server's page, for reading.
struct ServerPage(MemoryWindows);

impl PageView for ServerPage {
    fn read(&self, number: usize) -> u64 {
        self.0.load(0, number)
    }
}

/// A registered domain, played by hand.
struct Played {
    socket: Socket,
    page: Memory,
    server: ServerPage,
    place: usize,
    generation: u32,
}

impl Played {
    fn register(node: &Node, weight: u32) -> Self {
        let socket = Socket::connect(&Directory::at(&node.path), NAME).unwrap();
        let words = [1, LAYOUT_VERSION, weight, 0, 8, 0];
        socket.send(&words.map(u32::to_ne_bytes).concat(), &[]).unwrap();
        let mut buffer = [0; 64];
        let got = until("the welcome", || socket.receive(&mut buffer).ok());
        let word = |n: usize| u32::from_ne_bytes(buffer[4 * n..4 * n + 4].try_into().unwrap());
        let (place, generation) = (word(1) as usize, word(2));
        let page = published::adopt_to_write(got.files[0].as_fd(), LEN).unwrap();
        let server = ServerPage(MemoryWindows::new(1, LEN).unwrap());
        server.0.show(0, got.files[1].as_fd()).unwrap();
        assert!(published::adopt_to_write(got.files[1].as_fd(), LEN).is_err(), "that page is the server's");
        socket.send(&3_u32.to_ne_bytes(), &[]).unwrap();
        let played = Self { socket, page, server, place, generation };
        until("its row", || played.link());
        played
    }

    fn link(&self) -> Option<PageLink> {
        PageLink::read(&self.page, self.place, self.generation, SERVER)
    }

    /// Wants so many processors.
    fn wants(&self, processors: u64) {
        self.page.word(head::READY).store(processors, Ordering::Release);
        self.page.word(head::WAITING_SINCE).store(1, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        self.page.word(at(SERVER, row::BELL)).fetch_add(1, Ordering::Release);
        futex::wake(self.page.futex(at(SERVER, row::BELL)), FutexScope::Shared, 1);
    }

    /// Takes one processor that the server has given, if there is one.
    fn takes(&self) -> Option<()> {
        let link = self.link()?;
        take(&self.page, &self.server, &link, TransferKind::Kept, 2).then_some(())
    }
}

/// Numbers without an order.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 ^ self.0 >> 29
    }
}

#[test]
fn a_domain_that_writes_anything_costs_others_nothing_in_the_end() {
    alone!();
    let node = Node::new();
    let honest = Played::register(&node, 7);
    let liar = Played::register(&node, 9);
    honest.wants(1);
    until("the honest domain's processor", || honest.takes());
    let mut noise = Noise(1);
    for round in 0..2000 {
        for _ in 0..50 {
            let number = noise.next() as usize % (LEN / 8);
            let value = match round % 3 {
                0 => noise.next(),
                1 => u64::MAX,
                // Words that look right.
                _ => (noise.next() % 4) | (u64::from(liar.generation) << 32),
            };
            liar.page.word(number).store(value, Ordering::Release);
        }
        liar.ring();
    }
    // The server lives, and has all of its processors again once the liar is gone.
    assert!(node.status().contains("\"weight\":9"));
    liar.socket.hang_up();
    until("the liar's end", || (!node.status().contains("\"weight\":9")).then_some(()));
    honest.wants(1);
    until("the other processor", || {
        honest.ring();
        let taken = honest.takes();
        taken.or_else(|| node.status().contains("\"processors\":2,\"temporary\":0,").then_some(()))
    });
    node.end();
}

#[test]
fn messages_that_are_none_end_the_connection_alone() {
    alone!();
    let node = Node::new();
    let honest = Played::register(&node, 7);
    for bytes in [&[][..], &[1], &[0; 4], &[255; 64], &[1; 5000]] {
        let socket = Socket::connect(&Directory::at(&node.path), NAME).unwrap();
        let _ = socket.send(bytes, &[]);
        if !bytes.is_empty() {
            let mut buffer = [0; 64];
            let got = until("its end", || socket.receive(&mut buffer).ok());
            assert_eq!(got.len, 0, "{} bytes", bytes.len());
        }
    }
    // One that registers twice gets no second page.
    let words = [1, LAYOUT_VERSION, 1, 0, 8, 0];
    honest.socket.send(&words.map(u32::to_ne_bytes).concat(), &[]).unwrap();
    until("the server to end it", || (!node.status().contains("\"weight\":7")).then_some(()));
    node.end();
}

#[test]
fn there_is_room_for_as_many_domains_as_places() {
    alone!();
    use underpass_node::page::layout::PLACES;
    let node = Node::new();
    let mut all: Vec<_> = (1..PLACES).map(|_| Played::register(&node, 1)).collect();
    let mut places: Vec<_> = all.iter().map(|played| played.place).collect();
    places.sort_unstable();
    assert!(places.into_iter().eq(1..PLACES));
    // One more is refused, and gets a place when another domain has ended.
    let socket = Socket::connect(&Directory::at(&node.path), NAME).unwrap();
    let words = [1, LAYOUT_VERSION, 1, 0, 8, 0];
    socket.send(&words.map(u32::to_ne_bytes).concat(), &[]).unwrap();
    let mut buffer = [0; 64];
    until("the refusal", || socket.receive(&mut buffer).ok());
    assert_eq!(buffer[0], 6);
    let gone = all.swap_remove(5);
    let before = (gone.place, gone.generation);
    drop(gone);
    let next = until("the place", || {
        let shown = node.status().matches("\"pid\"").count();
        (shown == PLACES - 2).then(|| Played::register(&node, 1))
    });
    assert!(next.place == before.0 && next.generation != before.1);
    node.end();
}
