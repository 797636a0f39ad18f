//! Litmus tests: small programs, each with an outcome that distinguishes consistency levels.

use std::collections::BTreeMap;

use latchwork_history::calls::ProcessStep::{Fence, Read, Write};
use latchwork_history::calls::{ProcessStep, StoreOrder};
use latchwork_relaxed::Consistency;
use latchwork_verbs::GlobalAddr;

pub(crate) type Program = Vec<Vec<ProcessStep<char>>>;

/// A program, with the outcome in question.
pub(crate) struct Litmus {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) finals: BTreeMap<char, u64>,
    /// The strictest level at which the outcome is possible, if any.
    pub(crate) from: Option<Consistency>,
}

fn litmus(
    name: &'static str,
    from: Option<Consistency>,
    program: Program,
    finals: &[(char, u64)],
) -> Litmus {
    Litmus { name, program, finals: finals.iter().copied().collect(), from }
}

/// Locations: x, y and z are the first words of three lines; X and Y two words of a fourth.
pub(crate) fn place(lines: &[GlobalAddr], location: char) -> (GlobalAddr, usize) {
    match location {
        'x' => (lines[0], 0),
        'y' => (lines[1], 0),
        'z' => (lines[2], 0),
        'X' => (lines[3], 0),
        _ => (lines[3], 8),
    }
}

/// The usual tests, by their usual names (Alglave, Maranget and Tautschnig, "Herding Cats", 2014).
pub(crate) fn all() -> Vec<Litmus> {
    let (tso, pso) = (Some(Consistency::Tso), Some(Consistency::Pso));
    let twice = || vec![Write('x', 1), Write('x', 2)];
    vec![
        litmus(
            "SB",
            tso,
            vec![vec![Write('x', 1), Read('y', 0)], vec![Write('y', 1), Read('x', 0)]],
            &[],
        ),
        litmus(
            "SB with fences",
            None,
            vec![
                vec![Write('x', 1), Fence, Read('y', 0)],
                vec![Write('y', 1), Fence, Read('x', 0)],
            ],
            &[],
        ),
        litmus(
            "MP",
            pso,
            vec![vec![Write('x', 1), Write('y', 1)], vec![Read('y', 1), Read('x', 0)]],
            &[],
        ),
        litmus(
            "MP with a fence",
            None,
            vec![vec![Write('x', 1), Fence, Write('y', 1)], vec![Read('y', 1), Read('x', 0)]],
            &[],
        ),
        litmus(
            "MP in one line",
            None,
            vec![vec![Write('X', 1), Write('Y', 1)], vec![Read('Y', 1), Read('X', 0)]],
            &[],
        ),
        litmus(
            "LB",
            None,
            vec![vec![Read('x', 1), Write('y', 1)], vec![Read('y', 1), Write('x', 1)]],
            &[],
        ),
        litmus(
            "S",
            pso,
            vec![vec![Write('x', 2), Write('y', 1)], vec![Read('y', 1), Write('x', 1)]],
            &[('x', 2)],
        ),
        litmus(
            "R",
            tso,
            vec![vec![Write('x', 1), Write('y', 1)], vec![Write('y', 2), Read('x', 0)]],
            &[('y', 2)],
        ),
        litmus(
            "2+2W",
            pso,
            vec![vec![Write('x', 1), Write('y', 2)], vec![Write('y', 1), Write('x', 2)]],
            &[('x', 1), ('y', 1)],
        ),
        litmus(
            "IRIW",
            None,
            vec![
                vec![Write('x', 1)],
                vec![Write('y', 1)],
                vec![Read('x', 1), Read('y', 0)],
                vec![Read('y', 1), Read('x', 0)],
            ],
            &[],
        ),
        litmus(
            "WRC",
            None,
            vec![
                vec![Write('x', 1)],
                vec![Read('x', 1), Write('y', 1)],
                vec![Read('y', 1), Read('x', 0)],
            ],
            &[],
        ),
        litmus("CoRR", None, vec![twice(), vec![Read('x', 2), Read('x', 1)]], &[]),
        litmus("CoWW", None, vec![twice()], &[('x', 1)]),
        litmus("CoWR", None, vec![vec![Write('x', 1), Read('x', 0)]], &[]),
        litmus(
            "CoRW",
            None,
            vec![vec![Read('x', 2), Write('x', 1)], vec![Write('x', 2)]],
            &[('x', 2)],
        ),
        // A worker sees its own store early: n6 of Owens, Sarkar and Sewell.
        litmus(
            "n6",
            tso,
            vec![
                vec![Write('x', 1), Read('x', 1), Read('y', 0)],
                vec![Write('y', 2), Write('x', 2)],
            ],
            &[('x', 1)],
        ),
    ]
}

/// The tests whose outcomes distinguish one level from the next stricter one, with either protocol.
pub(crate) const TELLING: [&str; 2] = ["SB", "MP"];

pub(crate) fn order(level: Consistency) -> StoreOrder {
    match level {
        Consistency::Sequential => StoreOrder::Sequential,
        Consistency::Tso => StoreOrder::Total,
        Consistency::Pso => StoreOrder::Partial,
    }
}

pub(crate) const LOCATIONS: [char; 5] = ['x', 'y', 'z', 'X', 'Y'];
