//! The same answers on every fabric, with any number of nodes, however the tree was built.

use crate::common::{Files, document, measure};

#[test]
fn answers_do_not_depend_on_fabric_nodes_or_loading() {
    let files = Files::new(500, 200);
    let (places, boxes) = (files.places_csv(), files.boxes_csv());
    for query in [
        format!("query nearest {boxes} --data {places} -k 3"),
        format!("query join {places} --data {boxes} --within 300km"),
        format!("query window 150,-80,-150,85 --data {boxes}"),
    ] {
        let mut digests = Vec::new();
        for shape in [
            "--fabric shm --compute-nodes 1 --threads 1",
            "--fabric shm --compute-nodes 2 --threads 2 --load-by inserts",
            "--fabric shm --compute-nodes 4 --threads 1 --load-by hilbert --protocol sel",
            "--fabric tcp --compute-nodes 2 --threads 1 --load-by inserts",
            "--fabric sim --compute-nodes 1",
            "--fabric sim --compute-nodes 4 --load-by inserts --cache-mb 0.3",
        ] {
            let flags = "--great-circle --gcl-size 1024 --check";
            let document = document(&format!("{query} {flags} {shape}"));
            assert_eq!(document["checks"]["answers"], "ok", "{query} {shape}");
            assert!(measure(&document, "answers") > 0.0);
            digests.push(measure(&document, "answers_digest"));
        }
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{query}: {digests:?}");
    }
}

#[test]
fn in_virtual_time_the_same_flags_give_the_same_document() {
    let files = Files::new(300, 100);
    let flags = format!(
        "query nearest {} --data {} --great-circle --fabric sim --compute-nodes 3 --load-by inserts",
        files.boxes_csv(),
        files.places_csv()
    );
    assert_eq!(document(&flags), document(&flags));
}
