//! [`NicProfile`]: the figures of a kind of NIC and of the CPU that drives it.

/// The figures of a kind of NIC, its switch, and the CPU that drives it.
///
/// Times are nanoseconds, rates are millions per second.
#[derive(Clone, PartialEq, Debug)]
pub struct NicProfile {
    /// What it is called.
    pub name: String,
    /// Payload bandwidth of a port, each way, in Gbit/s.
    pub bandwidth_gbit_s: f64,
    /// From one NIC to another: cables and a switch.
    pub one_way_ns: u64,
    /// Each way takes up to so much longer, as drawn; on one queue pair nothing overtakes.
    pub jitter_ns: u64,
    /// Requests that a NIC can send (as requester).
    pub send_rate_mops: f64,
    /// Requests that a NIC can serve (as responder).
    pub serve_rate_mops: f64,
    /// From a WRITE's or SEND's arrival to its effect.
    pub write_ns: u64,
    /// From a READ's arrival to its first byte leaving.
    pub read_ns: u64,
    /// How long an atomic occupies its bucket.
    pub atomic_ns: u64,
    /// Atomics are serialised per bucket: that of the low address bits, so many (Sherman 3.2.2).
    pub atomic_bucket_bits: u32,
    /// From the response's arrival to the completion that the CPU can see.
    pub completion_ns: u64,
    /// Queue pairs of one worker to one target, used in turn.
    pub queue_pairs: u32,
    /// READs and atomics of one worker to one target under way at most.
    pub reads_max: u32,
    /// Requests of one worker to one target under way at most.
    pub requests_max: u32,
    /// CPU time of the worker.
    pub cpu: CpuProfile,
}

/// CPU times of a worker, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuProfile {
    /// To write a request into the send queue.
    pub post_ns: u64,
    /// To ring a doorbell: once for all that is posted to one queue pair in a sweep.
    pub doorbell_ns: u64,
    /// To take a completion.
    pub poll_ns: u64,
    /// To take and serve a message.
    pub message_ns: u64,
    /// One turn of the worker's loop.
    pub sweep_ns: u64,
    /// A hit: finding the frame, and the local latch.
    pub hit_ns: u64,
    /// To read or write 1 KiB in the cache.
    pub copy_ns_per_kib: u64,
    /// How long a local writer holds the frame's latch besides the copying.
    pub latch_ns: u64,
}
