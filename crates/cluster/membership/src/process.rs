//! [`ProcessIdentity`]: which process of which machine a node is.

use std::fmt;
use std::fs;
use std::str::FromStr;

use latchwork_strict::strict_assert;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::error::MembershipError;
use crate::keys::Keys;
use crate::name::NodeIncarnation;
use crate::store::{KeyChange, Store};
use crate::view::{View, ViewMember};

/// The contact with a node's [`ProcessIdentity`]. A join adds it.
pub(crate) const CONTACT: &str = "process";

/// A process, distinct from every earlier and later one with its number, and from those of other
/// machines and of other containers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessIdentity {
    pid: i32,
    /// The start of the process, in clock ticks since the start of the machine.
    started: u64,
    /// The boot id of the machine, and the inode number of the namespace of process ids.
    space: String,
}

impl ProcessIdentity {
    /// The identity of this process; `None` when `/proc` does not tell it.
    pub fn own() -> Option<Self> {
        Self::of(getpid().as_raw_pid().unsigned_abs())
    }

    /// The identity of the process that has this number now, also when it has ended and its parent
    /// has not waited for it. `None` without such a process, or when `/proc` does not tell it.
    pub fn of(pid: u32) -> Option<Self> {
        // In a container, `/proc` may be that of another namespace, where numbers mean others.
        let own = fs::read_link("/proc/self").ok()?;
        if own.to_str()? != getpid().as_raw_pid().to_string() {
            return None;
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let digits = namespace.to_str()?.chars().filter(char::is_ascii_digit);
        let space = format!("{}/{}", boot.trim(), digits.collect::<String>());
        let pid = i32::try_from(pid).ok()?;
        Some(ProcessIdentity { pid, started: started(pid)?, space })
    }

    /// The identity in the contact of a member.
    pub(crate) fn of_member(member: &ViewMember) -> Option<Self> {
        member.contact.get(CONTACT)?.parse().ok()
    }

    /// A handle of the process, if it exists in the namespace of this process. The handle is
    /// readable when the process has ended, and not before.
    ///
    /// The number was that of the process when it registered. So the handle is one of the process,
    /// or of a later one with its number; then the process has ended as well. The start time is
    /// read behind the handle. It refuses the processes of a machine with the same boot id, such as
    /// another copy of a virtual machine. A process that was never seen alive is not taken for a
    /// dead one.
    pub(crate) fn open(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        let is_it = Self::of(self.pid.unsigned_abs()).is_some_and(|found| found == *self);
        is_it.then_some(handle)
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.pid, self.started, self.space)
    }
}

impl FromStr for ProcessIdentity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let [pid, started, space] = text.split(' ').collect::<Vec<_>>()[..] else { return Err(()) };
        let (pid, started) = (pid.parse().map_err(drop)?, started.parse().map_err(drop)?);
        Ok(ProcessIdentity { pid, started, space: space.to_owned() })
    }
}

/// The start time of the process; `None` when `/proc` has no such process.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may contain any character. So the search
    // begins behind the last parenthesis, at the third field. The start time is field 22.
    stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// Ends the leases of all nodes of `cluster` that are this process. The caller has seen its end:
/// as its parent, which has waited for it. Returns how many there were. Takes about two times
/// `limit` at most.
///
/// Other processes of the machine that are nodes of the cluster do this by themselves.
///
/// # Errors
/// [`MembershipError::Name`] for a wrong name of a cluster; an error of the store. The leases end
/// by themselves then.
pub fn end_leases(
    store: &dyn Store,
    cluster: &str,
    ended: &ProcessIdentity,
    limit: std::time::Duration,
) -> Result<usize, MembershipError> {
    let keys = Keys::new(cluster)?;
    let view = View::read(&store.describe(), &keys, &store.range(&keys.view(), limit)?)?;
    let its = |member: &&ViewMember| ProcessIdentity::of_member(member).as_ref() == Some(ended);
    let mut count = 0;
    for member in view.joined().filter(its) {
        count += usize::from(end_lease(store, &keys, member.party(), limit)?);
    }
    Ok(count)
}

/// Makes a node dead that has not left and whose process has certainly ended. Returns whether it
/// was in the cluster until now.
///
/// The transaction names the member epoch, so it ends no later registration. The lease itself ends
/// in time, with the control messages that are attached to it.
pub(crate) fn end_lease(
    store: &dyn Store,
    keys: &Keys,
    ended: NodeIncarnation,
    limit: std::time::Duration,
) -> Result<bool, MembershipError> {
    strict_assert!(ended.epoch > 0, "a node that never joined has died");
    let changes = [KeyChange::Delete(keys.alive(ended.node))];
    let made = store.commit(&[keys.is_alive(ended.node, ended.epoch)], &changes, limit)?;
    if made.is_some() {
        tracing::warn!(node = %ended.node, epoch = ended.epoch, "its process has ended");
    }
    Ok(made.is_some())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let own = ProcessIdentity::own().unwrap();
        assert_eq!(own.to_string().parse(), Ok(own.clone()));
        assert!("1 2".parse::<ProcessIdentity>().is_err());
        assert!(own.open().is_some());
    }

    #[test]
    fn neither_another_start_nor_another_place_nor_an_unknown_number_is_opened() {
        let own = ProcessIdentity::own().unwrap();
        let earlier = ProcessIdentity { started: own.started - 1, ..own.clone() };
        let elsewhere = ProcessIdentity { space: "other/1".into(), ..own.clone() };
        let unknown = ProcessIdentity { pid: i32::MAX, ..own };
        for identity in [earlier, elsewhere, unknown] {
            assert!(identity.open().is_none(), "{identity}");
        }
    }

    #[test]
    fn a_child_is_known_until_its_parent_has_waited() {
        let mut child = Command::new("true").spawn().unwrap();
        let before = ProcessIdentity::of(child.id()).unwrap();
        assert!(before.open().is_some());
        child.wait().unwrap();
        assert!(before.open().is_none());
    }
}
