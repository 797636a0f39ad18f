//! [`ObjectStream`]: the operations of one client, and the objects that it owns.

use super::places::wrapped;
use super::{SpatialKind, SpatialMix, SpatialPlaces};
use crate::random::WorkloadRandom;

/// A box: its low corner, then its high corner.
pub type ObjectBox = [[f64; 2]; 2];

/// The settings of objects and queries.
#[derive(Clone, Debug)]
pub struct ObjectConfig {
    /// Where objects and queries are.
    pub places: SpatialPlaces,
    /// How often each kind of operation occurs.
    pub mix: SpatialMix,
    /// Objects of all clients before the run.
    pub entries: u64,
    /// Clients.
    pub clients: u64,
    /// The largest side of an object. 0 for points.
    pub side_max: f64,
    /// The side of a window.
    pub window_side: f64,
    /// The largest step of a move along each axis.
    pub step_max: f64,
    /// Seed of all draws.
    pub seed: u64,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SpatialOperation {
    /// Insert this object.
    Insert {
        /// Its id, which no other object has.
        id: u64,
        /// Its box.
        area: ObjectBox,
    },
    /// Find all objects that meet this window.
    Window {
        /// The window.
        area: ObjectBox,
    },
    /// Find the objects nearest to this point.
    Nearest {
        /// The point.
        point: [f64; 2],
    },
    /// Move this object.
    Move {
        /// Its id.
        id: u64,
        /// Its box before.
        from: ObjectBox,
        /// Its box afterwards.
        to: ObjectBox,
    },
}

impl SpatialOperation {
    /// The kind of the operation.
    pub fn kind(&self) -> SpatialKind {
        match self {
            SpatialOperation::Insert { .. } => SpatialKind::Insert,
            SpatialOperation::Window { .. } => SpatialKind::Window,
            SpatialOperation::Nearest { .. } => SpatialKind::Nearest,
            SpatialOperation::Move { .. } => SpatialKind::Move,
        }
    }
}

/// The operations of one client. All of them follow from the seed and the number of the client.
///
/// The client does one operation after the other. The objects are where the operations drawn so far
/// have put them.
#[derive(Clone, Debug)]
pub struct ObjectStream {
    config: ObjectConfig,
    client: u64,
    random: WorkloadRandom,
    /// The boxes of the client's objects.
    objects: Vec<ObjectBox>,
    /// Operations so far.
    operations: u64,
}

impl ObjectStream {
    /// The stream of client number `client`, from 0, with its share of the first objects.
    pub fn new(config: &ObjectConfig, client: u64) -> ObjectStream {
        let clients = config.clients.max(1);
        let count = config.entries / clients + u64::from(client < config.entries % clients);
        let mut stream = ObjectStream {
            config: ObjectConfig { clients, ..config.clone() },
            client,
            random: WorkloadRandom::for_stream(config.seed, client),
            objects: Vec::new(),
            operations: 0,
        };
        for _ in 0..count {
            let area = stream.new_box();
            stream.objects.push(area);
        }
        stream
    }

    /// The client, out of so many, whose object has this id.
    pub fn client_of(id: u64, clients: u64) -> u64 {
        id % clients
    }

    /// The client's objects, with their ids.
    pub fn objects(&self) -> impl Iterator<Item = (u64, ObjectBox)> {
        let ids = (self.client..).step_by(self.config.clients as usize);
        ids.zip(self.objects.iter().copied())
    }

    /// Draws the next operation. A move without an object is a window instead.
    pub fn draw(&mut self) -> SpatialOperation {
        self.operations += 1;
        match self.config.mix.draw(&mut self.random) {
            SpatialKind::Insert => {
                let (id, area) = (self.id(self.objects.len() as u64), self.new_box());
                self.objects.push(area);
                SpatialOperation::Insert { id, area }
            }
            SpatialKind::Move if !self.objects.is_empty() => {
                let at = self.random.below(self.objects.len() as u64);
                let from = self.objects[at as usize];
                let to = self.moved(from);
                self.objects[at as usize] = to;
                SpatialOperation::Move { id: self.id(at), from, to }
            }
            SpatialKind::Nearest => SpatialOperation::Nearest { point: self.place() },
            SpatialKind::Window | SpatialKind::Move => {
                let ([x, y], half) = (self.place(), self.config.window_side / 2.0);
                SpatialOperation::Window { area: [[x - half, y - half], [x + half, y + half]] }
            }
        }
    }

    fn id(&self, at: u64) -> u64 {
        self.client + at * self.config.clients
    }

    fn place(&mut self) -> [f64; 2] {
        self.config.places.draw(&mut self.random, self.operations)
    }

    fn new_box(&mut self) -> ObjectBox {
        let low = self.place();
        let side = self.config.side_max;
        let high = low.map(|at| at + side * self.random.next_f64());
        [low, high]
    }

    /// The box after a step. Its sides stay as they are, but for rounding.
    fn moved(&mut self, [low, high]: ObjectBox) -> ObjectBox {
        let step = |random: &mut WorkloadRandom, max: f64| max * (2.0 * random.next_f64() - 1.0);
        let max = self.config.step_max;
        let to = low.map(|at| wrapped(at + step(&mut self.random, max)));
        [to, [to[0] + (high[0] - low[0]), to[1] + (high[1] - low[1])]]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config() -> ObjectConfig {
        ObjectConfig {
            places: SpatialPlaces::Uniform,
            mix: SpatialMix::parse("mixed").expect("a mix"),
            entries: 10,
            clients: 3,
            side_max: 0.01,
            window_side: 0.1,
            step_max: 0.02,
            seed: 7,
        }
    }

    #[test]
    fn a_client_knows_where_its_objects_are() {
        let mut all = BTreeMap::new();
        let mut streams: Vec<_> =
            (0..3).map(|client| ObjectStream::new(&config(), client)).collect();
        streams.iter().for_each(|stream| all.extend(stream.objects()));
        assert_eq!(all.len(), 10, "each id once");
        for _ in 0..1_000 {
            for stream in &mut streams {
                match stream.draw() {
                    SpatialOperation::Insert { id, area } => {
                        assert_eq!(all.insert(id, area), None, "a new id");
                    }
                    SpatialOperation::Move { id, from, to } => {
                        assert_eq!(all.insert(id, to), Some(from));
                        assert!(to[0].iter().all(|at| (0.0..1.0).contains(at)), "{to:?}");
                    }
                    SpatialOperation::Window { area: [low, high] } => {
                        assert!(low[0] < high[0] && low[1] < high[1]);
                    }
                    SpatialOperation::Nearest { .. } => {}
                }
            }
        }
        let end: BTreeMap<_, _> = streams.iter().flat_map(|stream| stream.objects()).collect();
        assert_eq!(end, all);
    }

    #[test]
    fn a_seed_and_a_client_give_the_same_operations() {
        let draw = |seed, client| {
            let config = ObjectConfig { seed, ..config() };
            let mut stream = ObjectStream::new(&config, client);
            (0..50).map(|_| stream.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert!(draw(1, 0) != draw(1, 1) && draw(1, 0) != draw(2, 0));
    }

    #[test]
    fn without_objects_nothing_moves() {
        let mix = SpatialMix::parse("move").expect("a mix");
        let mut stream = ObjectStream::new(&ObjectConfig { mix, entries: 0, ..config() }, 0);
        assert_eq!(stream.draw().kind(), SpatialKind::Window);
    }
}
