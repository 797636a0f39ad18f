//! A terminal: its home, and the stream of its transactions.

use std::num::NonZeroU8;
use std::ops::RangeInclusive;

use latchwork_strict::strict_assert;

use super::TransactionKind;
use super::input::{
    CustomerChoice, DeliveryInput, LINES_MAX, LastName, NewOrderInput, NewOrderLine,
    OrderStatusInput, PaymentInput, StockLevelInput, TpccTransaction,
};
use super::mix::{Mix, MixChoice, Weights};
use super::scale::{DISTRICTS, Scale, warehouses};
use super::values::{Constants, NonUniform, uniform};
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// Which lines of new orders another warehouse supplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteLines {
    /// Each line independently with this probability. The standard's is 1 % (clause 2.4.1.5).
    PerLine {
        /// 0 to 100.
        percent: u8,
    },
    /// This percentage of the orders has exactly one such line, and the other orders have none: the
    /// ratio of distributed transactions (SELCC 7.3.2). The supplying warehouse belongs to another
    /// shard.
    PerOrder {
        /// 0 to 100.
        percent: u8,
        /// The number of consecutive warehouses that form a shard.
        shard: u32,
    },
}

/// The common settings of all terminals of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InputSettings {
    /// The database's scale.
    pub scale: Scale,
    /// The number of warehouses of the database.
    pub warehouses: u32,
    /// The run's constants C.
    pub constants: Constants,
    /// The mix.
    pub weights: Weights,
    /// How a terminal chooses the type of its next transaction.
    pub choice: MixChoice,
    /// Which lines another warehouse supplies.
    pub remote_lines: RemoteLines,
    /// The percentage of payments by customers of other warehouses. The standard's is 15 (clause
    /// 2.5.1.2).
    pub remote_payments_percent: u8,
}

impl InputSettings {
    /// The standard's settings for a run with `seed` on a database that was populated with `load`.
    pub fn standard(scale: Scale, warehouses: u32, load: Constants, seed: u64) -> InputSettings {
        InputSettings {
            scale,
            warehouses,
            constants: Constants::for_run(load, seed),
            weights: Weights::default(),
            choice: MixChoice::default(),
            remote_lines: RemoteLines::PerLine { percent: 1 },
            remote_payments_percent: 15,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Fails without warehouses and with more than 100 %. Fails with distributed orders if `shard`
    /// is 0 or all warehouses are in one shard.
    pub fn check(&self) -> Result<(), WorkloadError> {
        warehouses(self.warehouses)?;
        let percent = match self.remote_lines {
            RemoteLines::PerLine { percent } => percent,
            RemoteLines::PerOrder { percent, shard } => {
                if percent > 0 && (shard == 0 || shard >= self.warehouses) {
                    return Err(WorkloadError::Conflict(format!(
                        "a distribution ratio of {percent} % with {} warehouses in shards of {shard}: \
                         give 0, or at least two shards of one warehouse",
                        self.warehouses
                    )));
                }
                percent
            }
        };
        match percent.max(self.remote_payments_percent) {
            0..=100 => Ok(()),
            above => Err(WorkloadError::Conflict(format!(
                "{above} % of the transactions cannot be remote: give 0 to 100"
            ))),
        }
    }
}

/// The home of a terminal: the warehouse and the district of its transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Home {
    /// One district, as in the standard: ten terminals in each warehouse, one in each district
    /// (clauses 2.8.1.1 and 4.2.2).
    District {
        /// The warehouse.
        warehouse: u32,
        /// The district.
        district: u8,
    },
    /// Each transaction takes a random warehouse of this range and a random district. This is for
    /// runs with fewer workers than warehouses.
    Anywhere(RangeInclusive<u32>),
}

impl Home {
    /// The home of terminal `number`, from 0, of `count` terminals that share the warehouses
    /// `among`.
    ///
    /// With at least as many terminals as warehouses, each terminal gets a district; up to ten
    /// terminals per warehouse get different districts. With fewer terminals, each gets its share
    /// of the warehouses. The caller has a terminal, so `count` is at least 1.
    pub fn of_terminal(number: u32, count: u32, among: RangeInclusive<u32>) -> Home {
        let (first, warehouses) = (*among.start(), among.count() as u32);
        if count >= warehouses {
            let district = (number / warehouses.max(1)) % u32::from(DISTRICTS);
            let warehouse = first + number % warehouses.max(1);
            return Home::District { warehouse, district: district as u8 + 1 };
        }
        strict_assert!(number < count, "terminal {number} is not one of {count}");
        let count = count.max(1);
        let edge = |at: u32| (u64::from(at) * u64::from(warehouses) / u64::from(count)) as u32;
        let number = number % count;
        Home::Anywhere(first + edge(number)..=first + edge(number + 1) - 1)
    }
}

/// An endless source of transactions with their input.
///
/// ```
/// use latchwork_workload::tpcc::{Home, InputSettings, Population, Scale, Terminal};
///
/// let population = Population::new(Scale::default(), 4, 42, 1)?;
/// let settings = InputSettings::standard(Scale::default(), 4, population.constants(), 7);
/// let home = Home::of_terminal(0, 40, 1..=4);
/// let mut terminal = Terminal::new(settings, home, 7, 0)?;
/// assert_eq!(terminal.next_transaction().home(), 1);
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Terminal {
    settings: InputSettings,
    home: Home,
    mix: Mix,
    last_names: NonUniform,
    customers: NonUniform,
    items: NonUniform,
    random: WorkloadRandom,
}

impl Terminal {
    /// Terminal `number` of a run with `seed`.
    ///
    /// # Errors
    ///
    /// Fails when the settings are impossible.
    pub fn new(
        settings: InputSettings,
        home: Home,
        seed: u64,
        number: u32,
    ) -> Result<Terminal, WorkloadError> {
        settings.check()?;
        Ok(Terminal {
            settings,
            home,
            mix: Mix::new(settings.weights, settings.choice),
            last_names: settings.constants.last_names(settings.scale),
            customers: settings.constants.customers(settings.scale),
            items: settings.constants.items(settings.scale),
            random: WorkloadRandom::for_stream(seed, u64::from(number)),
        })
    }

    /// The terminal's own random generator, for its think times.
    pub fn random(&mut self) -> &mut WorkloadRandom {
        &mut self.random
    }

    /// The next transaction.
    #[inline]
    pub fn next_transaction(&mut self) -> TpccTransaction {
        let warehouse = match &self.home {
            Home::District { warehouse, .. } => *warehouse,
            Home::Anywhere(among) => uniform(&mut self.random, *among.start(), *among.end()),
        };
        match self.mix.draw(&mut self.random) {
            TransactionKind::NewOrder => TpccTransaction::NewOrder(self.new_order(warehouse)),
            TransactionKind::Payment => TpccTransaction::Payment(self.payment(warehouse)),
            TransactionKind::OrderStatus => {
                let district = self.district();
                let customer = self.customer();
                TpccTransaction::OrderStatus(OrderStatusInput { warehouse, district, customer })
            }
            TransactionKind::Delivery => {
                let carrier = uniform(&mut self.random, 1, 10) as u8;
                let carrier = NonZeroU8::new(carrier).unwrap_or(NonZeroU8::MIN);
                TpccTransaction::Delivery(DeliveryInput { warehouse, carrier })
            }
            TransactionKind::StockLevel => {
                let district = match self.home {
                    Home::District { district, .. } => district,
                    Home::Anywhere(_) => self.district(),
                };
                let threshold = uniform(&mut self.random, 10, 20) as i16;
                TpccTransaction::StockLevel(StockLevelInput { warehouse, district, threshold })
            }
        }
    }

    fn percent(&mut self, percent: u8) -> bool {
        self.random.below(100) < u64::from(percent)
    }

    fn district(&mut self) -> u8 {
        uniform(&mut self.random, 1, u32::from(DISTRICTS)) as u8
    }

    /// A customer, by last name with a probability of 60 % (clauses 2.5.1.2 and 2.6.1.2).
    fn customer(&mut self) -> CustomerChoice {
        if self.percent(60) {
            let number = self.last_names.draw(&mut self.random);
            CustomerChoice::LastName(LastName::of_number(number))
        } else {
            CustomerChoice::Number(self.customers.draw(&mut self.random))
        }
    }

    /// A random warehouse outside the shard of `home`, where a shard has `shard` warehouses. `home`
    /// if there is no other warehouse.
    fn other_warehouse(&mut self, home: u32, shard: u32) -> u32 {
        let block = (home - 1) / shard * shard;
        let inside = shard.min(self.settings.warehouses - block);
        let outside = self.settings.warehouses - inside;
        if outside == 0 {
            return home;
        }
        match uniform(&mut self.random, 1, outside) {
            before if before <= block => before,
            behind => behind + inside,
        }
    }

    fn new_order(&mut self, warehouse: u32) -> NewOrderInput {
        let district = self.district();
        let customer = self.customers.draw(&mut self.random);
        let line_count = uniform(&mut self.random, 5, LINES_MAX as u32) as u8;
        let rolls_back = self.percent(1);
        let remote_lines = self.settings.remote_lines;
        let distributed = match remote_lines {
            RemoteLines::PerOrder { percent, shard } if self.percent(percent) => {
                Some((self.random.below(u64::from(line_count)) as usize, shard))
            }
            _ => None,
        };
        let mut lines = [NewOrderLine::default(); LINES_MAX];
        for (at, line) in lines[..usize::from(line_count)].iter_mut().enumerate() {
            let supply_warehouse = match (remote_lines, distributed) {
                (RemoteLines::PerLine { percent }, _) if self.percent(percent) => {
                    self.other_warehouse(warehouse, 1)
                }
                (_, Some((remote, shard))) if remote == at => {
                    self.other_warehouse(warehouse, shard)
                }
                _ => warehouse,
            };
            let item = self.items.draw(&mut self.random);
            let quantity = uniform(&mut self.random, 1, 10) as u8;
            *line = NewOrderLine { item, supply_warehouse, quantity };
        }
        if rolls_back {
            lines[usize::from(line_count) - 1].item = self.settings.scale.items() + 1;
        }
        NewOrderInput { warehouse, district, customer, rolls_back, lines, line_count }
    }

    fn payment(&mut self, warehouse: u32) -> PaymentInput {
        let district = self.district();
        let remote = self.percent(self.settings.remote_payments_percent);
        let (customer_warehouse, customer_district) = match self.settings.warehouses {
            2.. if remote => (self.other_warehouse(warehouse, 1), self.district()),
            _ => (warehouse, district),
        };
        PaymentInput {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer(),
            amount_cents: uniform(&mut self.random, 100, 500_000) as i32,
        }
    }
}
