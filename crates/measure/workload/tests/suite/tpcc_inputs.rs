//! The inputs that terminals generate have the distributions that clause 2 prescribes.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_workload::random::WorkloadRandom;
use latchwork_workload::tpcc::values::{Constants, NonUniform, push_last_name};
use latchwork_workload::tpcc::{
    CustomerChoice, Home, InputSettings, LastName, NewOrderInput, PaymentInput, RemoteLines, Scale,
    StockLevelInput, Terminal, TpccTransaction, TransactionKind, Weights,
};

const LOAD: Constants = Constants { last_name: 100, customer: 5, item: 6 };

fn settings(kind: TransactionKind, warehouses: u32) -> InputSettings {
    let mut settings = InputSettings::standard(Scale::default(), warehouses, LOAD, 11);
    settings.weights = Weights::only(kind);
    settings
}

fn terminal(settings: InputSettings) -> Terminal {
    let home = Home::District { warehouse: 2.min(settings.warehouses), district: 7 };
    Terminal::new(settings, home, 11, 0).unwrap()
}

fn new_orders(settings: InputSettings, count: usize) -> Vec<NewOrderInput> {
    let mut terminal = terminal(settings);
    let next = || match terminal.next_transaction() {
        TpccTransaction::NewOrder(input) => input,
        other => panic!("{other:?}"),
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn payments(settings: InputSettings, count: usize) -> Vec<PaymentInput> {
    let mut terminal = terminal(settings);
    let next = || match terminal.next_transaction() {
        TpccTransaction::Payment(input) => input,
        other => panic!("{other:?}"),
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A chi-square test: the sum over all values of (seen - expected)^2 / expected. The limit is five
/// standard deviations above the mean. Rare values are grouped.
fn assert_distributed(what: &str, seen: &BTreeMap<u32, u64>, expected: &BTreeMap<u32, f64>) {
    let draws: u64 = seen.values().sum();
    let total: f64 = expected.values().sum();
    assert!(seen.keys().all(|value| expected.contains_key(value)), "{what}: an impossible value");
    let cells = expected.iter().map(|(value, weight)| {
        (seen.get(value).copied().unwrap_or(0) as f64, weight / total * draws as f64)
    });
    let (mut common, rare): (Vec<_>, Vec<_>) = cells.partition(|(_, expected)| *expected >= 10.0);
    let rare = rare.into_iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    if rare.1 >= 10.0 {
        common.push(rare);
    }
    assert!(common.len() >= 2, "{what}: too few draws to judge");
    let chi_square: f64 =
        common.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected).sum();
    let freedom = (common.len() - 1) as f64;
    let most = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(chi_square < most, "{what}: chi-square is {chi_square}, at most {most} by chance");
}

fn counted(values: impl IntoIterator<Item = u32>) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_insert(0) += 1);
    counts
}

fn flat(from: u32, to: u32) -> BTreeMap<u32, f64> {
    (from..=to).map(|value| (value, 1.0)).collect()
}

/// The exact distribution of NURand(a, from, to) of clause 2.1.6, by counting all pairs.
fn non_uniform(a: u32, constant: u32, from: u32, to: u32) -> BTreeMap<u32, f64> {
    let mut weights: BTreeMap<u32, f64> = flat(from, to);
    weights.values_mut().for_each(|weight| *weight = 0.0);
    for first in 0..=a {
        for second in from..=to {
            let value = ((first | second) + constant) % (to - from + 1) + from;
            *weights.get_mut(&value).unwrap() += 1.0;
        }
    }
    weights
}

fn draws(distribution: NonUniform, count: usize) -> BTreeMap<u32, u64> {
    let mut random = WorkloadRandom::new(17);
    counted((0..count).map(|_| distribution.draw(&mut random)))
}

#[test]
fn customers_and_last_names_are_as_non_uniform_as_the_standards() {
    let scale = Scale::default();
    let names = non_uniform(255, LOAD.last_name, 0, 999);
    assert_distributed("C_LAST", &draws(LOAD.last_names(scale), 1_000_000), &names);
    let customers = non_uniform(1023, LOAD.customer, 1, 3_000);
    assert_distributed("C_ID", &draws(LOAD.customers(scale), 4_000_000), &customers);
    // A check of the test: it refuses the distribution of another constant, and a flat
    // distribution.
    let caught = |weights: BTreeMap<u32, f64>| {
        let seen = draws(LOAD.last_names(scale), 1_000_000);
        std::panic::catch_unwind(|| assert_distributed("wrong", &seen, &weights)).is_err()
    };
    assert!(caught(non_uniform(255, LOAD.last_name + 1, 0, 999)));
    assert!(caught(flat(0, 999)));
}

#[test]
fn items_are_as_non_uniform_as_the_standards() {
    // Counting 8192 times 100000 pairs would take too long. So for A = 8191 the test checks the
    // thirteen low bits one by one. A bit of the OR is set unless the bit is 0 in both numbers.
    let constants = Constants { item: 0, ..LOAD };
    let mut random = WorkloadRandom::new(23);
    let items = constants.items(Scale::default());
    let draws: Vec<u32> = (0..200_000).map(|_| items.draw(&mut random)).collect();
    assert!(draws.iter().all(|item| (1..=100_000).contains(item)));
    for bit in 0..13 {
        // With C = 0, an OR below 100000 gives the item OR + 1. Larger ORs wrap around to small
        // items.
        let ors = draws.iter().map(|item| item - 1).filter(|or| *or >= 31_072);
        let (mut set, mut all) = (0u32, 0u32);
        ors.for_each(|or| {
            all += 1;
            set += or >> bit & 1;
        });
        let share = f64::from(set) / f64::from(all);
        assert!((0.73..0.77).contains(&share), "bit {bit} is set in {share} of the draws");
    }
}

#[test]
fn a_smaller_scale_keeps_its_numbers_within_its_rows() {
    for (items, customers) in [(1, 1), (2, 2), (10, 30), (999, 1_500)] {
        let scale = Scale::new(items, customers).unwrap();
        for seed in 0..50 {
            let constants = Constants::for_load(seed);
            let mut random = WorkloadRandom::new(seed);
            for _ in 0..200 {
                assert!((1..=items).contains(&constants.items(scale).draw(&mut random)));
                assert!((1..=customers).contains(&constants.customers(scale).draw(&mut random)));
                assert!(constants.last_names(scale).draw(&mut random) < customers.min(1_000));
            }
        }
    }
}

#[test]
fn the_constants_of_a_run_keep_their_distance_from_those_of_the_load() {
    let mut distances = BTreeSet::new();
    for seed in 0..2_000 {
        let load = Constants::for_load(seed);
        let run = Constants::for_run(load, seed ^ 99);
        let distance = load.last_name.abs_diff(run.last_name);
        assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
        assert!(Constants::may_follow(load, run) && !Constants::may_follow(load, load));
        assert!(run.last_name <= 255 && run.customer <= 1023 && run.item <= 8191);
        distances.insert(distance);
    }
    assert_eq!(distances.len(), 53, "every allowed distance occurs");
}

#[test]
fn last_names_are_made_of_the_syllables_of_their_digits() {
    for (number, name) in
        [(0, "BARBARBAR"), (371, "PRICALLYOUGHT"), (40, "BARPRESBAR"), (999, "EINGEINGEING")]
    {
        let mut pushed = Vec::new();
        push_last_name(number, &mut pushed);
        assert_eq!(pushed, name.as_bytes());
        assert_eq!(LastName::of_number(number).as_bytes(), name.as_bytes());
    }
    let names: BTreeSet<Vec<u8>> =
        (0..1_000).map(|number| LastName::of_number(number).as_bytes().to_vec()).collect();
    assert_eq!(names.len(), 1_000);
}

#[test]
fn new_orders_have_the_standards_lines() {
    let inputs = new_orders(settings(TransactionKind::NewOrder, 5), 200_000);
    assert!(inputs.iter().all(|input| input.warehouse == 2));
    let of = |field: fn(&NewOrderInput) -> u32| counted(inputs.iter().map(field));
    assert_distributed("D_ID", &of(|input| input.district.into()), &flat(1, 10));
    assert_distributed("ol_cnt", &of(|input| input.lines().len() as u32), &flat(5, 15));

    let rollbacks = inputs.iter().filter(|input| input.rolls_back).count();
    // 1 %: five standard deviations of 44.
    assert!(rollbacks.abs_diff(2_000) < 222, "{rollbacks}");
    for input in &inputs {
        let (last, others) = input.lines().split_last().unwrap();
        assert_eq!(last.item == 100_001, input.rolls_back, "the last item is the unused one");
        assert!(others.iter().all(|line| (1..=100_000).contains(&line.item)));
    }

    let lines: Vec<_> = inputs.iter().flat_map(|input| input.lines()).collect();
    let quantities = counted(lines.iter().map(|line| line.quantity.into()));
    assert_distributed("OL_QUANTITY", &quantities, &flat(1, 10));
    let remote: Vec<u32> = lines
        .iter()
        .map(|line| line.supply_warehouse)
        .filter(|warehouse| *warehouse != 2)
        .collect();
    // 1 % of about two million lines: five standard deviations of 141.
    assert!(remote.len().abs_diff(lines.len() / 100) < 705, "{}", remote.len());
    let elsewhere = [1, 3, 4, 5].map(|warehouse| (warehouse, 1.0)).into();
    assert_distributed("OL_SUPPLY_W_ID", &counted(remote), &elsewhere);
    assert!(inputs.iter().any(|input| !input.all_local()));
}

#[test]
fn payments_come_from_elsewhere_and_by_name_as_often_as_the_standards() {
    let inputs = payments(settings(TransactionKind::Payment, 5), 200_000);
    let by_name = inputs.iter().filter(|i| matches!(i.customer, CustomerChoice::LastName(_)));
    // 60 % and 15 %: five standard deviations of 219 and 160.
    let by_name = by_name.count();
    assert!(by_name.abs_diff(120_000) < 1_095, "{by_name}");
    let remote: Vec<_> = inputs.iter().filter(|input| input.customer_warehouse != 2).collect();
    assert!(remote.len().abs_diff(30_000) < 800, "{}", remote.len());
    let districts = counted(remote.iter().map(|input| input.customer_district.into()));
    assert_distributed("C_D_ID", &districts, &flat(1, 10));
    // The customer's district is uniform, so it equals the terminal's district in a tenth of the
    // cases: five standard deviations of 52.
    let same = remote.iter().filter(|input| input.customer_district == input.district).count();
    assert!(same.abs_diff(remote.len() / 10) < 260, "{same}");
    let warehouses = counted(remote.iter().map(|input| input.customer_warehouse));
    assert_distributed("C_W_ID", &warehouses, &[1, 3, 4, 5].map(|w| (w, 1.0)).into());
    let local = inputs.iter().filter(|input| input.customer_warehouse == 2);
    assert!(local.into_iter().all(|input| input.customer_district == input.district));
    let amounts = counted(inputs.iter().map(|input| input.amount_cents as u32 / 10_000));
    let mut tens: BTreeMap<u32, f64> = (0..50).map(|hundred| (hundred, 10_000.0)).collect();
    // Amounts are 1.00 to 5000.00. The first group of a hundred lacks 100 amounts, and the last
    // group has only 5000.00.
    tens.insert(0, 9_900.0);
    let amounts = amounts.into_iter().filter(|(hundred, _)| *hundred < 50).collect();
    assert_distributed("H_AMOUNT", &amounts, &tens);
}

#[test]
fn a_single_warehouse_has_nothing_remote() {
    let orders = new_orders(settings(TransactionKind::NewOrder, 1), 10_000);
    assert!(orders.iter().all(NewOrderInput::all_local));
    let payments = payments(settings(TransactionKind::Payment, 1), 10_000);
    assert!(payments.iter().all(|input| input.customer_warehouse == 1));
    assert!(payments.iter().all(|input| input.customer_district == input.district));
}

#[test]
fn the_distribution_ratio_is_the_share_of_orders_that_leave_their_shard() {
    for (ratio, shard) in [(0, 1), (10, 1), (50, 2), (100, 2), (100, 4)] {
        let mut settings = settings(TransactionKind::NewOrder, 7);
        settings.remote_lines = RemoteLines::PerOrder { percent: ratio, shard };
        let orders = new_orders(settings, 20_000);
        let shard_of = |warehouse: u32| (warehouse - 1) / shard;
        let away = |order: &&NewOrderInput| {
            let home = shard_of(order.warehouse);
            let mut shards = order.lines().iter().map(|line| shard_of(line.supply_warehouse));
            let remote = order.lines().iter().filter(|line| line.supply_warehouse != 2);
            assert!(remote.count() <= 1);
            shards.any(|shard| shard != home)
        };
        let distributed = orders.iter().filter(away).count();
        let expected = 200 * usize::from(ratio);
        assert!(distributed.abs_diff(expected) < 360, "{ratio} %: {distributed}");
        if ratio == 0 || ratio == 100 {
            assert_eq!(distributed, expected);
        }
        let remote = orders.iter().flat_map(|order| order.lines().to_vec());
        let visited: BTreeSet<u32> = remote.map(|line| line.supply_warehouse).collect();
        let outside = (1..=7).filter(|warehouse| shard_of(*warehouse) != shard_of(2));
        let expected: BTreeSet<u32> =
            if ratio == 0 { [2].into() } else { outside.chain([2]).collect() };
        assert_eq!(visited, expected);
    }
}

#[test]
fn the_other_transactions_stay_at_home() {
    let mut status = terminal(settings(TransactionKind::OrderStatus, 5));
    let mut delivery = terminal(settings(TransactionKind::Delivery, 5));
    let mut stock = terminal(settings(TransactionKind::StockLevel, 5));
    let (mut carriers, mut thresholds, mut by_name) = (Vec::new(), Vec::new(), 0u32);
    for _ in 0..50_000 {
        match status.next_transaction() {
            TpccTransaction::OrderStatus(input) => {
                assert_eq!(input.warehouse, 2);
                by_name += u32::from(matches!(input.customer, CustomerChoice::LastName(_)));
            }
            other => panic!("{other:?}"),
        }
        match delivery.next_transaction() {
            TpccTransaction::Delivery(input) => carriers.push(u32::from(input.carrier.get())),
            other => panic!("{other:?}"),
        }
        match stock.next_transaction() {
            // The terminal's own district (clause 2.8.1.1).
            TpccTransaction::StockLevel(StockLevelInput {
                warehouse: 2,
                district: 7,
                threshold,
            }) => {
                thresholds.push(threshold as u32);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_distributed("O_CARRIER_ID", &counted(carriers), &flat(1, 10));
    assert_distributed("threshold", &counted(thresholds), &flat(10, 20));
    assert!(by_name.abs_diff(30_000) < 548, "{by_name}");
}

#[test]
fn terminals_have_homes_of_their_own() {
    let homes: Vec<Home> = (0..40).map(|number| Home::of_terminal(number, 40, 3..=6)).collect();
    let mut districts = BTreeSet::new();
    for home in &homes {
        let Home::District { warehouse, district } = home else { panic!("{home:?}") };
        assert!((3..=6).contains(warehouse) && (1..=10).contains(district));
        districts.insert((*warehouse, *district));
    }
    assert_eq!(districts.len(), 40);
    // With fewer terminals than warehouses, each warehouse belongs to exactly one terminal.
    for (count, last) in [(1, 10), (3, 10), (9, 10), (7, 1_000)] {
        let mut next = 1;
        for number in 0..count {
            let Home::Anywhere(among) = Home::of_terminal(number, count, 1..=last) else {
                panic!()
            };
            assert_eq!(*among.start(), next);
            assert!(among.start() <= among.end());
            next = among.end() + 1;
        }
        assert_eq!(next, last + 1);
    }
    let settings = settings(TransactionKind::StockLevel, 10);
    let home = Home::of_terminal(1, 3, 1..=10);
    let mut terminal = Terminal::new(settings, home, 1, 1).unwrap();
    let visited: BTreeSet<u32> = (0..1_000).map(|_| terminal.next_transaction().home()).collect();
    assert_eq!(visited, (4..=6).collect());
}

#[test]
fn a_terminal_repeats_itself_from_its_seed_and_no_other_does() {
    let settings = InputSettings::standard(Scale::default(), 5, LOAD, 11);
    let run = |seed, number| {
        let home = Home::District { warehouse: 1, district: 1 };
        let mut terminal = Terminal::new(settings, home, seed, number).unwrap();
        (0..100).map(|_| terminal.next_transaction()).collect::<Vec<_>>()
    };
    assert_eq!(run(1, 1), run(1, 1));
    assert_ne!(run(1, 1), run(1, 2));
    assert_ne!(run(1, 1), run(2, 1));
}

#[test]
fn impossible_settings_are_one_clear_error() {
    let error = |change: fn(&mut InputSettings)| {
        let mut settings = settings(TransactionKind::NewOrder, 4);
        change(&mut settings);
        let error = Terminal::new(settings, Home::Anywhere(1..=4), 1, 1).unwrap_err().to_string();
        assert!(error.contains("give ") && !error.contains('\n'), "{error}");
    };
    error(|settings| settings.warehouses = 0);
    error(|settings| settings.remote_lines = RemoteLines::PerLine { percent: 101 });
    error(|settings| settings.remote_payments_percent = 101);
    error(|settings| settings.remote_lines = RemoteLines::PerOrder { percent: 1, shard: 4 });
    error(|settings| settings.remote_lines = RemoteLines::PerOrder { percent: 1, shard: 0 });
}
