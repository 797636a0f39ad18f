//! What a fabric in a directory has to do with other processes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region};

use super::Fabric;
use crate::ShmError;
use crate::across::Directory;
use crate::across::clean::{clean, refused};
use crate::across::contact::Contact;
use crate::across::owner::{lives, stop};
use crate::config::{Cleaned, Config, Place};
use crate::name::{End, NodeName};
use crate::node::{Elsewhere, Memory, Node, Post};
use crate::shared::Shared;

impl Fabric {
    /// A fabric of all processes that meet in this directory, without nodes and without peers. What
    /// processes that ended have left there is removed first; other files are not touched.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn in_directory(place: impl Into<Place>, config: Config) -> Result<Self, ShmError> {
        let directory = Directory::open(&place.into())?;
        Ok(Fabric { shared: Arc::new(Shared::new(config, Some(directory))) })
    }

    /// Removes what processes that ended have left in a directory, and nothing else; a directory
    /// that is not there has nothing.
    ///
    /// # Errors
    /// [`ShmError::OtherUser`] for a directory of another user; [`ShmError::File`] when the
    /// directory cannot be read, or a file of this user not be removed.
    pub fn clean(directory: &Path) -> Result<Cleaned, ShmError> {
        match clean(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Cleaned::default()),
            cleaned => cleaned
                .map_err(|error| refused("remove files of processes that ended", directory, error)),
        }
    }

    fn directory(&self) -> Result<&Directory, ShmError> {
        self.shared.directory.as_ref().ok_or(ShmError::OneProcess)
    }

    /// What the processes of peers must know of a node of this process, for [`Fabric::add_peer`].
    ///
    /// # Errors
    /// [`ShmError::OneProcess`], and [`ShmError::Unknown`] when this process has no such node.
    pub fn contact(&self, node: NodeName) -> Result<String, ShmError> {
        let (directory, unknown) =
            (self.directory()?, || ShmError::Unknown { node: node.to_string() });
        let contact = match node {
            NodeName::Memory(id) => {
                let memory = self.memory(id).ok_or_else(unknown)?;
                let contact = directory.memory_contact(id, memory.len() as u64);
                if !directory.has_made(&contact.path) {
                    return Err(unknown());
                }
                contact
            }
            NodeName::Compute(id) => {
                self.own(id).map_err(|_| unknown())?;
                directory.compute_contact(id)
            }
        };
        Ok(contact.to_string())
    }

    /// Learns of a node of another process. One that was cut off may come back under its name, with
    /// a new contact.
    ///
    /// Both sides have to know each other before one of them sends: whom a node does not know it
    /// does not hear. Neither has to be first.
    ///
    /// # Errors
    /// [`ShmError::Known`], [`ShmError::Ended`], and what is wrong with the contact or the files.
    pub fn add_peer(&self, node: NodeName, contact: &str) -> Result<(), ShmError> {
        let directory = self.directory()?;
        let contact: Contact = contact.parse()?;
        match node {
            NodeName::Memory(id) => self.add_memory_peer(directory, id, &contact),
            NodeName::Compute(id) => self.add_compute_peer(directory, id, &contact),
        }
    }

    fn add_memory_peer(
        &self,
        directory: &Directory,
        id: MemoryNodeId,
        contact: &Contact,
    ) -> Result<(), ShmError> {
        let mut memory = self.shared.memory.write();
        if let Some(Memory::There(_)) = memory.get(&id.0) {
            return Err(ShmError::Known { node: NodeName::Memory(id).to_string() });
        }
        let region = directory.map_memory(id, contact)?;
        let replaced = memory.insert(id.0, Memory::There(region)).is_some();
        drop(memory);
        if replaced {
            self.shared.count_change();
        }
        Ok(())
    }

    fn add_compute_peer(
        &self,
        directory: &Directory,
        id: ComputeNodeId,
        contact: &Contact,
    ) -> Result<(), ShmError> {
        let known = || ShmError::Known { node: NodeName::Compute(id).to_string() };
        let mut nodes = self.shared.nodes.write();
        let replaces = match nodes.get(&id) {
            Some(node) if node.mailbox().is_some() || !node.is_disconnected() => {
                return Err(known());
            }
            other => other.is_some(),
        };
        // The rings of that start were given up, with whatever stood in them.
        if !self.shared.meet((contact.incarnation, id)) {
            return Err(known());
        }
        let added = self.map_compute_peer(directory, id, contact).and_then(|elsewhere| {
            for (own, node) in nodes.iter() {
                if let Some(mailbox) = node.mailbox() {
                    self.connect((*own, mailbox), (id, &elsewhere))?;
                }
            }
            Ok(elsewhere)
        });
        let elsewhere = added?;
        nodes.insert(id, Arc::new(Node::new(Post::Elsewhere(elsewhere))));
        drop(nodes);
        if replaces {
            self.shared.count_change();
        }
        Ok(())
    }

    fn map_compute_peer(
        &self,
        directory: &Directory,
        id: ComputeNodeId,
        contact: &Contact,
    ) -> Result<Elsewhere, ShmError> {
        let page = directory.map_page(id, contact)?;
        let (shared, incarnation) = (Arc::downgrade(&self.shared), contact.incarnation);
        let map = move |file, bytes| -> Option<Arc<Region>> {
            let shared = shared.upgrade()?;
            shared.directory.as_ref()?.map_region(incarnation, file, bytes)
        };
        Ok(Elsewhere::new(page, incarnation, Box::new(map)))
    }

    /// Whether the process lives that made a contact.
    ///
    /// # Errors
    /// What is wrong with the contact, or with looking at its files.
    pub fn lives(&self, node: NodeName, contact: &str) -> Result<bool, ShmError> {
        let (directory, contact) = (self.directory()?, contact.parse::<Contact>()?);
        lives(&directory.owner_of(&contact, &directory.name_of(node, contact.incarnation))?)
    }

    /// Kills the process that made a contact, and returns when it has ended: from then on it
    /// touches no memory any more. For one whose lease has ended while it may still be running; its
    /// nodes are to be [disconnected](Fabric::disconnect) as well.
    ///
    /// Only a process that holds the lock of its files in this fabric's directory is killed, and
    /// whose start the kernel confirms.
    ///
    /// # Errors
    /// [`ShmError::NotEnded`] when it is still there after `patience`, [`ShmError::Unproven`] when
    /// it is not certain whose the files are, [`ShmError::OwnProcess`], and what is wrong with the
    /// contact.
    pub fn stop(&self, node: NodeName, contact: &str, patience: Duration) -> Result<End, ShmError> {
        let (directory, contact) = (self.directory()?, contact.parse::<Contact>()?);
        let owner = directory.owner_of(&contact, &directory.name_of(node, contact.incarnation))?;
        stop(&owner, patience)
    }
}
