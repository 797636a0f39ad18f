//! The calls that concern other processes, on systems other than Linux: every call fails.

use std::path::Path;
use std::time::Duration;

use super::ShmFabric;
use crate::config::{Cleaned, Place, ShmConfig};
use crate::{ProcessEnd, ShmError, ShmNodeName};

impl ShmFabric {
    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn in_directory(_: impl Into<Place>, _: ShmConfig) -> Result<Self, ShmError> {
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
    pub fn contact(&self, _: ShmNodeName) -> Result<String, ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn add_peer(&self, _: ShmNodeName, _: &str) -> Result<(), ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn lives(&self, _: ShmNodeName, _: &str) -> Result<bool, ShmError> {
        Err(ShmError::NotHere)
    }

    /// Only on Linux.
    ///
    /// # Errors
    /// [`ShmError::NotHere`].
    pub fn stop(&self, _: ShmNodeName, _: &str, _: Duration) -> Result<ProcessEnd, ShmError> {
        Err(ShmError::NotHere)
    }
}
