//! The order of boxes along a Hilbert curve (Kamel and Faloutsos, "On packing R-trees").
//!
//! The curve goes through the cells of a grid over all middles. Two neighbours on the curve are
//! neighbours in space. The computation is that of Skilling ("Programming the Hilbert curve").

use crate::Rect;

/// The bits of a place on the curve.
const BITS: usize = u64::BITS as usize;

/// Places on a curve over the boxes of one load.
pub(super) struct Curve<const D: usize> {
    low: [f64; D],
    /// Half of the extent of all middles on each axis.
    half: [f64; D],
    /// The bits of a cell's number on each axis.
    bits: u32,
}

impl<const D: usize> Curve<D> {
    /// A curve through the middles of all boxes.
    pub(super) fn over(rects: impl Iterator<Item = Rect<D>>) -> Curve<D> {
        let (mut low, mut high) = ([f64::INFINITY; D], [f64::NEG_INFINITY; D]);
        for rect in rects {
            for axis in 0..D {
                low[axis] = low[axis].min(rect.middle(axis));
                high[axis] = high[axis].max(rect.middle(axis));
            }
        }
        // Halved first: the difference of two large coordinates may be infinite.
        let half = std::array::from_fn(|axis| high[axis] / 2.0 - low[axis] / 2.0);
        Curve { low, half, bits: (BITS / D.max(1)).clamp(1, 31) as u32 }
    }

    /// The place of the box's middle on the curve.
    pub(super) fn place(&self, rect: &Rect<D>) -> u64 {
        let most = f64::from((1_u32 << self.bits) - 1);
        let cell: [u32; D] = std::array::from_fn(|axis| {
            let along = rect.middle(axis) / 2.0 - self.low[axis] / 2.0;
            // The cast of a quotient that is not a number is 0: all middles are equal there.
            (along / self.half[axis] * most) as u32
        });
        interleave(transpose(cell, self.bits), self.bits)
    }
}

/// Skilling's transposed form of the place of a cell.
fn transpose<const D: usize>(mut x: [u32; D], bits: u32) -> [u32; D] {
    let top = 1_u32 << (bits - 1);
    let mut q = top;
    while q > 1 {
        let p = q - 1;
        for i in 0..D {
            if x[i] & q != 0 {
                x[0] ^= p;
            } else {
                let t = (x[0] ^ x[i]) & p;
                x[0] ^= t;
                x[i] ^= t;
            }
        }
        q >>= 1;
    }
    for i in 1..D {
        x[i] ^= x[i - 1];
    }
    let mut t = 0;
    let mut q = top;
    while q > 1 {
        if x[D - 1] & q != 0 {
            t ^= q - 1;
        }
        q >>= 1;
    }
    x.map(|word| word ^ t)
}

/// The bits of all axes, the highest ones first.
fn interleave<const D: usize>(x: [u32; D], bits: u32) -> u64 {
    let mut place = 0;
    for bit in (0..bits).rev() {
        for word in x.iter().take(BITS) {
            place = place << 1 | u64::from(word >> bit & 1);
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of a grid in the order of their places.
    fn walk<const D: usize>(bits: u32) -> Vec<[u32; D]> {
        let side = 1_u32 << bits;
        let mut cells: Vec<[u32; D]> = (0..side.pow(D as u32))
            .map(|n| std::array::from_fn(|axis| n / side.pow(axis as u32) % side))
            .collect();
        cells.sort_by_key(|cell| interleave(transpose(*cell, bits), bits));
        cells
    }

    fn is_connected<const D: usize>(cells: &[[u32; D]]) -> bool {
        let step = |a: &[u32; D], b: &[u32; D]| -> u32 {
            a.iter().zip(b).map(|(x, y)| x.abs_diff(*y)).sum()
        };
        cells.windows(2).all(|pair| step(&pair[0], &pair[1]) == 1)
    }

    #[test]
    fn the_curve_goes_from_each_cell_to_a_neighbour() {
        assert!(is_connected(&walk::<2>(4)));
        assert!(is_connected(&walk::<3>(3)));
        assert!(is_connected(&walk::<4>(2)));
    }

    #[test]
    fn any_middles_have_a_place() {
        let rects = [[f64::MIN; 2], [f64::MAX; 2], [0.0; 2]];
        let rects = rects.map(|at| Rect::point(at).expect("a point"));
        let curve = Curve::over(rects.iter().copied());
        let places: std::collections::BTreeSet<u64> =
            rects.iter().map(|rect| curve.place(rect)).collect();
        assert_eq!(places.len(), 3);
        let equal = Curve::over(rects[..1].iter().copied());
        assert_eq!(equal.place(&rects[0]), 0);
    }
}
