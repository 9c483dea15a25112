//! Which hosts may be sent to.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::LookupError;

/// Which hosts a run may send to. Everything by default.
#[derive(Clone, Default)]
pub struct Permit(Option<Arc<PermitCheck>>);

/// Gets a host as it is written in a URL or a script, and its addresses. The error is
/// [`LookupError::NotPermitted`].
pub type PermitCheck = dyn Fn(&str, &[IpAddr]) -> Result<(), LookupError> + Send + Sync;

impl Permit {
    /// Permits what this function permits. It is asked before the first connection.
    #[must_use]
    pub fn by(check: Arc<PermitCheck>) -> Self {
        Self(Some(check))
    }

    pub(crate) fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), LookupError> {
        let check = self.0.as_ref();
        check.map_or(Ok(()), |check| check(host, addresses))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = if self.0.is_some() {
            "some"
        } else {
            "everything"
        };
        write!(formatter, "Permit({extent})")
    }
}
