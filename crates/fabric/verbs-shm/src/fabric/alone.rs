//! The part of a fabric that needs other processes, on systems without that part: every call fails.

use std::path::Path;
use std::time::Duration;

use super::Fabric;
use crate::config::{Cleaned, Config, Place};
use crate::{End, NodeName, ShmError};

impl Fabric {
    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn in_directory(_: impl Into<Place>, _: Config) -> Result<Self, ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn clean(_: &Path) -> Result<Cleaned, ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn contact(&self, _: NodeName) -> Result<String, ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn add_peer(&self, _: NodeName, _: &str) -> Result<(), ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn lives(&self, _: NodeName, _: &str) -> Result<bool, ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn stop(&self, _: NodeName, _: &str, _: Duration) -> Result<End, ShmError> {
        Err(ShmError::NotHere)
    }
}
