//! The calls of a fabric in a directory that concern other processes: peers, contacts, and the end
//! of a process.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region};

use super::ShmFabric;
use crate::ShmError;
use crate::across::Directory;
use crate::across::clean::{clean, refused};
use crate::across::contact::Contact;
use crate::across::owner::{lives, stop};
use crate::config::{Cleaned, Place, ShmConfig};
use crate::name::{ProcessEnd, ShmNodeName};
use crate::node::{Elsewhere, Memory, Node, Post};
use crate::shared::Shared;

impl ShmFabric {
    /// Makes this process's part of the fabric in a directory, without nodes and without peers. The
    /// call first removes the files of ended processes, and changes no file of a living process.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn in_directory(place: impl Into<Place>, config: ShmConfig) -> Result<Self, ShmError> {
        let directory = Directory::open(&place.into())?;
        Ok(ShmFabric { shared: Arc::new(Shared::new(config, Some(directory))) })
    }

    /// Removes the files of ended processes from a directory, and nothing else. A missing directory
    /// counts as empty.
    ///
    /// # Errors
    /// [`ShmError::OtherUser`] for a directory of another user; [`ShmError::File`] when the
    /// directory cannot be read, or when a file of this user cannot be removed.
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

    /// The contact of a node of this process: the text that other processes need for
    /// [`ShmFabric::add_peer`].
    ///
    /// # Errors
    /// [`ShmError::OneProcess`], and [`ShmError::Unknown`] when this process has no such node.
    pub fn contact(&self, node: ShmNodeName) -> Result<String, ShmError> {
        let (directory, unknown) =
            (self.directory()?, || ShmError::Unknown { node: node.to_string() });
        let contact = match node {
            ShmNodeName::Memory(id) => {
                let Some(Memory::There(memory)) = self.shared.memory(id) else {
                    return Err(unknown());
                };
                let contact = directory.memory_contact(id, memory.extent());
                if !directory.has_made(&contact.path) {
                    return Err(unknown());
                }
                contact
            }
            ShmNodeName::Compute(id) => {
                self.own(id).map_err(|_| unknown())?;
                directory.compute_contact(id)
            }
        };
        Ok(contact.to_string())
    }

    /// Adds a node of another process as a peer. A node that was cut off may come back under its
    /// name, with a new contact.
    ///
    /// Both processes must add each other's compute nodes before either sends, because a node
    /// receives messages only from nodes that its process has added. Either process may be first.
    ///
    /// # Errors
    /// [`ShmError::OneProcess`], [`ShmError::Known`], [`ShmError::Ended`], [`ShmError::NoRoom`],
    /// and errors in the contact or the files.
    pub fn add_peer(&self, node: ShmNodeName, contact: &str) -> Result<(), ShmError> {
        let directory = self.directory()?;
        let contact: Contact = contact.parse()?;
        match node {
            ShmNodeName::Memory(id) => self.add_memory_peer(directory, id, &contact),
            ShmNodeName::Compute(id) => self.add_compute_peer(directory, id, &contact),
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
            return Err(ShmError::Known { node: ShmNodeName::Memory(id).to_string() });
        }
        let mapped = directory.map_memory(id, contact)?;
        let replaced = memory.insert(id.0, Memory::There(mapped)).is_some();
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
        let known = || ShmError::Known { node: ShmNodeName::Compute(id).to_string() };
        let mut nodes = self.shared.nodes.write();
        let replaces = match nodes.get(&id) {
            Some(node) if node.mailbox().is_some() || !node.is_disconnected() => {
                return Err(known());
            }
            other => other.is_some(),
        };
        // An earlier call was for this same start of the process. If the earlier call succeeded,
        // the cut-off has removed the rings, with the messages in them. So a second connection
        // would lose messages.
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

    /// Whether the process that made a contact lives.
    ///
    /// # Errors
    /// [`ShmError::OneProcess`], errors in the contact, and errors in reading its files.
    pub fn lives(&self, node: ShmNodeName, contact: &str) -> Result<bool, ShmError> {
        let (directory, contact) = (self.directory()?, contact.parse::<Contact>()?);
        lives(&directory.owner_of(&contact, &directory.name_of(node, contact.incarnation))?)
    }

    /// Kills the process that made a contact, and returns when the process has ended. After the
    /// return the process touches no memory. This call is for a process that may still run although
    /// its lease has ended. The caller must also [disconnect](ShmFabric::disconnect) the nodes of
    /// the process.
    ///
    /// The call kills a process only if the process holds the lock of its owner's file in this
    /// fabric's directory. The kernel must also confirm the start time in this file.
    ///
    /// # Errors
    /// [`ShmError::NotEnded`] when the process still exists after `patience`,
    /// [`ShmError::Unproven`] when the owner of the files is not certain, [`ShmError::OwnProcess`],
    /// [`ShmError::OneProcess`], [`ShmError::File`] when the operating system refuses a call, and
    /// errors in the contact.
    pub fn stop(
        &self,
        node: ShmNodeName,
        contact: &str,
        patience: Duration,
    ) -> Result<ProcessEnd, ShmError> {
        let (directory, contact) = (self.directory()?, contact.parse::<Contact>()?);
        let owner = directory.owner_of(&contact, &directory.name_of(node, contact.incarnation))?;
        stop(&owner, patience)
    }
}
