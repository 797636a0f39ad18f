//! The property keys that this crate accepts: keys with an effect, and keys of other drivers and
//! stores, which are ignored with a warning.

use crate::properties::near_matches;

/// Property keys with an effect, sorted.
pub(super) const KNOWN: &[&str] = &[
    "dataintegrity",
    "exponential.frac",
    "exponential.percentile",
    "fieldcount",
    "fieldlength",
    "fieldlengthdistribution",
    "fieldlengthhistogram",
    "fieldnameprefix",
    "hotspotdatafraction",
    "hotspotopnfraction",
    "insertcount",
    "insertorder",
    "insertproportion",
    "insertstart",
    "keyencoding",
    "maxexecutiontime",
    "maxscanlength",
    "minfieldlength",
    "minscanlength",
    "operationcount",
    "readallfields",
    "readmodifywriteproportion",
    "readproportion",
    "recordcount",
    "requestdistribution",
    "scanlengthdistribution",
    "scanproportion",
    "status",
    "status.interval",
    "table",
    "target",
    "threadcount",
    "updateproportion",
    "upsertexisting",
    "upsertproportion",
    "workload",
    "writeallfields",
    "zeropadding",
    "zipfianconstant",
    "zipfianscale",
];

/// Keys without a dot of YCSB's client and bindings, of go-ycsb and of YCSB-cpp, sorted. They
/// control how these drivers report or connect.
const OF_DRIVERS: &[&str] = &[
    "batchsize",
    "cache",
    "clientbuffering",
    "clusterName",
    "columnfamily",
    "command",
    "consistency",
    "core_workload_insertion_keep_going_on_error",
    "core_workload_insertion_retry_interval",
    "core_workload_insertion_retry_limit",
    "db",
    "dbname",
    "debug",
    "discardscannedrecord",
    "doload",
    "dotransaction",
    "dotransactions",
    "dropdata",
    "durability",
    "exporter",
    "exportfile",
    "helperHost",
    "hosts",
    "jointimeout",
    "keytab",
    "label",
    "latencytrackederrors",
    "maxscanrate",
    "measurementtype",
    "meta_servers",
    "outputstyle",
    "password",
    "port",
    "ports",
    "prefetchmeta",
    "principal",
    "readallfieldsbyname",
    "reportlatencyforeacherror",
    "requestTimeout",
    "scanoptimelimit",
    "silence",
    "sleepafterload",
    "storeName",
    "verbose",
    "warmuptime",
    "writebuffersize",
];

/// Keys of YCSB-cpp whose keys here have other names.
const RENAMED: &[(&str, &str)] =
    &[("field_len_dist", "fieldlengthdistribution"), ("zipfian_const", "zipfianconstant")];

/// Whether a key has an effect. Other keys of drivers and stores have none: keys with a dot, as in
/// `mongodb.url`, and the keys of [`OF_DRIVERS`].
///
/// # Errors
/// A key that no driver has, or that is nearly a key with an effect: the keys that it could mean.
pub(super) fn has_effect(key: &str) -> Result<bool, Vec<&'static str>> {
    if KNOWN.contains(&key) {
        return Ok(true);
    }
    if OF_DRIVERS.contains(&key) {
        return Ok(false);
    }
    let renamed = RENAMED.iter().filter(|(theirs, _)| *theirs == key).map(|(_, here)| *here);
    let near: Vec<&str> = renamed.chain(near_matches(key, KNOWN)).collect();
    let is_of_store =
        store(key).is_some_and(|prefix| KNOWN.iter().all(|known| store(known) != Some(prefix)));
    if near.is_empty() && is_of_store { Ok(false) } else { Err(near) }
}

/// The store in a key of the form store.rest.
fn store(key: &str) -> Option<&str> {
    let (store, rest) = key.split_once('.')?;
    (!store.is_empty() && !rest.is_empty()).then_some(store)
}

/// The accepted values of `workload`: the names of the Java class of YCSB that this crate replaces.
pub(super) const CLASSES: &[&str] =
    &["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload", "core"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_sorted_and_disjoint() {
        assert!(KNOWN.is_sorted());
        assert!(OF_DRIVERS.is_sorted());
        assert!(KNOWN.iter().all(|key| !OF_DRIVERS.contains(key)));
    }
}
