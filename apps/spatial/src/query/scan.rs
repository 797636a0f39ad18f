//! The answers of a scan over all rows, to compare those of the index with.

use super::answers::Answer;
use super::question::Query;
use crate::args::QueryKind;
use crate::geometry::Area;

/// The answers without an index, in the same order.
pub(crate) fn scan(query: &Query) -> Vec<Answer> {
    let places = query.places();
    let mut all = Vec::new();
    for (number, place) in (0..).zip(&places) {
        match query.kind {
            QueryKind::Nearest => nearest(query, number, place, &mut all),
            QueryKind::Join => within(query, number, place, &mut all),
            QueryKind::Window | QueryKind::Point => {
                let rows = (0..).zip(&query.data.rows);
                let rows = rows.filter(|(_, row)| query.space.meets(place, &row.area));
                all.extend(rows.map(|(id, _)| Answer { query: number, id, distance: 0.0 }));
            }
        }
    }
    all
}

fn nearest(query: &Query, number: u64, place: &Area, all: &mut Vec<Answer>) {
    let mut best: Vec<Answer> = Vec::new();
    for (id, row) in (0..).zip(&query.data.rows) {
        let full = best.len() == query.count;
        let limit = best.last().filter(|_| full).map_or(f64::INFINITY, |last| last.distance);
        if query.space.quick_bound(place, &row.area) > limit {
            continue;
        }
        let distance = query.space.distance(place, &row.area);
        // Rows at the same distance are in the order of the file.
        let at = best.partition_point(|other| other.distance <= distance);
        if at < query.count {
            best.truncate(query.count - 1);
            best.insert(at, Answer { query: number, id, distance });
        }
    }
    all.extend(best);
}

fn within(query: &Query, number: u64, place: &Area, all: &mut Vec<Answer>) {
    let mut near = Vec::new();
    for (id, row) in (0..).zip(&query.data.rows) {
        if query.space.quick_bound(place, &row.area) > query.within {
            continue;
        }
        // As the join computes it: the indexed row first.
        let distance = query.space.distance(&row.area, place);
        if distance <= query.within {
            near.push(Answer { query: number, id, distance });
        }
    }
    near.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
    all.extend(near);
}
