//! The thread that sees the ends of processes: a node that is killed is dead at once, and not with
//! its lease.
//!
//! Each node watches the processes of the other nodes of its machine, by handles (pidfds). Only the
//! end of a process counts. A process that is stopped, that cannot be reached or asked for, or that
//! runs elsewhere keeps its lease until the lease ends.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use latchwork_strict::strict_assert;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use crate::error::MembershipError;
use crate::name::NodeIncarnation;
use crate::process::{ProcessIdentity, end_lease};
use crate::shared::Shared;

/// The interval at which the thread checks whether it must end.
const LOOK: Duration = Duration::from_millis(200);
/// The time that the thread waits after an error, before it tries again.
const RETRY: Duration = Duration::from_millis(50);
const _: () = assert!(RETRY.as_millis() > 0 && RETRY.as_millis() < LOOK.as_millis());

/// What this node knows of the process of a member.
enum Watched {
    Lives(OwnedFd),
    /// The process has ended, and the store does not say so yet.
    Ended,
    /// Nothing is left to do, or the process cannot be watched.
    Over,
}

/// Readable when the view has changed.
pub(crate) struct News(Arc<OwnedFd>);

impl News {
    /// The news of a node.
    ///
    /// # Errors
    /// [`MembershipError::Thread`] when the kernel gives no descriptor.
    pub(crate) fn of(shared: &Shared) -> Result<Self, MembershipError> {
        let news = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| MembershipError::Thread { why: error.to_string() })?;
        let news = Arc::new(news);
        let tells = Arc::clone(&news);
        // A write fails only when the counter is full, and then the thread is woken anyway.
        shared.board.follow(Box::new(move |_| {
            let _ = rustix::io::write(&tells, &1_u64.to_ne_bytes());
        }));
        Ok(News(news))
    }

    /// Waits until the view has changed, a process that lives has ended, or `limit` is over.
    /// Returns whether the kernel could wait.
    fn wait(&self, watched: &mut BTreeMap<NodeIncarnation, Watched>, limit: Duration) -> bool {
        let lives = |watched: &Watched| matches!(watched, Watched::Lives(_));
        let ended = {
            let handles = watched.values().filter_map(|watched| match watched {
                Watched::Lives(handle) => Some(PollFd::new(handle, PollFlags::IN)),
                _ => None,
            });
            let mut all: Vec<_> =
                [PollFd::new(&self.0, PollFlags::IN)].into_iter().chain(handles).collect();
            let limit = Timespec {
                tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: limit.subsec_nanos().into(),
            };
            if poll(&mut all, Some(&limit)).is_err() {
                return false;
            }
            // Only this event is the end of a process: not an error of the handle.
            let ended = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
            all[1..].iter().map(ended).collect::<Vec<_>>()
        };
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
        let living = watched.values_mut().filter(|watched| lives(watched));
        for (watched, _) in living.zip(ended).filter(|(_, ended)| *ended) {
            *watched = Watched::Ended;
        }
        true
    }
}

/// Ends the leases of members whose processes end, until this node stops.
pub(crate) fn watch(shared: &Shared, news: &News) {
    let own = ProcessIdentity::own();
    let mut watched = BTreeMap::new();
    while !shared.board.is_stopped() {
        let view = shared.board.view();
        watched.retain(|party, _| view.is_there(*party));
        for member in view.joined() {
            watched.entry(member.party()).or_insert_with(|| {
                let process =
                    ProcessIdentity::of_member(member).filter(|it| Some(it) != own.as_ref());
                let handle = process.and_then(|process| process.open());
                handle.map_or(Watched::Over, Watched::Lives)
            });
        }
        let mut limit = LOOK;
        for (party, state) in &mut watched {
            strict_assert!(party.epoch <= view.revision, "a member of a later view");
            if !matches!(state, Watched::Ended) {
                continue;
            }
            match end_lease(&*shared.store, &shared.keys, *party, shared.limit) {
                Ok(_) => *state = Watched::Over,
                Err(error) => {
                    shared.board.trouble(error.to_string());
                    limit = RETRY;
                }
            }
        }
        if !news.wait(&mut watched, limit) {
            shared.board.pause(RETRY);
        }
    }
}
