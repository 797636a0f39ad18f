//! YCSB's property files are accepted unchanged. This project's files describe the same workloads.
//! An error names its position in the file.

use std::time::Duration;

use latchwork_workload::properties::Properties;
use latchwork_workload::ycsb::{
    Builtin, ContentKey, ContentVersion, CoreWorkload, FieldIndex, InsertOrder, Mix,
    RequestDistribution, ScanLengthDistribution,
};

fn parse(text: &str) -> Result<(CoreWorkload, Vec<String>), String> {
    let mut properties = Properties::default();
    properties.parse(text, "w").map_err(|error| error.to_string())?;
    CoreWorkload::from_properties(&properties).map_err(|error| error.to_string())
}

fn refused(text: &str) -> String {
    let error = parse(text).map(|_| ()).unwrap_err();
    assert!(!error.contains('\n'), "one line: {error}");
    error
}

fn mix(weights: [f64; 6]) -> Mix {
    let [read, update, insert, scan, read_modify_write, upsert] = weights;
    Mix { read, update, insert, scan, read_modify_write, upsert }
}

#[test]
fn builtin_workloads_are_those_of_ycsb_and_of_sherman() {
    let expected = [
        (Builtin::A, [0.5, 0.5, 0.0, 0.0, 0.0, 0.0], "scrambled-zipfian"),
        (Builtin::B, [0.95, 0.05, 0.0, 0.0, 0.0, 0.0], "scrambled-zipfian"),
        (Builtin::C, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "scrambled-zipfian"),
        (Builtin::D, [0.95, 0.0, 0.05, 0.0, 0.0, 0.0], "latest"),
        (Builtin::E, [0.0, 0.0, 0.05, 0.95, 0.0, 0.0], "scrambled-zipfian"),
        (Builtin::F, [0.5, 0.0, 0.0, 0.0, 0.5, 0.0], "scrambled-zipfian"),
        (Builtin::WriteOnly, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], "scrambled-zipfian"),
        (Builtin::WriteIntensive, [0.5, 0.0, 0.0, 0.0, 0.0, 0.5], "scrambled-zipfian"),
        (Builtin::ReadIntensive, [0.95, 0.0, 0.0, 0.0, 0.0, 0.05], "scrambled-zipfian"),
        (Builtin::RangeOnly, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0], "scrambled-zipfian"),
        (Builtin::RangeWrite, [0.0, 0.0, 0.0, 0.5, 0.0, 0.5], "scrambled-zipfian"),
    ];
    for (builtin, weights, requests) in expected {
        let (workload, warnings) = parse(builtin.text()).unwrap();
        assert_eq!(workload.mix, mix(weights), "{builtin}");
        assert_eq!(workload.requests.name(), requests, "{builtin}");
        assert_eq!(workload.records, 0..1_000_000);
        assert_eq!(workload.operations, None);
        assert_eq!(warnings, Vec::<String>::new());
    }
    assert_eq!(Builtin::E.workload().unwrap().scan_length.max, 100);
    let ranges = Builtin::RangeWrite.workload().unwrap();
    assert_eq!((ranges.scan_length.min, ranges.scan_length.max), (100, 100));
    assert_eq!((ranges.keys.len_max(), ranges.layout.len_max()), (8, 8));
    assert!((ranges.inserting_share() - 0.5 / 3.0).abs() < 1e-9);
}

/// The assignments of YCSB's file for workload E, without comments.
const YCSB_E: &str = "
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload

readallfields=true

readproportion=0
updateproportion=0
scanproportion=0.95
insertproportion=0.05

requestdistribution=zipfian

maxscanlength=100

scanlengthdistribution=uniform

";

#[test]
fn a_file_of_ycsb_is_accepted_as_it_is() {
    let (workload, warnings) = parse(YCSB_E).unwrap();
    assert_eq!(workload.records, 0..1000);
    assert_eq!(workload.operations, Some(1000));
    assert_eq!(workload.mix, mix([0.0, 0.0, 0.05, 0.95, 0.0, 0.0]));
    assert_eq!(workload.requests, RequestDistribution::ScrambledZipfian);
    assert!(warnings.is_empty());
}

#[test]
fn defaults_are_those_of_ycsb() {
    let (workload, _) = parse("").unwrap();
    assert_eq!(workload.table, "usertable");
    assert_eq!(workload.layout.fields(), 10);
    assert_eq!(workload.layout.constant_field_len(), Some(100));
    assert_eq!(workload.mix, mix([0.95, 0.05, 0.0, 0.0, 0.0, 0.0]));
    assert_eq!(workload.requests, RequestDistribution::Uniform);
    assert_eq!((workload.scan_length.min, workload.scan_length.max), (1, 1000));
    assert_eq!(workload.scan_length.distribution, ScanLengthDistribution::Uniform);
    assert_eq!(workload.keys.order, InsertOrder::Hashed);
    assert!(workload.read_all_fields && !workload.write_all_fields && !workload.data_integrity);
}

#[test]
fn settings_of_ycsbs_client_are_understood_or_reported_as_ignored() {
    let text = "threadcount=8\ntarget=5000\nmaxexecutiontime=30\nmeasurementtype=raw\nhtrace.x=1\n";
    let (workload, warnings) = parse(text).unwrap();
    assert_eq!(workload.client.threads, Some(8));
    assert_eq!(workload.client.target_ops_s, Some(5000.0));
    assert_eq!(workload.client.time_max, Some(Duration::from_secs(30)));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].ends_with(": `measurementtype` (w:4), `htrace.x` (w:5)"), "{warnings:?}");
}

#[test]
fn keys_of_other_drivers_and_of_stores_are_named_once_and_ignored() {
    let mongo = "mongodb.url=mongodb://localhost:27017\nmongodb.database=ycsb\nrecordcount=10\n";
    let mut properties = Properties::default();
    properties.parse(mongo, "mongo.dat").unwrap();
    for store in ["warmuptime=3\ndropdata=true\n", "rocksdb.dir=/x\nredis.addr=y\njdbc.url=z"] {
        properties.parse(store, "more").unwrap();
    }
    for assignment in ["batch.size=5", "batch.size=6", "wiredtiger.blk_mgr.btree.leaf_key_max=0"] {
        properties.assign(assignment).unwrap();
    }
    let (workload, warnings) = CoreWorkload::from_properties(&properties).unwrap();
    assert_eq!(workload.records, 0..10);
    assert_eq!(
        warnings,
        ["settings of other drivers and stores change nothing: `mongodb.url` (mongo.dat:1), \
          `mongodb.database` (mongo.dat:2), `warmuptime` (more:1), `dropdata` (more:2), \
          `rocksdb.dir` (more:1), `redis.addr` (more:2), `jdbc.url` (more:3), `batch.size` (-p), \
          `wiredtiger.blk_mgr.btree.leaf_key_max` (-p)"]
    );
    let (_, warnings) = parse("store.\\n=1\nstore.\\n=1").unwrap();
    assert!(warnings.len() == 2 && !warnings.concat().contains(char::is_control), "{warnings:?}");
}

#[test]
fn an_unknown_key_is_named_with_its_position_and_what_was_meant() {
    assert_eq!(
        refused("recordcount=10\n\nreadproportoin=1\n"),
        "w:3: unknown workload key `readproportoin`; did you mean `readproportion`?"
    );
    assert!(refused("colour=red").starts_with("w:1: unknown workload key `colour`"));
    for (key, meant) in [
        ("exponential.percentil", "; did you mean `exponential.percentile`?"),
        ("exponental.frac", "; did you mean `exponential.frac`?"),
        ("read.proportion", "; did you mean `readproportion`?"),
        ("exponential.colour", "; `-p key=value` and property files"),
        (".colour", "; `-p key=value` and property files"),
        ("field_len_dist", "; did you mean `fieldlengthdistribution`?"),
        ("zipfian_const", "; did you mean `zipfianconstant`?"),
    ] {
        let error = refused(&format!("{key}=1"));
        let unknown = format!("w:1: unknown workload key `{key}`{meant}");
        assert!(error.starts_with(&unknown), "{error}");
    }
}

#[test]
fn impossible_values_are_refused_with_what_would_do() {
    for (text, expected) in [
        ("recordcount=0", "must be a whole number from 1"),
        ("recordcount=-5", "must be a whole number from 1"),
        ("recordcount=many", "must be a whole number from 1"),
        ("fieldcount=0", "must be a whole number from 1 to 65535"),
        ("fieldlength=0", "must be a whole number from 1 to 65535"),
        ("readproportion=-0.5", "must be a number of at least 0"),
        ("readproportion=NaN", "must be a number of at least 0"),
        ("requestdistribution=zipf", "must be one of uniform, zipfian"),
        ("scanlengthdistribution=constant", "must be one of uniform, zipfian"),
        ("fieldlengthdistribution=hist", "must be one of constant, uniform, zipfian, histogram"),
        ("fieldlengthdistribution=histogram", "`fieldlengthhistogram` is missing: hist.txt"),
        (
            "fieldlengthdistribution=histogram\nfieldlengthhistogram=/nowhere/x",
            "w:2: `fieldlengthhistogram=/nowhere/x`: it cannot be read",
        ),
        ("insertorder=random", "must be one of hashed, ordered"),
        ("dataintegrity=yes", "must be true or false"),
        ("hotspotdatafraction=1.5", "must be a number from 0 to 1"),
        ("zipfianconstant=1", "must be a number above 0 and below 1"),
        ("zeropadding=600", "must be a whole number from 0 to 508"),
        (
            "workload=site.ycsb.workloads.TimeSeriesWorkload",
            "must be site.ycsb.workloads.CoreWorkload",
        ),
        ("minscanlength=20\nmaxscanlength=10", "scans from 20 to 10 records cannot be"),
        ("fieldlengthdistribution=uniform\nminfieldlength=200", "must be at most fieldlength=100"),
        ("insertstart=10\nrecordcount=10", "must be below recordcount=10"),
        ("insertcount=5\nrecordcount=10\ninsertstart=6", "must be at most 4: recordcount=10"),
        ("fieldcount=1000\nfieldlength=100", "lower fieldcount or the lengths"),
        ("readproportion=0\nupdateproportion=0", "are all 0"),
        ("requestdistribution=zipfian\nzipfianconstant=0.5", "requestdistribution=zipfian-records"),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn proportions_that_do_not_add_up_are_shares_and_reported() {
    let (workload, warnings) = parse("readproportion=1\nupdateproportion=1").unwrap();
    assert_eq!(workload.mix.sum(), 2.0);
    assert!(warnings[0].contains("add up to 2"), "{}", warnings[0]);
}

#[test]
fn lengths_of_fields_come_from_a_file() {
    let path = std::env::temp_dir().join(format!("latchwork-hist-{}", std::process::id()));
    let with = |lines: &str| {
        std::fs::write(&path, lines).unwrap();
        let name = path.display();
        let parsed =
            parse(&format!("fieldlengthdistribution=histogram\nfieldlengthhistogram={name}"));
        std::fs::remove_file(&path).unwrap();
        parsed
    };
    let (workload, warnings) = with("BlockSize\t50\n0\t3\n1\t1\n2\t0\n").unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(workload.layout.len_max(), 10 * (2 + 100));
    let mut lens = [0; 101];
    let mut record = Vec::new();
    for number in 0..1000u64 {
        let key = ContentKey::new(&number.to_le_bytes());
        workload.layout.encode(key, ContentVersion::LOADED, &mut record);
        workload.layout.verify(key, &record, |_, _| ()).unwrap();
        for field in (0..10).map(FieldIndex) {
            lens[workload.layout.find(&record, field).unwrap().len()] += 1;
        }
    }
    assert_eq!(lens[50] + lens[100], 10_000);
    assert!((7300..7700).contains(&lens[50]), "{lens:?}");
    let error = with("BlockSize\t50\nmany\n").unwrap_err();
    assert!(error.starts_with(&format!("{}:2: ", path.display())), "{error}");
}

#[test]
fn a_part_of_the_records_is_loaded_and_inserts_come_behind_all_parts() {
    let (workload, _) = parse("recordcount=1000\ninsertstart=200\ninsertcount=300").unwrap();
    assert_eq!((workload.records.clone(), workload.first_insert().0), (200..500, 1000));
    assert_eq!((workload.load_share(0, 2), workload.load_share(1, 2)), (200..350, 350..500));
    let (workload, _) = parse("recordcount=1000\ninsertcount=300").unwrap();
    assert_eq!((workload.records.clone(), workload.first_insert().0), (0..300, 1000));
}

#[test]
fn shares_of_the_load_cover_every_record_once() {
    let (workload, _) = parse("recordcount=1007\ninsertstart=7").unwrap();
    for workers in [1, 3, 7, 999, 1000, 1001, 5000] {
        let mut next = 7;
        for worker in 0..workers {
            let share = workload.load_share(worker, workers);
            assert_eq!(share.start, next);
            next = share.end;
        }
        assert_eq!(next, 1007);
    }
}
