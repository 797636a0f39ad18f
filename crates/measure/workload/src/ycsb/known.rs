//! The property keys that this crate accepts: keys with an effect, and keys that are ignored with a
//! warning.

/// Property keys with an effect, sorted.
pub(super) const KNOWN: &[&str] = &[
    "dataintegrity",
    "exponential.frac",
    "exponential.percentile",
    "fieldcount",
    "fieldlength",
    "fieldlengthdistribution",
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

/// Keys of YCSB's client, of its measurements and of single database bindings, sorted. These keys
/// control how YCSB reports or connects. A file with such a key runs here too, with a warning for
/// each line that has one.
pub(super) const IGNORED: &[&str] = &[
    "columnfamily",
    "core_workload_insertion_keep_going_on_error",
    "core_workload_insertion_retry_interval",
    "core_workload_insertion_retry_limit",
    "db",
    "discardscannedrecord",
    "dotransactions",
    "exporter",
    "exportfile",
    "hdrhistogram.fileoutput",
    "hdrhistogram.output.path",
    "hdrhistogram.percentiles",
    "histogram.buckets",
    "label",
    "latencytrackederrors",
    "maxscanrate",
    "measurement.histogram.verbose",
    "measurement.interval",
    "measurement.raw.no_summary",
    "measurement.raw.output_file",
    "measurement.trackjvm",
    "measurementtype",
    "readallfieldsbyname",
    "reportlatencyforeacherror",
    "scanoptimelimit",
    "spin.sleep",
    "status",
    "status.interval",
    "timeseries.granularity",
];

/// Keys with this prefix are ignored too. YCSB passes such keys to its tracing library.
pub(super) const IGNORED_PREFIX: &str = "htrace.";

/// The accepted values of `workload`: the names of the Java class of YCSB that this crate replaces.
pub(super) const CLASSES: &[&str] =
    &["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload", "core"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_sorted_and_disjoint() {
        assert!(KNOWN.is_sorted());
        assert!(IGNORED.is_sorted());
        assert!(KNOWN.iter().all(|key| !IGNORED.contains(key)));
    }
}
