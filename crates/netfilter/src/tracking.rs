//! Connection tracking of a namespace, while its rules need it.

/// Connection tracking of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Tracking;
