//! [`SelccSettings`]: the settings that only the protocols of the latch word have.

use std::time::Duration;

use latchwork_latch::Rules;

/// How the back-off changes with repeated refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Resend {
    /// `pause`, doubled with every further refusal, up to `pause_max`.
    Growing,
    /// C x RTT / N after N refusals, within the same bounds (SELCC 5.1.2).
    ///
    /// A protocol without invalidation requests (SEL) uses growing back-offs instead: shrinking
    /// back-offs would only raise the load on a contended latch word. A node that has been refused
    /// for very long most likely waits for a stuck or dead node. Such a node backs off for a part
    /// of the time for which the node has been refused.
    #[default]
    Shrinking,
}

latchwork_engine::setting_words! {
    Resend: Growing "growing", Shrinking "shrinking";
}

latchwork_engine::settings! {
    /// Settings of a compute node that only the protocols of the latch word have. SEL uses those
    /// that are not about messages between nodes.
    SelccSettings

    /// The line lease, gamma of SELCC 5.3.1. It bounds the local accesses that have to wait for the
    /// local latch and still come before a requesting node. They are counted as `reads / workers +
    /// writes`. At this count, the node gives the line up. With 0, requesting nodes come first.
    /// With `None`, the count has no bound.
    lease: Option<u32> = Some(256), "lease" behind "lapse"
        "Waiting local accesses (reads / workers + writes) that come before a node that asked for the line (SELCC 5.3.1)" ["0", "inf"];
    /// How back-offs change with refusals. Each back-off is drawn at random between 0.5 and 1.5
    /// times the value of this rule.
    resend: Resend = Resend::Shrinking, "resend"
        "How pauses go on with every refusal: growing (doubled), or shrinking, C x RTT / N (SELCC 5.1.2)" ["growing"];
    /// C of [`Resend::Shrinking`].
    resend_factor: u32 = 8, "resend-factor" [1]
        "C of shrinking pauses (SELCC 5.1.2)" [];
    /// RTT of [`Resend::Shrinking`]: the round-trip time of an atomic verb.
    round_trip: Duration = Duration::from_micros(2), "round-trip" [1]
        "RTT of shrinking pauses: of an atomic (SELCC 5.1.2)" [];
    /// The shortest back-off after a refusal, before the draw.
    pause: Duration = Duration::from_micros(2), "pause" [1]
        "The shortest pause after a refusal" [];
    /// The longest back-off, before the draw.
    pause_max: Duration = Duration::from_micros(500), "pause-max" [1]
        "The longest pause" [];
    /// Whether each refusal raises the priority of a node's requests, and a holder serves the
    /// highest priority first. Off: first come, first served (SELCC 5.3.2).
    aging: bool = true, "aging"
        "Refusals raise priorities, and the highest is served first (SELCC 5.3.2)" ["off"];
    /// Whether readers that gave a line up for an earlier refused writer hold off before they
    /// return (SELCC 5.3.2).
    spin_windows: bool = true, "spin-windows"
        "Readers that gave a line up for a refused writer hold off for a while (SELCC 5.3.2)" ["off"];
    /// Whether a starved writer keeps its line from readers with fewer refusals than the writer
    /// (SELCC 5.3.2). Has no effect without `aging`.
    priority_matching: bool = true, "priority-matching"
        "A starved writer keeps its line from readers of lower priority (SELCC 5.3.2)" ["off"];
    /// A writer with at least this many refusals is starved.
    starved_at: u8 = 2, "starved-at" [1]
        "A writer that was refused so often is starved (SELCC 5.3.2)" ["1"];
    /// The hold-off of readers for each step of the writer's priority. Also the hold-off of a node
    /// that released a line for other nodes, at the first step of their priority, doubled with each
    /// further step.
    hold_off: Duration = Duration::from_micros(4), "hold-off"
        "How long readers hold off for each step of the writer's priority (SELCC 5.3.2), or a node that released a line for others at the first step, doubled with each" [];
    /// The longest hold-off of both kinds.
    hold_off_max: Duration = Duration::from_millis(1), "hold-off-max"
        "The longest time that they hold off" [];
    /// Whether an exclusive holder forwards a requested line and hands it over. Off: the holder
    /// writes the line back and releases it (SELCC 4.4.1).
    forwarding: bool = true, "forwarding" behind "dirty-bounds"
        "An exclusive holder that is asked hands the line over; off: it writes back and releases (SELCC 4.4.1)" ["off"];
    /// Whether sharers pledge their copies to a writer, which takes the line over from all sharers
    /// at once. Off: each sharer releases its own copy (SELCC 4.4.3).
    takeover: bool = true, "takeover" behind "linger"
        "Whether a writer takes shared lines over with one operation, by pledges, instead of a release of each sharer (SELCC 4.4.3)" ["off"];
    /// Whether a holder that hands a line over also writes its changes back. Then the death of a
    /// node takes only what that node wrote and no other node has seen. Off: the changes travel
    /// with the line. All nodes of a cluster have the same. Has no effect under protocols with
    /// homes.
    survive: bool = false, "survive"
        "Whether a hand-over writes the changes back too, so that the death of a node takes only what no other node has seen" ["on"];
    /// With `survive`: a line that has been dirty for longer than this is written back in place,
    /// within two intervals. Zero: lines are written back when they leave, and where a structure
    /// asks for it.
    clean_interval: Duration = Duration::from_secs(1), "clean-interval"
        "With survive, how long a line stays dirty before it is written back in place; 0: until it leaves" [];

    @unnamed
    /// A mistake in the rules that a test plants, to show that checks detect the harm.
    plant: Option<fn(&mut Rules)> = None;
    /// Whether write-backs that the death of a node can tear go through journal slots, with
    /// `survive`. Tests turn it off, to show that checks detect the harm.
    journal: bool = true;
}
